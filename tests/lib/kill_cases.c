/* kill_cases: see kill_cases.h. What is read of a store and its ledger is in kill_audit below, the
 * processes come after it. */
#include "tests/lib/kill_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/digest.h"
#include "engine/loop.h"
#include "engine/record.h"
#include "engine/verify.h"
#include "tests/lib/parsed_dist.h"

enum {
    TURNS = 3,
    TOOLS = 2,
    CALLS_MAX = (TURNS - 1) * TOOLS + 1, /* they are numbered from 1 */
    ATTEMPTS_MAX = KILL_CHAIN_MAX + 2,   /* likewise; each process makes one at the most */
    CHILD_SECONDS_MAX = 60,
    CHILD_FAILED = 3,
    VERIFY_BYTES = 16 << 20,
};

/* What a child leaves, beside the log. */
struct shared {
    struct kill_log log;
    struct campaign_result result; /* of campaign_finish(); its pointers mean nothing here */
    struct errmsg why;
};

/* What the store and the ledger say of a run. */
struct run_seen {
    uint64_t digest;
    uint32_t next_seq;
    uint32_t models;
    uint32_t attempts[CALLS_MAX]; /* the highest number recorded */
    uint32_t results[CALLS_MAX];
    uint32_t lines[CALLS_MAX][ATTEMPTS_MAX];
    bool has_ended;
    enum outcome outcome;
};

struct play {
    const struct kill_store *store;
    const struct kill_chain *chain;
    struct kill_totals *totals;
    struct shared *shared;
    unsigned round;
    uint64_t lines_count; /* in the ledger */
    uint64_t records_count;
    uint64_t unfinished_count;
    uint64_t unknown_count;
    struct run_seen runs[KILL_RUNS_MAX];
};

