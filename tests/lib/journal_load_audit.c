/* journal_load_audit: the part of journal_load.h that holds what is there against what was said. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "tests/lib/journal_load.h"

/* One reading of all records: a scan of a part, or its runs one by one. */
struct look {
    struct journal_load *load;
    struct journal_load_audit *audit;
    char *payload;
    uint32_t *next_seqs; /* of each run */
    uint64_t *digests;   /* likewise, as recorded */
    uint64_t *runs;      /* in the order in which they were met in this part */
    unsigned runs_count;
    uint64_t records;
    uint64_t bytes;
    uint64_t begins;
    uint64_t ends;
};

static void tell(struct look *look, uint64_t *count, const struct journal_record *record,
                 const char *what)
{
    if (++*count == 1 && look->audit->why.text[0] == '\0')
        (void)errmsg_set(&look->audit->why, 0, "run %" PRIu64 " seq %u: %s", record->run,
                         record->seq, what);
}

static void check_bytes(struct look *look, const struct journal_record *record)
{
    const struct journal_load_run *run = &look->load->runs[record->run];
    uint64_t digest = digest_chain(look->digests[record->run], record->payload, record->bytes);
    uint32_t bytes =
        journal_load_payload(&look->load->config, record->run, record->seq, look->payload);
    bool is_chained = digest == record->digest;
    bool is_ours = bytes == record->bytes &&
                   (bytes == 0 || memcmp(look->payload, record->payload, bytes) == 0) &&
                   record->kind == journal_load_kind(run, record->seq);
    if (is_ours && is_chained)
        return;
    /* The kind is not under the digest: the engine's payloads say of what kind they are. */
    if (is_chained && record->kind == journal_load_kind(run, record->seq))
        look->audit->undetected++;
    tell(look, &look->audit->wrong, record,
         is_chained ? "other bytes, with a digest that fits" : "a digest that does not fit");
}

/* Whether it is a record that the load has. */
static bool is_of_load(const struct look *look, const struct journal_record *record)
{
    return record->run < look->load->config.runs &&
           record->seq < look->load->runs[record->run].records_count;
}

static void check_told(struct look *look, const struct journal_record *record)
{
    switch ((enum journal_load_told)look->load->runs[record->run].told[record->seq]) {
    case LOAD_TOLD_NOTHING:
        tell(look, &look->audit->refused_there, record, "is there and was never appended");
        break;
    case LOAD_TOLD_REFUSED:
        tell(look, &look->audit->refused_there, record, "is there and was refused");
        break;
    case LOAD_TOLD_UNKNOWN:
        look->audit->unknown_there++;
        break;
    case LOAD_TOLD_ACKED:
        break;
    }
}

static int visit(void *arg, const struct journal_record *record)
{
    struct look *look = arg;
    look->records++;
    look->bytes += record->bytes;
    look->begins += record->kind == RECORD_BEGIN;
    look->ends += record->kind == RECORD_END;
    if (record->campaign != look->load->campaign)
        tell(look, &look->audit->misnamed, record, "is said to be another campaign's");
    if (!is_of_load(look, record)) {
        tell(look, &look->audit->wrong, record, "is none of the load's");
        return 0;
    }
    if (record->seq != look->next_seqs[record->run]) {
        tell(look, &look->audit->out_of_order, record, "is not the next one of its run");
        return 0;
    }
    if (record->seq == 0)
        look->runs[look->runs_count++] = record->run;
    check_bytes(look, record);
    check_told(look, record);
    look->next_seqs[record->run]++;
    look->digests[record->run] = record->digest;
    return 0;
}

static bool fail(struct journal_load_audit *audit, int error, const struct errmsg *why)
{
    assert(error != 0);
    if (audit->error == 0) {
        audit->error = error;
        audit->why = *why;
    }
    return false;
}

/* Reads the part's runs one by one, and counts it: all must say what the scan did. */
static bool compare_part(struct look *look, unsigned part)
{
    struct journal_load_audit other = {0};
    struct look again = {.load = look->load, .audit = &other, .payload = look->payload};
    struct journal_count count = {0};
    struct errmsg why = {""};
    unsigned runs = look->load->config.runs + 1;
    again.next_seqs = calloc(runs, sizeof(again.next_seqs[0]));
    again.digests = calloc(runs, sizeof(again.digests[0]));
    again.runs = calloc(runs, sizeof(again.runs[0]));
    if (again.next_seqs == NULL || again.digests == NULL || again.runs == NULL)
        abort();
    int error = 0;
    if (look->runs_count > 0)
        error = journal_read_runs(look->load->journal, part, look->runs, look->runs_count, visit,
                                  &again, &why);
    if (error == 0)
        error = journal_count(look->load->journal, part, &count, &why);
    free(again.next_seqs);
    free(again.digests);
    free(again.runs);
    if (error != 0)
        return fail(look->audit, error, &why);
    bool agrees = again.records == look->records && count.records == look->records &&
                  count.bytes == look->bytes && count.begins == look->begins &&
                  count.ends == look->ends && other.wrong == 0 && other.out_of_order == 0;
    if (!agrees && look->audit->disagreed++ == 0 && look->audit->why.text[0] == '\0')
        (void)errmsg_set(&look->audit->why, 0,
                         "part %u: scanned %" PRIu64 " records, read %" PRIu64 ", counted %" PRIu64
                         "; bytes %" PRIu64 ", counted %" PRIu64 "; %s",
                         part, look->records, again.records, count.records, look->bytes,
                         count.bytes, other.why.text);
    return true;
}

