/* progress_format: the text of the progress line, in the room that there is. See progress.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/progress.h"
#include "engine/base/clock.h"
#include "engine/base/units.h"

enum { PIECE_BYTES = 64, PIECES_MAX = 12 };

/* In the order of the line. The lowest rank is left out first. */
struct piece {
    char text[PIECE_BYTES];
    unsigned rank;
};

struct pieces {
    struct piece list[PIECES_MAX];
    size_t count;
};

/* The numbers are whole, and no text is longer than a piece. */
static char *add(struct pieces *pieces, unsigned rank)
{
    struct piece *piece = &pieces->list[pieces->count++];
    assert(pieces->count <= PIECES_MAX);
    piece->rank = rank;
    piece->text[0] = '\0';
    return piece->text;
}

static uint64_t round_ns(uint64_t ns, uint64_t to_ns)
{
    return (ns + to_ns / 2) / to_ns * to_ns;
}

/* Without those of the warm-up once it is over. */
static uint64_t runs_done(const struct campaign_progress *now)
{
    return now->is_warming ? now->runs_ended : now->runs_ended - now->warmup_ended;
}

/* How many runs there are to drive; 0 where that is not known: of those of a campaign that is
 * resumed, most have ended before. */
static uint64_t runs_to_drive(const struct progress_figures *figures)
{
    bool is_known = figures->config->mode == JOURNAL_NEW && !figures->now.is_warming;
    return is_known ? figures->config->runs : 0;
}

/* Time until the campaign starts no more runs; 0 when nothing can be said. */
static uint64_t estimate_left_ns(const struct progress_figures *figures)
{
    const struct campaign_config *config = figures->config;
    const struct campaign_progress *now = &figures->now;
    uint64_t done = runs_done(now);
    if (config->mode != JOURNAL_NEW || (config->is_steady && now->is_warming))
        return 0;
    if (config->runs == 0) {
        uint64_t all_ns = config->is_steady ? config->duration_ns : campaign_issuing_ns(config);
        uint64_t past_ns = config->is_steady ? now->measured_ns : now->elapsed_ns;
        return past_ns < all_ns ? all_ns - past_ns : 0;
    }
    if (figures->runs_per_s <= 0 || done >= config->runs || now->is_warming)
        return 0;
    double left_s = (double)(config->runs - done) / figures->runs_per_s;
    return left_s < 86400 ? (uint64_t)(left_s * (double)NS_PER_S) : 0;
}

static void add_runs(struct pieces *pieces, const struct progress_figures *figures)
{
    uint64_t total = runs_to_drive(figures);
    uint64_t done = runs_done(&figures->now);
    char *text = add(pieces, 90);
    if (total == 0) {
        (void)snprintf(text, PIECE_BYTES, " runs=%" PRIu64, done);
        return;
    }
    (void)snprintf(text, PIECE_BYTES, " runs=%" PRIu64 "/%" PRIu64, done, total);
    (void)snprintf(add(pieces, 20), PIECE_BYTES, " (%.0f%%)",
                   (double)(uint64_t)(100 * (double)done / (double)total));
}

static void add_times(struct pieces *pieces, const struct progress_figures *figures)
{
    char time[UNITS_TEXT_BYTES] = "-";
    if (!figures->has_p99)
        return;
    if (figures->is_p99_known)
        (void)units_format_duration(figures->p99_ns, time);
    (void)snprintf(add(pieces, 60), PIECE_BYTES, " p99=%s", time);
}

static void gather(struct pieces *pieces, const struct progress_figures *figures)
{
    const struct campaign_progress *now = &figures->now;
    char time[UNITS_TEXT_BYTES];
    uint64_t elapsed_ns = round_ns(now->elapsed_ns, figures->resolution_ns);
    uint64_t left_ns = round_ns(estimate_left_ns(figures), NS_PER_S);
    (void)snprintf(add(pieces, 100), PIECE_BYTES, "%s",
                   units_format_duration_exact(elapsed_ns, time));
    if (now->is_warming)
        (void)snprintf(add(pieces, 70), PIECE_BYTES, " warm-up");
    add_runs(pieces, figures);
    (void)snprintf(add(pieces, 80), PIECE_BYTES, " rate=%.0f/s", figures->runs_per_s);
    add_times(pieces, figures);
    (void)snprintf(add(pieces, 40), PIECE_BYTES, " in-flight=%" PRIu64,
                   now->runs_started - now->runs_ended);
    if (campaign_is_open_loop(figures->config))
        (void)snprintf(add(pieces, 50), PIECE_BYTES, " backlog=%" PRIu64, campaign_backlog(now));
    (void)snprintf(add(pieces, 85), PIECE_BYTES, " errors=%" PRIu64, figures->errors);
    if (figures->note != NULL) {
        (void)snprintf(add(pieces, 95), PIECE_BYTES, " %s", figures->note);
        return;
    }
    if (left_ns > 0)
        (void)snprintf(add(pieces, 55), PIECE_BYTES, " left=%s",
                       units_format_duration_exact(left_ns, time));
    /* A long run ends nothing for a while, and is at work. */
    (void)snprintf(add(pieces, 10), PIECE_BYTES, " records=%.0f/s", figures->records_per_s);
}

static size_t columns_of(const struct pieces *pieces)
{
    size_t columns = 0;
    for (size_t i = 0; i < pieces->count; i++)
        columns += strlen(pieces->list[i].text);
    return columns;
}

static void leave_one_out(struct pieces *pieces)
{
    struct piece *least = &pieces->list[0];
    for (size_t i = 0; i < pieces->count; i++) {
        struct piece *piece = &pieces->list[i];
        bool is_there = piece->text[0] != '\0';
        if (is_there && (least->text[0] == '\0' || piece->rank < least->rank))
            least = piece;
    }
    least->text[0] = '\0';
}

void progress_format(char line[PROGRESS_LINE_BYTES], const struct progress_figures *figures,
                     size_t columns)
{
    struct pieces pieces = {.count = 0};
    size_t size = 0;
    gather(&pieces, figures);
    if (columns > PROGRESS_LINE_BYTES - 1)
        columns = PROGRESS_LINE_BYTES - 1;
    while (columns_of(&pieces) > columns)
        leave_one_out(&pieces);
    for (size_t i = 0; i < pieces.count; i++) {
        size_t bytes = strlen(pieces.list[i].text);
        memcpy(line + size, pieces.list[i].text, bytes);
        size += bytes;
    }
    line[size] = '\0';
}
