/* sim_journal: see sim_journal.h. */
#include "tests/lib/sim_journal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "engine/base/digest.h"
#include "engine/base/prng.h"
#include "tests/lib/loop_sim.h"
#include "tests/lib/wrapped_journal.h"

enum {
    STALL_ONE_IN = 8,
    /* Both batches of a writer, and some who find no room. */
    SQUATTER_APPENDS = 2 * JOURNAL_BATCH_RECORDS_MAX + 50,
};

struct sim_writer {
    struct wrapped_writer wrapped;
    struct sim_faults faults;
    struct prng prng;
    uint64_t commits;
    uint64_t records; /* taken by the store */
    bool has_failed;
};
static_assert(offsetof(struct sim_writer, wrapped) == 0, "a writer begins with its wrapper");

/* The store takes the first `count` records of the batch; the rest is refused. */
static void take(struct sim_writer *sim, struct journal_batch *batch, uint32_t count, int refusal)
{
    uint32_t all = batch->count;
    for (uint32_t i = count; i < all; i++)
        batch->entries[i].result = (int16_t)refusal;
    sim->has_failed = sim->has_failed || count < all;
    sim->records += count;
    if (count == 0) {
        journal_commit_done(sim->wrapped.writer);
        return;
    }
    batch->count = count;
    wrapped_commit(&sim->wrapped, batch);
    batch->count = all;
}

static void settle(struct sim_writer *sim, struct journal_batch *batch)
{
    const struct sim_faults *faults = &sim->faults;
    sim->commits++;
    if (sim->commits == faults->error_at) {
        take(sim, batch, 0, -EIO);
        return;
    }
    uint64_t room = faults->full_after > 0 ? faults->full_after - sim->records : UINT64_MAX;
    take(sim, batch, batch->count < room ? batch->count : (uint32_t)room, JOURNAL_FULL);
}

static void on_settled(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct sim_writer *sim = container_of(timer, struct sim_writer, wrapped.timer);
    settle(sim, wrapped_take(&sim->wrapped));
}

static void sim_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    struct sim_writer *sim = writer->impl;
    const struct sim_faults *faults = &sim->faults;
    assert(sim->wrapped.batch == NULL);
    if (faults->busy_ns_max > 0)
        loop_sim_spend(writer->loop, prng_below(&sim->prng, faults->busy_ns_max));
    if (faults->delay_ns_max == 0) {
        settle(sim, batch);
        return;
    }
    uint64_t delay_ns = prng_below(&sim->prng, faults->delay_ns_max) + 1;
    if (prng_below(&sim->prng, STALL_ONE_IN) == 0)
        delay_ns += faults->stall_ns;
    wrapped_delay(&sim->wrapped, batch, delay_ns);
}

static int sim_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    return wrapped_writer_open(writer, sizeof(struct sim_writer), on_settled, why);
}

void sim_journal_set_faults(struct journal_writer *writer, const struct sim_faults *faults)
{
    assert(writer->journal->ops == &sim_journal_ops);
    struct sim_writer *sim = writer->impl;
    sim->faults = *faults;
    sim->prng = prng_stream(faults->seed, writer->index, PRNG_TEST, 0);
}

bool sim_journal_has_failed(const struct journal_writer *writer)
{
    assert(writer->journal->ops == &sim_journal_ops);
    return ((const struct sim_writer *)writer->impl)->has_failed;
}

const struct journal_ops sim_journal_ops = {
    .name = "sim",
    .levels = {DURABILITY_NONE},
    .open = wrapped_open,
    .close = wrapped_close,
    .writer_open = sim_writer_open,
    .writer_close = wrapped_writer_close,
    .commit = sim_commit,
    .read = wrapped_read,
    .scan = wrapped_scan,
};

/* --- the squatter --- */

static void squat(struct sim_seat *seat)
{
    journal_append(seat->squatter->writer, &seat->append, RECORD_BEGIN, "{}", 2);
}

static void on_squatted(struct journal_append *append, int result)
{
    struct sim_seat *seat = container_of(append, struct sim_seat, append);
    if (result != JOURNAL_AGAIN)
        return; /* recorded, or refused: either way nothing more comes of it */
    seat->squatter->again_count++;
    squat(seat);
}

static void on_time_to_squat(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct sim_squatter *squatter = container_of(timer, struct sim_squatter, timer);
    for (unsigned i = 0; i < SQUATTER_APPENDS; i++) {
        squatter->seats[i] = (struct sim_seat){
            .append = {.done = on_squatted,
                       .run = SIM_SQUATTER_RUN + ((uint64_t)squatter->writer->index << 20) + i,
                       .digest = DIGEST_START},
            .squatter = squatter,
        };
        squat(&squatter->seats[i]);
    }
}

int sim_squatter_start(struct sim_squatter *squatter, struct journal_writer *writer, uint64_t at_ns)
{
    *squatter = (struct sim_squatter){.writer = writer};
    squatter->seats = calloc(SQUATTER_APPENDS, sizeof(squatter->seats[0]));
    if (squatter->seats == NULL)
        return -ENOMEM;
    timer_init(&squatter->timer, on_time_to_squat);
    loop_timer_start(writer->loop, &squatter->timer, at_ns);
    return 0;
}

void sim_squatter_free(struct sim_squatter *squatter)
{
    free(squatter->seats);
}