static void fault(const struct play *play, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

static void fault(const struct play *play, const char *format, ...)
{
    const struct kill_chain *chain = play->chain;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    print_error("seed %" PRIu64 ", %u threads, %s, campaign %" PRIu64 ":", chain->seed,
                chain->threads, chain->tool_retry == AGENT_RETRY_HALT ? "halt" : "retry",
                play->shared->log.campaign);
    for (unsigned i = 0; i < chain->kills; i++)
        print_error(" [%s %" PRIu64 "]", kill_point_name(chain->kill[i].point), chain->kill[i].at);
    fail_msg("process %u: %s", play->round + 1, text);
    abort(); /* it does not come here */
}

/* --- what is there --- */

static void see(struct play *play, struct run_seen *run, const struct journal_record *record)
{
    struct record parsed;
    const char *why = record_read(&parsed, record->kind, record->payload, record->bytes);
    if (why != NULL)
        fault(play, "run %" PRIu64 " seq %" PRIu32 ": %s", record->run, record->seq, why);
    if (parsed.call_id >= CALLS_MAX && record->kind != RECORD_MODEL)
        fault(play, "run %" PRIu64 " seq %" PRIu32 ": call %" PRIu32, record->run, record->seq,
              parsed.call_id);
    switch (record->kind) {
    case RECORD_BEGIN:
    case RECORD_RETRY:
    case RECORD_DELTA:
        return;
    case RECORD_MODEL:
        run->models++;
        return;
    case RECORD_ATTEMPT:
        if (parsed.attempt != run->attempts[parsed.call_id] + 1)
            fault(play, "run %" PRIu64 " c%" PRIu32 ": attempt %" PRIu32 " after %" PRIu32,
                  record->run, parsed.call_id, parsed.attempt, run->attempts[parsed.call_id]);
        run->attempts[parsed.call_id] = parsed.attempt;
        return;
    case RECORD_TOOL:
        run->results[parsed.call_id]++;
        return;
    case RECORD_END:
        run->has_ended = true;
        run->outcome = parsed.end.outcome;
        return;
    }
    fault(play, "run %" PRIu64 " seq %" PRIu32 ": kind %d", record->run, record->seq, record->kind);
}

static int on_record(void *arg, const struct journal_record *record)
{
    struct play *play = arg;
    if (record->run >= play->chain->runs || record->seq >= KILL_SEQS_MAX)
        fault(play, "run %" PRIu64 " seq %" PRIu32 " is none of ours", record->run, record->seq);
    struct run_seen *run = &play->runs[record->run];
    struct kill_witness *witness = &play->shared->log.records[record->run][record->seq];
    if (record->seq != run->next_seq)
        fault(play, "run %" PRIu64 ": seq %" PRIu32 " where %" PRIu32 " should be", record->run,
              record->seq, run->next_seq);
    run->digest = digest_chain(run->digest, record->payload, record->bytes);
    if (!witness->is_handed || run->digest != witness->digest || run->digest != record->digest)
        fault(play, "run %" PRIu64 " seq %" PRIu32 ": these are not the bytes that were appended",
              record->run, record->seq);
    if (run->has_ended)
        fault(play, "run %" PRIu64 " seq %" PRIu32 ": after the end", record->run, record->seq);
    run->next_seq++;
    play->records_count++;
    witness->is_recorded = true;
    see(play, run, record);
    return 0;
}

static struct journal *open_audit(const struct kill_store *store, struct errmsg *why)
{
    struct journal *journal = NULL;
    const struct journal_config config = {
        .uri = store->uri,
        .mode = JOURNAL_AUDIT,
        .durability = store->durability,
        .writers = 1,
        .connections = store->connections,
    };
    return journal_open(&journal, &config, why) == 0 ? journal : NULL;
}

/* NULL, or what is wrong. */
static const char *verify(struct journal *journal, uint64_t campaign, struct errmsg *why)
{
    struct verify_result result;
    const struct verify_config config = {
        .campaign = campaign,
        .memory_bytes = VERIFY_BYTES,
        .threads = 1, /* else we could not fork */
    };
    if (verify_journal(journal, &config, &result, why) != 0)
        return why->text;
    return result.runs_faulty > 0 ? result.first[0].why : NULL;
}

static void read_store(struct play *play)
{
    struct errmsg why = {.text = ""};
    uint64_t campaign = play->shared->log.campaign;
    struct journal *journal = open_audit(play->store, &why);
    if (journal == NULL)
        fault(play, "it cannot be audited: %s", why.text);
    for (unsigned part = 0; part < journal_parts(journal); part++)
        if (journal_scan(journal, campaign, part, UINT32_MAX, on_record, play, &why) != 0)
            fault(play, "it cannot be read: %s", why.text);
    const char *wrong = verify(journal, campaign, &why);
    journal_close(journal);
    if (wrong != NULL)
        fault(play, "verify: %s", wrong);
}

static void read_ledger(struct play *play)
{
    char line[128];
    FILE *file = fopen(play->store->ledger_path, "re");
    if (file == NULL)
        return; /* a process that ended before it had opened one */
    while (fgets(line, sizeof(line), file) != NULL) {
        uint64_t run = 0;
        unsigned call = 0;
        unsigned attempt = 0;
        int used = 0;
        if (sscanf(line, "%" SCNu64 " c%u %u\n%n", &run, &call, &attempt, &used) != 3 ||
            (size_t)used != strlen(line) || run >= KILL_RUNS_MAX || call >= CALLS_MAX ||
            attempt >= ATTEMPTS_MAX)
            fault(play, "a line of the ledger is \"%s\"", line);
        play->runs[run].lines[call][attempt]++;
        play->lines_count++;
    }
    (void)fclose(file); /* it was only read */
}

/* --- what must hold --- */

static void check_acked(const struct play *play, uint64_t number)
{
    const struct run_seen *run = &play->runs[number];
    const struct kill_witness *records = play->shared->log.records[number];
    for (uint32_t seq = run->next_seq; seq < KILL_SEQS_MAX; seq++)
        if (records[seq].is_acked || records[seq].is_recorded)
            fault(play, "run %" PRIu64 " seq %" PRIu32 " was %s and is gone", number, seq,
                  records[seq].is_acked ? "acked" : "there");
}

static void check_call(const struct play *play, uint64_t number, unsigned call)
{
    const struct run_seen *run = &play->runs[number];
    uint32_t recorded = run->attempts[call];
    uint32_t lines = 0;
    for (uint32_t attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        uint32_t count = run->lines[call][attempt];
        lines += count;
        if (count > 1)
            fault(play, "run %" PRIu64 " c%u: attempt %" PRIu32 " happened %" PRIu32 " times",
                  number, call, attempt, count);
        if (count > 0 && (attempt == 0 || attempt > recorded))
            fault(play, "run %" PRIu64 " c%u: attempt %" PRIu32 " happened and is not recorded",
                  number, call, attempt);
    }
    if (play->chain->tool_retry == AGENT_RETRY_HALT && lines > 1)
        fault(play, "run %" PRIu64 " c%u happened %" PRIu32 " times", number, call, lines);
    if (run->results[call] > 1 || (run->results[call] == 1 && run->lines[call][recorded] != 1))
        fault(play, "run %" PRIu64 " c%u: %" PRIu32 " results and %" PRIu32 " effects", number,
              call, run->results[call], run->lines[call][recorded]);
}

static void check_end(struct play *play, uint64_t number)
{
    const struct run_seen *run = &play->runs[number];
    unsigned open = 0;
    for (unsigned call = 0; call < CALLS_MAX; call++)
        open += run->attempts[call] > 0 && run->results[call] == 0;
    bool is_unknown = run->outcome == OUTCOME_UNKNOWN;
    if (is_unknown != (open > 0) || (!is_unknown && run->outcome != OUTCOME_COMPLETED))
        fault(play, "run %" PRIu64 " ended %s with %u calls open", number,
              outcome_name(run->outcome), open);
    play->unknown_count += is_unknown;
}

static void audit(struct play *play)
{
    memset(play->runs, 0, sizeof(play->runs));
    play->lines_count = 0;
    play->records_count = 0;
    play->unfinished_count = 0;
    play->unknown_count = 0;
    read_store(play);
    read_ledger(play);
    for (uint64_t number = 0; number < KILL_RUNS_MAX; number++) {
        const struct run_seen *run = &play->runs[number];
        check_acked(play, number);
        for (unsigned call = 0; call < CALLS_MAX; call++)
            check_call(play, number, call);
        if (run->has_ended)
            check_end(play, number);
        play->unfinished_count += run->next_seq > 0 && !run->has_ended;
    }
    uint64_t repeated = atomic_load(&play->shared->log.repeated);
    if (repeated > 0)
        fault(play, "%" PRIu64 " records were appended again", repeated);
}

/* What the last process said of itself. */
static void check_result(const struct play *play, uint64_t unfinished, uint64_t lines,
                         uint64_t records)
{
    const struct campaign_result *result = &play->shared->result;
    const struct kill_log *log = &play->shared->log;
    uint64_t completed = result->runs_by_outcome[OUTCOME_COMPLETED];
    uint64_t unknown = result->runs_by_outcome[OUTCOME_UNKNOWN];
    if (result->runs_resumed != unfinished || completed + unknown != unfinished)
        fault(play,
              "it says: %" PRIu64 " resumed, %" PRIu64 " completed, %" PRIu64
              " unknown; unfinished were %" PRIu64,
              result->runs_resumed, completed, unknown, unfinished);
    if (result->records_acked != log->acked || result->records_refused != log->refused ||
        result->records_unknown != log->unknown)
        fault(play, "it says: %" PRIu64 " acked, %" PRIu64 " refused, %" PRIu64 " unknown",
              result->records_acked, result->records_refused, result->records_unknown);
    if (result->records != play->records_count || result->records_before != records ||
        result->records_acked != play->records_count - records)
        fault(play, "it says: %" PRIu64 " records, %" PRIu64 " before; there are %" PRIu64,
              result->records, result->records_before, play->records_count);
    if (result->model_calls != log->models || result->tool_calls != play->lines_count - lines)
        fault(play, "it says: %" PRIu64 " model calls and %" PRIu64 " tool calls",
              result->model_calls, result->tool_calls);
}

/* --- the processes --- */

static struct campaign_config config_of(const struct play *play, bool is_new)
{
    const struct kill_store *store = play->store;
    const struct kill_chain *chain = play->chain;
    struct campaign_config config = {
        .runs = chain->runs,
        .concurrency = chain->concurrency,
        .threads = chain->threads,
        .seed = chain->seed,
        .latency = latency_of("uniform:1us,300us"),
        .tool_latency = latency_of("uniform:1us,300us"),
        .turns = TURNS,
        .tools = TOOLS,
        .tool_effect = TOOL_EFFECT_LEDGER,
        .ledger_path = store->ledger_path,
        .loop_name = "auto",
        .journal_uri = store->uri,
        .mode = is_new ? JOURNAL_NEW : JOURNAL_RESUME,
        .campaign = is_new ? 0 : play->shared->log.campaign,
        .run_key = store->key,
        .durability = store->durability,
        .shards = is_new ? store->shards : 0,
        .connections = store->connections,
        .retry_for_ns = store->retry_for_ns,
        .tool_retry = chain->tool_retry,
        .memory_bytes_max = UINT64_C(64) << 20,
    };
    if (chain->prompt_bytes != NULL)
        config.prompt_bytes = parsed_dist(chain->prompt_bytes, DIST_BYTES);
    return config;
}

/* In the child. */
static int drive(struct shared *shared, const struct campaign_config *config)
{
    struct loop waiter;
    struct campaign *campaign = NULL;
    if (loop_open(&waiter, "epoll", &shared->why) != 0)
        return CHILD_FAILED;
    int error = campaign_open(&campaign, config, &waiter, &shared->why);
    if (error == 0) {
        campaign_start(campaign);
        while (!campaign_is_done(campaign))
            (void)loop_poll(&waiter, clock_monotonic_ns() + NS_PER_S, 1); /* it is asked again */
        error = campaign_finish(campaign, &shared->result, &shared->why);
        campaign_close(campaign);
    }
    loop_close(&waiter);
    return error == 0 ? 0 : CHILD_FAILED;
}

/* True when the process was killed where it should be, false when it came to its end. */
static bool run_process(struct play *play, bool is_new, enum kill_point point, uint64_t at)
{
    const struct campaign_config config = config_of(play, is_new);
    struct shared *shared = play->shared;
    int status = 0;
    kill_log_begin_process(&shared->log, point, at);
    if (is_new)
        shared->log.campaign = 0;
    play->totals->processes++;
    (void)fflush(NULL); /* else both print what is buffered */
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(CHILD_SECONDS_MAX);
        kill_journal_arm(&shared->log);
        if (play->store->prepare != NULL)
            play->store->prepare(play->store->arg, &shared->log);
        exit(drive(shared, &config)); /* so that a leak is told */
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        fault(play, "no process: %s", strerror(errno));
    if (is_new)
        play->totals->calls = atomic_load(&shared->log.reached[KILL_AT_CALL]);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        play->totals->kills[point]++;
        return true;
    }
    if (status != 0)
        fault(play, "it ended with wait status %d: %s", status, shared->why.text);
    return false;
}

