/* journal_audit: see journal_audit.h. */
#include "tests/lib/journal_audit.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"

enum { AUDIT_RUNS_MAX = 1 << 16, RUNS_AT_A_TIME = 3, STOPPED = 77 };

int audit_scan(struct suite *suite, uint64_t campaign, uint32_t kinds, journal_visit *visit,
               void *arg)
{
    struct errmsg why = {""};
    int result = 0;
    for (unsigned part = 0; part < journal_parts(suite->journal) && result == 0; part++)
        result = journal_scan(suite->journal, campaign, part, kinds, visit, arg, &why);
    if (result < 0)
        suite_fault(suite, 4, "a scan failed: %s", why.text);
    return result;
}

/* --- each run by itself --- */

struct run_audit {
    struct suite *suite;
    uint64_t run;
    uint64_t count;
    uint64_t records;
    uint32_t *next_seq;
    uint64_t *digest;
};

static int visit_run_audit(void *arg, const struct journal_record *record)
{
    struct run_audit *audit = arg;
    uint64_t i = record->run - audit->run;
    if (i >= audit->count)
        return 0;
    audit->records++;
    EXPECT(audit->suite, 1, record->seq >= audit->next_seq[i]);
    EXPECT(audit->suite, 2, record->seq <= audit->next_seq[i]);
    if (record->seq == audit->next_seq[i]) {
        uint64_t digest = digest_chain(audit->digest[i], record->payload, record->bytes);
        EXPECT(audit->suite, 9, digest == record->digest);
        audit->next_seq[i]++;
    }
    audit->digest[i] = record->digest;
    return 0;
}

uint64_t audit_runs(struct suite *suite, uint64_t run, uint64_t count)
{
    struct run_audit audit = {
        .suite = suite,
        .run = run,
        .count = count,
        .next_seq = calloc(count, sizeof(uint32_t)),
        .digest = calloc(count, sizeof(uint64_t)),
    };
    assert(count <= AUDIT_RUNS_MAX && audit.next_seq != NULL && audit.digest != NULL);
    (void)audit_scan(suite, suite->campaign, UINT32_MAX, visit_run_audit, &audit);
    free(audit.next_seq);
    free(audit.digest);
    return audit.records;
}

/* --- against what was acked --- */

struct comparison {
    struct suite *suite;
    unsigned check;
    enum audit_extras extras;
    const struct probe **expected; /* sorted by run and seq */
    size_t expected_count;
    size_t found;
    struct journal_count seen;
    uint64_t *runs; /* of this part, the last that was seen first */
    unsigned run_count;
    unsigned run_capacity;
    unsigned at; /* while they are read: which of them */
    uint32_t next_seq;
};