static bool look_at_part(struct look *look, unsigned part)
{
    struct errmsg why = {""};
    look->runs_count = 0;
    look->records = look->bytes = look->begins = look->ends = 0;
    int error = journal_scan(look->load->journal, look->load->campaign, part, UINT32_MAX, visit,
                             look, &why);
    look->audit->records += look->records;
    if (error != 0)
        return fail(look->audit, error, &why);
    return journal_campaign(look->load->journal) == NULL || compare_part(look, part);
}

struct listing {
    const struct journal_load *load;
    unsigned met;
    unsigned wrong;
};

static int visit_campaign(void *arg, const struct journal_campaign *campaign)
{
    struct listing *listing = arg;
    if (campaign->id != listing->load->campaign)
        return 0;
    listing->met++;
    listing->wrong += campaign->key != listing->load->config.key ||
                      strcmp(campaign->description, "{\"load\":true}") != 0;
    return 0;
}

static bool look_at_list(struct look *look)
{
    struct listing listing = {.load = look->load};
    struct errmsg why = {""};
    int error = journal_list(look->load->journal, visit_campaign, &listing, &why);
    if (error != 0)
        return fail(look->audit, error, &why);
    if ((listing.met != 1 || listing.wrong > 0) && look->audit->disagreed++ == 0 &&
        look->audit->why.text[0] == '\0')
        (void)errmsg_set(&look->audit->why, 0, "the campaign is listed %u times, %u of them wrong",
                         listing.met, listing.wrong);
    return true;
}

static void count_lost(struct look *look)
{
    for (uint64_t number = 0; number < look->load->config.runs; number++) {
        struct journal_load_run *run = &look->load->runs[number];
        run->found_count = look->next_seqs[number];
        for (uint32_t seq = run->found_count; seq < run->records_count; seq++)
            if (run->told[seq] == LOAD_TOLD_ACKED)
                tell(look, &look->audit->acked_lost,
                     &(struct journal_record){.run = number, .seq = seq},
                     "was acked and is not there");
    }
}

void journal_load_look(struct journal_load *load, struct journal_load_audit *audit)
{
    struct look look = {.load = load, .audit = audit};
    *audit = (struct journal_load_audit){0};
    look.payload = calloc(load->config.payload_bytes_max + 1, 1);
    look.next_seqs = calloc(load->config.runs + 1, sizeof(look.next_seqs[0]));
    look.digests = calloc(load->config.runs + 1, sizeof(look.digests[0]));
    look.runs = calloc(load->config.runs + 1, sizeof(look.runs[0]));
    if (look.payload == NULL || look.next_seqs == NULL || look.digests == NULL || look.runs == NULL)
        abort();
    bool is_read = look_at_list(&look);
    for (unsigned part = 0; is_read && part < journal_parts(load->journal); part++)
        is_read = look_at_part(&look, part);
    if (is_read)
        count_lost(&look);
    free(look.payload);
    free(look.next_seqs);
    free(look.digests);
    free(look.runs);
}

void journal_load_audit(struct journal_load *load, enum journal_mode mode,
                        struct journal_load_audit *audit)
{
    struct errmsg why;
    *audit = (struct journal_load_audit){0};
    int error = journal_load_open(load, mode, &why);
    if (error != 0) {
        (void)fail(audit, error, &why);
        return;
    }
    journal_load_look(load, audit);
    journal_load_close(load);
}

bool journal_load_is_sound(const struct journal_load_audit *audit)
{
    return audit->error == 0 && audit->refused_there == 0 && audit->out_of_order == 0 &&
           audit->wrong == 0 && audit->misnamed == 0 && audit->disagreed == 0;
}

uint64_t journal_load_forgive(struct journal_load *load)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < load->config.runs; i++) {
        struct journal_load_run *run = &load->runs[i];
        for (uint32_t seq = run->found_count; seq < run->records_count; seq++) {
            if (run->told[seq] != LOAD_TOLD_ACKED)
                continue;
            run->told[seq] = LOAD_TOLD_UNKNOWN;
            count++;
        }
    }
    return count;
}

bool journal_load_is_complete(const struct journal_load *load)
{
    for (unsigned i = 0; i < load->config.runs; i++)
        if (load->runs[i].found_count != load->runs[i].records_count)
            return false;
    return true;
}