/* Resumes, after which nothing is left; of every other seed once more. */
static void finish(struct play *play)
{
    for (unsigned i = 0; i <= play->chain->seed % 2; i++, play->round++) {
        uint64_t unfinished = play->unfinished_count;
        uint64_t lines = play->lines_count;
        uint64_t records = play->records_count;
        if (run_process(play, false, KILL_NEVER, 0))
            fault(play, "it was killed by somebody else");
        audit(play);
        check_result(play, unfinished, lines, records);
        if (play->unfinished_count > 0)
            fault(play, "%" PRIu64 " runs are unfinished", play->unfinished_count);
        play->totals->resumed += play->shared->result.runs_resumed;
    }
}

/* Whatever the process has begun is over, and what is there must be right. */
static void look(struct play *play)
{
    if (play->store->calm != NULL)
        play->store->calm(play->store->arg);
    if (play->shared->log.campaign != 0)
        audit(play);
}

void kill_chain_play(const struct kill_store *store, const struct kill_chain *chain,
                     struct kill_totals *totals)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    struct play *play = calloc(1, sizeof(*play));
    assert_non_null(play);
    play->store = store;
    play->chain = chain;
    play->totals = totals;
    play->shared = shared;
    bool is_killed = true;
    (void)unlink(store->ledger_path); /* the one of the chain before, if any */
    for (; play->round < chain->kills && is_killed; play->round++) {
        bool is_new = shared->log.campaign == 0;
        is_killed =
            run_process(play, is_new, chain->kill[play->round].point, chain->kill[play->round].at);
        totals->nameless += shared->log.campaign == 0;
        if (!chain->is_hasty)
            look(play);
    }
    if (shared->log.campaign == 0 || chain->is_hasty) {
        if (run_process(play, shared->log.campaign == 0, KILL_NEVER, 0))
            fault(play, "it was killed by somebody else");
        look(play);
    }
    finish(play);
    totals->chains++;
    totals->records += play->records_count;
    totals->lines += play->lines_count;
    totals->unknown += play->unknown_count;
    free(play);
    (void)munmap(shared, sizeof(*shared)); /* ours, and whole */
}

