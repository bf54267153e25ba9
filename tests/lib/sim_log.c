/* sim_log: see sim_log.h. */
#include "tests/lib/sim_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct reading {
    struct sim_log *log;
    uint64_t run_end;
};

static bool make_room(struct sim_log *log, size_t bytes)
{
    if (log->count == log->capacity) {
        size_t capacity = log->capacity == 0 ? 256 : 2 * log->capacity;
        struct sim_record *grown = realloc(log->records, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        log->records = grown;
        log->capacity = capacity;
    }
    if (log->bytes_capacity - log->bytes_used < bytes) {
        size_t capacity = 2 * (log->bytes_capacity + bytes);
        char *grown = realloc(log->bytes, capacity);
        if (grown == NULL)
            return false;
        log->bytes = grown;
        log->bytes_capacity = capacity;
    }
    return true;
}

static int add(void *arg, const struct journal_record *record)
{
    struct reading *reading = arg;
    struct sim_log *log = reading->log;
    if (record->run >= reading->run_end)
        return 0;
    if (!make_room(log, (size_t)record->bytes + 1))
        return -ENOMEM;
    memcpy(log->bytes + log->bytes_used, record->payload, record->bytes);
    log->bytes[log->bytes_used + record->bytes] = '\0';
    log->records[log->count++] = (struct sim_record){
        .run = record->run,
        .digest = record->digest,
        .at = log->bytes_used,
        .seq = record->seq,
        .bytes = record->bytes,
        .kind = record->kind,
    };
    log->bytes_used += (size_t)record->bytes + 1;
    return 0;
}

int sim_log_read(struct sim_log *log, struct journal *journal, uint64_t run_end)
{
    struct reading reading = {.log = log, .run_end = run_end};
    struct errmsg why;
    uint64_t campaign = journal_campaign(journal)->id;
    int error = 0;
    for (unsigned part = 0; part < journal_parts(journal) && error == 0; part++)
        error = journal_scan(journal, campaign, part, UINT32_MAX, add, &reading, &why);
    return error;
}

static int compare(const void *left, const void *right)
{
    const struct sim_record *a = left;
    const struct sim_record *b = right;
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

void sim_log_sort(struct sim_log *log)
{
    if (log->count > 0)
        qsort(log->records, log->count, sizeof(log->records[0]), compare);
}

void sim_log_free(struct sim_log *log)
{
    free(log->records);
    free(log->bytes);
    *log = (struct sim_log){0};
}

uint64_t sim_log_digest(const struct sim_log *log)
{
    uint64_t digest = 0;
    for (size_t i = 0; i < log->count; i++) {
        const struct sim_record *r = &log->records[i];
        const uint64_t header[] = {r->run, r->seq, r->kind, r->digest, r->bytes};
        digest = XXH3_64bits_withSeed(header, sizeof(header), digest);
        digest = XXH3_64bits_withSeed(sim_log_payload(log, r), r->bytes, digest);
    }
    return digest;
}

size_t sim_log_run_length(const struct sim_log *log, size_t first)
{
    size_t end = first;
    while (end < log->count && log->records[end].run == log->records[first].run)
        end++;
    return end - first;
}

/* --- the rules of design.md, an agent run --- */

/* What may come next. */
enum place { AT_BEGIN, AT_MODEL, AT_ATTEMPT, AT_TOOL, AT_END, AT_NOTHING };

struct walk {
    const struct sim_run_shape *shape;
    struct sim_run_facts *facts;
    enum place place;
    uint32_t models;      /* replies recorded */
    uint32_t calls;       /* of the run, before the last reply */
    uint32_t asked;       /* of the last reply */
    uint32_t attempted;   /* up to which of these the last pass of attempts has come */
    uint32_t answers;     /* of these */
    uint32_t answers_all; /* of the run */
    uint32_t pieces;      /* of the reply that is streaming */
    uint32_t retries;     /* of the model call */
};

static bool starts_with(const char **text, const char *start)
{
    size_t size = strlen(start);
    if (strncmp(*text, start, size) != 0)
        return false;
    *text += size;
    return true;
}

static uint32_t read_number(const char **text)
{
    char *end = NULL;
    unsigned long number = strtoul(*text, &end, 10);
    *text = end;
    return (uint32_t)number;
}

static const char *walk_begin(struct walk *walk, const char *payload)
{
    if (walk->place != AT_BEGIN)
        return "a second begin";
    if (!starts_with(&payload, "{\"v\":1,\"seed\":"))
        return "begin holds something else";
    walk->place = AT_MODEL;
    return NULL;
}

static const char *walk_model(struct walk *walk, const char *payload)
{
    static const char call[] = "{\"id\":\"c";
    static const char reply[] = "{\"role\":\"assistant\"";
    uint32_t count = 0;
    if (walk->place != AT_MODEL)
        return "a reply where none may be";
    walk->models++;
    walk->pieces = 0;
    walk->retries = 0;
    walk->calls += walk->asked;
    /* A snapshot holds the replies before, too. */
    for (const char *at = payload; (at = strstr(at, reply)) != NULL; at++)
        payload = at;
    for (const char *at = payload; (at = strstr(at, call)) != NULL; count++) {
        at += sizeof(call) - 1;
        if (read_number(&at) != walk->calls + count + 1)
            return "calls are not numbered through the run";
    }
    bool is_last = walk->models == walk->shape->turns;
    if (count != (is_last ? 0 : walk->shape->tools))
        return "a reply with another number of calls than asked for";
    if (strstr(payload, is_last ? "\"finish\":\"stop\"" : "\"finish\":\"tool_calls\"") == NULL)
        return "a reply with another finish reason";
    walk->asked = count;
    walk->attempted = 0;
    walk->answers = 0;
    walk->place = walk->shape->has_effect ? AT_ATTEMPT : AT_TOOL;
    if (count == 0)
        walk->place = AT_END;
    return NULL;
}

/* The first call of the last reply, from this one on, that has no result; or `asked`. */
static uint32_t open_from(const struct walk *walk, uint32_t call)
{
    while (call < walk->asked && (walk->facts->answered >> (walk->calls + call) & 1) != 0)
        call++;
    return call;
}

static const char *walk_attempt(struct walk *walk, const char *payload)
{
    if (walk->place != AT_ATTEMPT && !(walk->place == AT_TOOL && walk->shape->may_retry))
        return "an attempt where none may be";
    if (!starts_with(&payload, "{\"call\":\"c"))
        return "an attempt holds something else";
    uint32_t call = read_number(&payload) - walk->calls - 1;
    bool is_next = call < walk->asked && call == open_from(walk, walk->attempted);
    bool is_anew = walk->shape->may_retry && walk->attempted > 0 && call == open_from(walk, 0);
    if (!is_next && !is_anew)
        return "an attempt of another call than the next";
    uint8_t *attempts = &walk->facts->attempts[walk->calls + call];
    if (!starts_with(&payload, "\",\"tool\":\"noop\",\"attempt\":") ||
        read_number(&payload) != ++*attempts || !starts_with(&payload, ",\"arguments\":{"))
        return "an attempt holds something else";
    walk->facts->attempted |= UINT64_C(1) << (walk->calls + call);
    walk->attempted = call + 1;
    walk->place = open_from(walk, walk->attempted) == walk->asked ? AT_TOOL : AT_ATTEMPT;
    return NULL;
}

static const char *walk_tool(struct walk *walk, const char *payload)
{
    if (walk->place != AT_TOOL)
        return "a tool's result where none may be";
    if (!starts_with(&payload, "{\"call\":\"c"))
        return "a tool's result holds something else";
    uint32_t call = read_number(&payload);
    if (call <= walk->calls || call > walk->calls + walk->asked)
        return "a result of a call that was not asked for";
    uint64_t bit = UINT64_C(1) << (call - 1);
    if ((walk->facts->answered & bit) != 0)
        return "a second result of one call";
    if (!starts_with(&payload, "\",\"result\":\""))
        return "a tool's result is an error";
    walk->facts->answered |= bit;
    walk->answers++;
    walk->answers_all++;
    if (walk->answers == walk->asked)
        walk->place = AT_MODEL;
    return NULL;
}

static const char *walk_retry(struct walk *walk, const char *payload)
{
    if (walk->place != AT_MODEL)
        return "a retry where none may be";
    if (!starts_with(&payload, "{\"attempt\":") || read_number(&payload) != ++walk->retries ||
        !starts_with(&payload, ",\"error\":\"the model "))
        return "a retry holds something else";
    walk->pieces = 0;
    walk->facts->retries++;
    return NULL;
}

static const char *walk_delta(struct walk *walk, const char *payload)
{
    if (walk->place != AT_MODEL)
        return "a delta where none may be";
    if (!starts_with(&payload, "{\"piece\":"))
        return "a delta holds something else";
    uint32_t piece = read_number(&payload);
    if (piece != walk->pieces + 1 && !(piece == 1 && walk->shape->may_resume))
        return "a delta that is not the next one";
    if (!starts_with(&payload, ",\"text\":\"") || payload[0] == '"')
        return "a delta holds nothing";
    walk->pieces = piece;
    walk->facts->deltas++;
    return NULL;
}

static const char *walk_end(struct walk *walk, const char *payload, uint32_t seq)
{
    unsigned turns = 0;
    unsigned calls = 0;
    unsigned records = 0;
    if (walk->place == AT_BEGIN || walk->place == AT_NOTHING)
        return "an end where none may be";
    if (sscanf(payload, "{\"outcome\":\"%15[a-z]\",\"turns\":%u,\"tool_calls\":%u,\"records\":%u,",
               walk->facts->outcome, &turns, &calls, &records) != 4)
        return "an end holds something else";
    bool is_completed = strcmp(walk->facts->outcome, "completed") == 0;
    if (is_completed && (walk->place != AT_END || turns != walk->models))
        return "a run completed before its last reply";
    bool is_unknown = strcmp(walk->facts->outcome, "unknown") == 0;
    bool is_in_doubt = walk->place == AT_TOOL || (walk->place == AT_ATTEMPT && walk->attempted > 0);
    if (is_unknown && !(walk->shape->may_halt && walk->shape->has_effect && is_in_doubt))
        return "an unknown outcome where nothing is in doubt";
    /* One that does not complete may have asked the model and got no reply. */
    if (turns != walk->models && turns != walk->models + 1)
        return "an end with another number of turns";
    if (calls != walk->answers_all || records != seq + 1)
        return "an end with other totals";
    walk->facts->has_end = true;
    walk->place = AT_NOTHING;
    return NULL;
}

static const char *walk_record(struct walk *walk, const struct sim_record *record,
                               const char *payload)
{
    if (walk->place == AT_NOTHING)
        return "a record after the end";
    switch (record->kind) {
    case RECORD_BEGIN:
        return walk_begin(walk, payload);
    case RECORD_MODEL:
        return walk_model(walk, payload);
    case RECORD_ATTEMPT:
        return walk_attempt(walk, payload);
    case RECORD_TOOL:
        return walk_tool(walk, payload);
    case RECORD_RETRY:
        return walk_retry(walk, payload);
    case RECORD_DELTA:
        return walk_delta(walk, payload);
    case RECORD_END:
        return walk_end(walk, payload, record->seq);
    }
    return "a record of unknown kind";
}

const char *sim_log_check_run(const struct sim_log *log, size_t first, size_t count,
                              const struct sim_run_shape *shape, struct sim_run_facts *facts)
{
    struct walk walk = {.shape = shape, .facts = facts, .place = AT_BEGIN};
    uint64_t digest = 0;
    memset(facts, 0, sizeof(*facts));
    for (size_t i = 0; i < count; i++) {
        const struct sim_record *record = &log->records[first + i];
        const char *payload = sim_log_payload(log, record);
        if (record->seq != i)
            return "records are not dense";
        digest = XXH3_64bits_withSeed(payload, record->bytes, digest);
        if (digest != record->digest)
            return "the chain of digests is broken";
        const char *wrong = walk_record(&walk, record, payload);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}
