/* What of J3 and J4 is about records that outlive a journal: its close, and the kill of its
 * process.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/digest.h"
#include "tests/lib/conformance.h"
#include "tests/lib/journal_audit.h"

enum {
    KILL_RUNS = 16,
    KILL_RECORDS = 3, /* of each of them */
    OPEN_RUNS = 40,   /* whose records are on their way when the process is killed */
    OPEN_RECORDS = 5,
};

/* --- closed, and opened again --- */

/* What has been acked is there after a close, to be read, and to be gone on with. The journal is
 * open again afterwards. */
void conformance_check_reopening(struct suite *suite, unsigned check)
{
    if (suite->config->is_in_memory || suite->is_stuck)
        return;
    suite_close(suite);
    if (!suite_open_audit(suite))
        return;
    EXPECT(suite, check, journal_campaign(suite->journal) == NULL);
    audit_acked(suite, check, AUDIT_NOTHING_ELSE);
    audit_list(suite, check);
    suite_close(suite);

    if (!suite_reopen(suite, 0)) /* the newest is ours */
        return;
    EXPECT(suite, check, journal_campaign(suite->journal)->id == suite->campaign);
    EXPECT(suite, check, journal_campaign(suite->journal)->key == suite->config->key);
    audit_acked(suite, check, AUDIT_NOTHING_ELSE);
    audit_list(suite, check);

    const struct probe *last = suite->acked;
    struct probe_writer *writer = &suite->writers[0];
    uint64_t run = suite->run_first + 900000;
    uint64_t digest = digest_chain(DIGEST_START, "begun anew", 10);
    EXPECT(suite, check,
           probe_is_readable(writer, last) || probe_is_readable(&suite->writers[1], last));
    EXPECT(suite, check,
           probe_put(writer, last->append.run, last->append.seq, last->previous, last->kind,
                     last->payload, last->bytes) == JOURNAL_ACKED);
    EXPECT(suite, check,
           probe_put(writer, run, 0, DIGEST_START, RECORD_BEGIN, "begun anew", 10) ==
               JOURNAL_ACKED);
    EXPECT(suite, check,
           probe_put(writer, run, 1, digest, RECORD_END, "ended", 5) == JOURNAL_ACKED);
    audit_acked(suite, check, AUDIT_NOTHING_ELSE);
}

/* --- killed --- */

static const char kept[] = "kept";

static void write_all(int fd, const void *bytes, size_t size)
{
    if (write(fd, bytes, size) != (ssize_t)size)
        _exit(1);
}

/* In the child: says which campaign is its own and reports each ack, then is killed with appends
 * on their way. */
static _Noreturn void be_killed(struct suite *suite, uint64_t run, int fd)
{
    struct probe_writer *writer = &suite->writers[0];
    uint64_t digest = DIGEST_START;
    suite->acked = NULL;
    if (!suite_open(suite, SUITE_BYTES_MAX))
        _exit(1);
    write_all(fd, &suite->campaign, sizeof(suite->campaign));
    for (uint32_t seq = 0; seq < KILL_RECORDS; seq++) {
        for (unsigned i = 0; i < KILL_RUNS; i++) {
            if (probe_put(writer, run + i, seq, digest, RECORD_MODEL, kept, strlen(kept)) !=
                JOURNAL_ACKED)
                _exit(1);
            write_all(fd, "", 1);
        }
        digest = digest_chain(digest, kept, strlen(kept));
    }
    digest = DIGEST_START;
    for (uint32_t seq = 0; seq < OPEN_RECORDS; seq++) {
        for (unsigned i = 0; i < OPEN_RUNS; i++)
            (void)probe_append(writer, run + KILL_RUNS + i, seq, digest, RECORD_MODEL, kept,
                               strlen(kept));
        digest = digest_chain(digest, kept, strlen(kept));
        probe_flush(writer);
    }
    (void)kill(getpid(), SIGKILL);
    _exit(1); /* not reached */
}

static void expect_kept(struct suite *suite, uint64_t run)
{
    uint64_t digest = DIGEST_START;
    suite->acked = NULL;
    for (uint32_t seq = 0; seq < KILL_RECORDS; seq++) {
        for (unsigned i = 0; i < KILL_RUNS; i++)
            probe_expect(&suite->writers[0], run + i, seq, digest, RECORD_MODEL, kept,
                         strlen(kept));
        digest = digest_chain(digest, kept, strlen(kept));
    }
    for (const struct probe *probe = suite->acked; probe != NULL; probe = probe->next_acked)
        EXPECT(suite, 3,
               probe_is_readable(&suite->writers[0], probe) ||
                   probe_is_readable(&suite->writers[1], probe));
}

static size_t read_all(int fd, void *bytes, size_t size)
{
    size_t used = 0;
    ssize_t count = 0;
    while (used < size && (count = read(fd, (char *)bytes + used, size - used)) > 0)
        used += (size_t)count;
    return used;
}

/* The journal is closed, and open again afterwards. */
void conformance_check_survival(struct suite *suite)
{
    int pipe_fds[2];
    int status = 0;
    uint64_t run = suite->run_first + 1000;
    char acked[KILL_RUNS * KILL_RECORDS];

    if (pipe(pipe_fds) != 0)
        abort();
    pid_t child = fork();
    if (child == 0)
        be_killed(suite, run, pipe_fds[1]);
    (void)close(pipe_fds[1]);
    bool is_begun =
        read_all(pipe_fds[0], &suite->campaign, sizeof(suite->campaign)) == sizeof(suite->campaign);
    EXPECT(suite, 3, read_all(pipe_fds[0], acked, sizeof(acked)) == sizeof(acked));
    (void)close(pipe_fds[0]);
    /* A store may refuse a second process while the first is there. */
    EXPECT(suite, 3,
           waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
               WTERMSIG(status) == SIGKILL);
    if (!is_begun || !suite_reopen(suite, suite->campaign))
        return;
    EXPECT(suite, 3, journal_campaign(suite->journal)->id == suite->campaign);
    expect_kept(suite, run);
    audit_acked(suite, 3, AUDIT_MAY_HOLD_MORE);
    EXPECT(suite, 3, audit_runs(suite, run, KILL_RUNS) == sizeof(acked));
    (void)audit_runs(suite, run + KILL_RUNS, OPEN_RUNS); /* a prefix of each, of whole records */
}