/* --- sweeps --- */

/* How far a process comes that is not killed: records, or batches of about half as many runs as are
 * in flight. */
static uint64_t reach_of(const struct kill_chain *chain, enum kill_point point)
{
    enum { RECORDS_A_RUN = 2 + TURNS + 2 * (TURNS - 1) * TOOLS };
    uint64_t records = (uint64_t)chain->runs * RECORDS_A_RUN;
    return point == KILL_BEFORE_APPEND ? records : 2 * records / chain->concurrency;
}

void kill_sweep(const struct kill_store *store, const struct kill_chain *like, unsigned steps,
                struct kill_totals *totals)
{
    struct prng draws = prng_stream(like->seed, 0, PRNG_TEST, KILL_POINT_COUNT);
    for (unsigned point = KILL_BEFORE_APPEND; point <= KILL_AFTER_CALLBACKS; point++) {
        uint64_t reach = reach_of(like, (enum kill_point)point);
        for (unsigned step = 0; step < steps; step++) {
            struct kill_chain chain = *like;
            chain.seed += point * steps + step;
            chain.kills = 1 + step % KILL_CHAIN_MAX;
            chain.kill[0].point = (enum kill_point)point;
            chain.kill[0].at = 1 + step * reach / steps + prng_below(&draws, reach / steps);
            /* What is left of at most `concurrency` runs. */
            for (unsigned i = 1; i < chain.kills; i++) {
                chain.kill[i].point =
                    (enum kill_point)(KILL_BEFORE_APPEND + prng_below(&draws, KILL_AT_CALL - 1));
                chain.kill[i].at = 1 + prng_below(&draws, i == 1 ? 12 : 6);
            }
            kill_chain_play(store, &chain, totals);
        }
    }
    kill_verify_all(store);
}