static int compare_keys(const struct journal_append *a, const struct journal_append *b)
{
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

static int compare_probes(const void *left, const void *right)
{
    return compare_keys(&(*(const struct probe *const *)left)->append,
                        &(*(const struct probe *const *)right)->append);
}

static void collect_expected(struct comparison *c)
{
    size_t count = 0;
    for (const struct probe *probe = c->suite->acked; probe != NULL; probe = probe->next_acked)
        count++;
    c->expected = calloc(count + 1, sizeof(struct probe *));
    if (c->expected == NULL)
        abort();
    count = 0;
    for (const struct probe *probe = c->suite->acked; probe != NULL; probe = probe->next_acked)
        c->expected[count++] = probe;
    qsort(c->expected, count, sizeof(struct probe *), compare_probes);
    /* What was appended and acked twice is there once. */
    for (size_t i = 0; i < count; i++)
        if (i == 0 || compare_probes(&c->expected[i], &c->expected[i - 1]) != 0)
            c->expected[c->expected_count++] = c->expected[i];
}

static void compare_record(struct comparison *c, const struct journal_record *record)
{
    const struct probe key = {.append = {.run = record->run, .seq = record->seq}};
    const struct probe *wanted = &key;
    const struct probe *const *probe =
        bsearch(&wanted, c->expected, c->expected_count, sizeof(struct probe *), compare_probes);
    if (probe == NULL) {
        if (c->extras == AUDIT_NOTHING_ELSE)
            suite_fault(c->suite, c->check, "a record that was never acked is there");
        return;
    }
    c->found++;
    EXPECT(c->suite, c->check, probe_is_record(*probe, record));
}

static int visit_scanned(void *arg, const struct journal_record *record)
{
    struct comparison *c = arg;
    c->seen.records++;
    c->seen.bytes += record->bytes;
    c->seen.begins += record->kind == RECORD_BEGIN;
    c->seen.ends += record->kind == RECORD_END;
    compare_record(c, record);
    if (record->seq != 0)
        return 0;
    if (c->run_count == c->run_capacity) {
        c->run_capacity = c->run_capacity == 0 ? 64 : 2 * c->run_capacity;
        c->runs = realloc(c->runs, c->run_capacity * sizeof(c->runs[0]));
        if (c->runs == NULL)
            abort();
    }
    memmove(&c->runs[1], &c->runs[0], c->run_count * sizeof(c->runs[0]));
    c->runs[0] = record->run;
    c->run_count++;
    return 0;
}

static int visit_read(void *arg, const struct journal_record *record)
{
    struct comparison *c = arg;
    while (c->at < c->run_count && c->runs[c->at] != record->run) {
        c->at++;
        c->next_seq = 0;
    }
    EXPECT(c->suite, 2, c->at < c->run_count);
    EXPECT(c->suite, 2, record->seq == c->next_seq);
    c->next_seq = record->seq + 1;
    compare_record(c, record);
    return 0;
}

/* Reads the runs of a part again, in another order than they were begun in, a few at a time. */
static void read_part(struct comparison *c, unsigned part)
{
    struct errmsg why = {""};
    for (unsigned i = 0; i < c->run_count; i += RUNS_AT_A_TIME) {
        unsigned left = c->run_count - i;
        unsigned count = left < RUNS_AT_A_TIME ? left : RUNS_AT_A_TIME;
        if (journal_read_runs(c->suite->journal, part, &c->runs[i], count, visit_read, c, &why) !=
            0)
            suite_fault(c->suite, c->check, "runs cannot be read: %s", why.text);
    }
}

static int visit_kind(void *arg, const struct journal_record *record)
{
    struct comparison *c = arg;
    EXPECT(c->suite, c->check, record->kind == RECORD_BEGIN || record->kind == RECORD_END);
    c->found++;
    return 0;
}

static void compare_counts(struct comparison *c)
{
    struct suite *suite = c->suite;
    struct journal_count count = {0};
    struct errmsg why = {""};
    for (unsigned part = 0; part < journal_parts(suite->journal); part++)
        if (journal_count(suite->journal, part, &count, &why) != 0)
            suite_fault(suite, c->check, "records cannot be counted: %s", why.text);
    EXPECT(suite, c->check, count.records == c->seen.records);
    EXPECT(suite, c->check, count.bytes == c->seen.bytes);
    EXPECT(suite, c->check, count.begins == c->seen.begins);
    EXPECT(suite, c->check, count.ends == c->seen.ends);
    c->found = 0;
    (void)audit_scan(suite, suite->campaign, 1u << RECORD_BEGIN | 1u << RECORD_END, visit_kind, c);
    EXPECT(suite, c->check, c->found == c->seen.begins + c->seen.ends);
}

void audit_acked(struct suite *suite, unsigned check, enum audit_extras extras)
{
    struct comparison c = {.suite = suite, .check = check, .extras = extras};
    size_t found_scanned = 0;
    size_t found_read = 0;
    bool is_audit = journal_campaign(suite->journal) == NULL;
    struct errmsg why = {""};

    collect_expected(&c);
    for (unsigned part = 0; part < journal_parts(suite->journal); part++) {
        c.run_count = 0;
        c.found = 0;
        if (journal_scan(suite->journal, suite->campaign, part, UINT32_MAX, visit_scanned, &c,
                         &why) != 0)
            suite_fault(suite, check, "a scan failed: %s", why.text);
        found_scanned += c.found;
        if (is_audit)
            continue;
        c.found = 0;
        c.at = 0;
        c.next_seq = 0;
        read_part(&c, part);
        found_read += c.found;
    }
    EXPECT(suite, check, found_scanned == c.expected_count);
    EXPECT(suite, check, is_audit || found_read == c.expected_count);
    if (!is_audit)
        compare_counts(&c);
    free(c.expected);
    free(c.runs);
}

/* --- the list --- */

struct listing {
    struct suite *suite;
    unsigned check;
    unsigned count;
    uint64_t id_last;
};

static int visit_campaign(void *arg, const struct journal_campaign *campaign)
{
    struct listing *listing = arg;
    struct suite *suite = listing->suite;
    EXPECT(suite, listing->check, campaign->id > listing->id_last);
    listing->id_last = campaign->id;
    if (campaign->id != suite->campaign)
        return 0;
    listing->count++;
    EXPECT(suite, listing->check, strcmp(campaign->description, SUITE_DESCRIPTION) == 0);
    EXPECT(suite, listing->check, campaign->key == suite->config->key);
    EXPECT(suite, listing->check, campaign->durability == journal_durability(suite->journal));
    return 0;
}

static int visit_first(void *arg, const struct journal_campaign *campaign)
{
    (void)campaign;
    ++*(unsigned *)arg;
    return STOPPED;
}

void audit_list(struct suite *suite, unsigned check)
{
    struct listing listing = {.suite = suite, .check = check};
    struct errmsg why = {""};
    unsigned visits = 0;
    if (journal_list(suite->journal, visit_campaign, &listing, &why) != 0)
        suite_fault(suite, check, "campaigns cannot be listed: %s", why.text);
    EXPECT(suite, check, listing.count == 1);
    EXPECT(suite, check, journal_list(suite->journal, visit_first, &visits, &why) == STOPPED);
    EXPECT(suite, check, visits == 1);
}
