/* script_journal: see script_journal.h. */
#include "tests/lib/script_journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/list.h"

static struct script *script_of(const struct journal *journal)
{
    return container_of(journal->ops, struct script, ops);
}

static int script_journal_open(struct journal *journal, const struct journal_config *config,
                               struct errmsg *why)
{
    const struct script *script = script_of(journal);
    (void)why;
    journal->parts = script->parts;
    if (config->mode != JOURNAL_AUDIT)
        journal->campaign = (struct journal_campaign){
            .id = script->campaigns[script->campaign_count - 1], .description = "{}"};
    return 0;
}

static void script_journal_close(struct journal *journal)
{
    (void)journal; /* the script is the test's */
}

static int script_list(struct journal *journal,
                       int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                       struct errmsg *why)
{
    const struct script *script = script_of(journal);
    int result = 0;
    (void)why;
    for (unsigned i = 0; i < script->campaign_count && result == 0; i++) {
        const struct journal_campaign campaign = {.id = script->campaigns[i], .description = "{}"};
        result = visit(arg, &campaign);
    }
    return result;
}

static bool is_wanted(uint32_t kinds, enum record_kind kind)
{
    return kind < RECORD_BEGIN || kind > RECORD_END || (kinds & 1u << kind) != 0;
}

static int script_scan(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                       journal_visit *visit, void *arg, struct errmsg *why)
{
    const struct script *script = script_of(journal);
    size_t seen = 0;
    int result = 0;
    for (size_t i = 0; i < script->count && result == 0; i++) {
        const struct script_record *at = &script->records[i];
        if (at->part != part || (campaign != 0 && at->record.campaign != campaign))
            continue;
        if (seen++ == script->scan_fails_after)
            return errmsg_set(why, -EIO, "part %u cannot be read", part);
        if (is_wanted(kinds, at->record.kind))
            result = visit(arg, &at->record);
    }
    return result;
}

static int read_run(const struct script *script, uint64_t campaign, unsigned part, uint64_t run,
                    journal_visit *visit, void *arg, struct errmsg *why)
{
    int result = 0;
    for (size_t i = 0; i < script->count && result == 0; i++) {
        const struct script_record *at = &script->records[i];
        if (at->part != part || at->record.campaign != campaign || at->record.run != run)
            continue;
        if (at->is_unreadable)
            return errmsg_set(why, -EBADMSG, "run %u is damaged", (unsigned)run);
        if (!at->is_hidden)
            result = visit(arg, &at->record);
    }
    return result;
}

static int script_read_runs(struct journal *journal, unsigned part, const uint64_t *runs,
                            unsigned count, journal_visit *visit, void *arg, struct errmsg *why)
{
    const struct script *script = script_of(journal);
    int result = 0;
    for (unsigned i = 0; i < count && result == 0; i++) {
        uint64_t run = runs[script->are_runs_reversed ? count - 1 - i : i];
        result = read_run(script, journal->campaign.id, part, run, visit, arg, why);
        if (script->does_read_fail)
            return errmsg_set(why, -EIO, "run %u cannot be read", (unsigned)run);
    }
    return result;
}

void script_init(struct script *script, unsigned parts)
{
    *script = (struct script){
        .ops = {.name = "script",
                .levels = {DURABILITY_POWER, DURABILITY_NONE},
                .open = script_journal_open,
                .close = script_journal_close,
                .list = script_list,
                .scan = script_scan,
                .read_runs = script_read_runs},
        .parts = parts,
        .campaigns = {1},
        .campaign_count = 1,
        .scan_fails_after = SIZE_MAX,
    };
}

void script_free(struct script *script)
{
    for (size_t i = 0; i < script->count; i++)
        if (script->records[i].is_copy)
            free((char *)script->records[i].record.payload); /* our own copy */
    free(script->records);
}

void script_add(struct script *script, unsigned part, const struct journal_record *record)
{
    if (script->count == script->capacity) {
        script->capacity = script->capacity == 0 ? 64 : 2 * script->capacity;
        script->records = realloc(script->records, script->capacity * sizeof(script->records[0]));
        if (script->records == NULL)
            abort();
    }
    script->records[script->count++] = (struct script_record){.part = part, .record = *record};
}

void script_add_copy(struct script *script, unsigned part, const struct journal_record *record)
{
    char *payload = malloc(record->bytes + 1);
    if (payload == NULL)
        abort();
    memcpy(payload, record->payload, record->bytes);
    script_add(script, part, record);
    script->records[script->count - 1].record.payload = payload;
    script->records[script->count - 1].is_copy = true;
}

struct journal *script_open(struct script *script, enum journal_mode mode)
{
    struct journal *journal = NULL;
    struct errmsg why;
    const struct journal_config config = {.uri = "script", .mode = mode, .writers = 1};
    if (journal_open_ops(&journal, &script->ops, &config, &why) != 0)
        abort();
    return journal;
}