void kill_verify_all(const struct kill_store *store)
{
    struct errmsg why = {.text = ""};
    struct journal *journal = open_audit(store, &why);
    if (journal == NULL)
        fail_msg("it cannot be audited: %s", why.text);
    const char *wrong = verify(journal, 0, &why);
    journal_close(journal);
    if (wrong != NULL)
        fail_msg("verify of all campaigns: %s", wrong);
}

uint64_t kill_totals_kills(const struct kill_totals *totals)
{
    uint64_t sum = 0;
    for (unsigned point = 0; point < KILL_POINT_COUNT; point++)
        sum += totals->kills[point];
    return sum;
}

void kill_totals_print(const char *name, const struct kill_totals *totals)
{
    print_message("%s: %" PRIu64 " kills in %" PRIu64 " chains, %" PRIu64 " processes, %" PRIu64
                  " runs resumed, %" PRIu64 " ended unknown, %" PRIu64 " records, %" PRIu64
                  " effects\n",
                  name, kill_totals_kills(totals), totals->chains, totals->processes,
                  totals->resumed, totals->unknown, totals->records, totals->lines);
    for (unsigned point = 0; point < KILL_POINT_COUNT; point++)
        if (totals->kills[point] > 0)
            print_message("  %s: %" PRIu64 "\n", kill_point_name((enum kill_point)point),
                          totals->kills[point]);
}
