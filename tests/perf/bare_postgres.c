/*
 * bare_postgres: what a Postgres server takes from the barest client, with no engine in between.
 *
 *   bare_postgres [flags] URI      prints one line of key=value figures
 *
 * Runs in flight are split over a few connections; each sends batches of one record of many runs, a
 * transaction a batch, as the journal does. By it the journal's statement, batch and table were
 * chosen (docs/decisions.md), and its overhead is judged. Schema bench_bare is made and dropped
 * again. One thread, poll(2) over all connections; the first error ends the program.
 */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/perf/bare_postgres_rows.h"

enum { CONNECTIONS_MAX = 64, DEPTH_MAX = 16, RUNS = 5000 };
enum level { LEVEL_POWER, LEVEL_PROCESS, LEVEL_NONE };

static const char usage[] =
    "usage: bare_postgres [-connections N] [-rows N] [-batch N] [-payload BYTES]\n"
    "    [-form slices|unnest|values|copy] [-conflict] [-depth N] [-key seq|uuidv7|uuidv4]\n"
    "    [-level power|process|none] [-sql STATEMENT] URI\n"
    "-sql is executed once the table has been made, to try something on it.\n";

struct connection {
    PGconn *pg;
    struct rows rows;
    uint64_t sent_at_ns[DEPTH_MAX]; /* a ring: batches are answered in the order they were sent */
    uint64_t sent;
    uint64_t answered;
    bool wants_write;
    bool is_copying;
};

struct bare {
    unsigned connection_count;
    unsigned batch;
    unsigned payload_bytes;
    unsigned depth;
    uint64_t rows;
    enum form form;
    enum key key;
    enum level level;
    bool conflict;
    const char *sql;
    const char *uri;
    uint64_t *commit_ns; /* how long each batch took, in the order of the answers */
    uint64_t commits_due;
    uint64_t commits_sent;
    uint64_t commits;
    struct connection connections[CONNECTIONS_MAX];
};

/* What has been used so far. */
struct meter {
    uint64_t client_cpu_ns;
    uint64_t server_cpu_ns; /* of all its processes, if they run on this machine */
    uint64_t wal_bytes;
    uint64_t wal_syncs;
};

void bare_fail(const char *what, const char *why)
{
    fprintf(stderr, "bare_postgres: %s: %.*s\n", what, (int)strcspn(why, "\n"), why);
    exit(1);
}

void *bare_take(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (!memory)
        bare_fail("memory", strerror(ENOMEM));
    return memory;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static PGresult *query(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        bare_fail(sql, PQerrorMessage(pg));
    return result;
}

static void execute(PGconn *pg, const char *sql)
{
    PQclear(query(pg, sql));
}

static uint64_t query_number(PGconn *pg, const char *sql)
{
    PGresult *result = query(pg, sql);
    uint64_t value = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return value;
}

/* 0 for a process that is not of this machine. */
static uint64_t process_cpu_ns(const char *pid)
{
    char path[64];
    char text[1024] = "";
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    (void)fread(text, 1, sizeof text - 1, file);
    fclose(file);
    char *field = strrchr(text, ')'); /* ends the second; the 14th and 15th are wanted */
    for (unsigned i = 2; field && i < 14; i++)
        field = strchr(field + 1, ' ');
    if (!field)
        return 0;
    uint64_t ticks = strtoull(field, &field, 10);
    ticks += strtoull(field, NULL, 10);
    return ticks * (1000000000U / (uint64_t)sysconf(_SC_CLK_TCK));
}

static struct meter read_meter(struct bare *bare)
{
    PGconn *pg = bare->connections[0].pg;
    struct meter meter = {
        .client_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID),
        .wal_bytes = query_number(pg, "select pg_current_wal_lsn() - '0/0'"),
    };
    PGresult *result = query(pg, "select pid from pg_stat_activity");
    for (int i = 0; PQhost(pg)[0] == '/' && i < PQntuples(result); i++)
        meter.server_cpu_ns += process_cpu_ns(PQgetvalue(result, i, 0));
    PQclear(result);
    /* Backends hand in their counts when they please, or when told to. */
    for (unsigned i = 0; i < bare->connection_count; i++)
        execute(bare->connections[i].pg, "select pg_stat_force_next_flush()");
    meter.wal_syncs = query_number(
        pg, PQserverVersion(pg) < 180000
                ? "select wal_sync from pg_stat_wal"
                : "select coalesce(sum(fsyncs), 0) from pg_stat_io where object = 'wal'");
    return meter;
}

static void make_table(struct bare *bare)
{
    PGconn *pg = bare->connections[0].pg;
    char sql[512];
    execute(pg, "set client_min_messages = warning");
    execute(pg, "drop schema if exists bench_bare cascade");
    execute(pg, "create schema bench_bare");
    snprintf(sql, sizeof sql,
             "create %s table bench_bare.records (run %s not null, digest bigint not null, "
             "seq integer not null, kind smallint not null, payload bytea not null, "
             "primary key (run, seq))",
             bare->level == LEVEL_NONE ? "unlogged" : "", bare->key == KEY_SEQ ? "bigint" : "uuid");
    execute(pg, sql);
    execute(pg, "alter table bench_bare.records alter payload set storage external");
    if (bare->sql)
        execute(pg, bare->sql);
}

static void open_all(struct bare *bare)
{
    for (unsigned i = 0; i < bare->connection_count; i++) {
        struct connection *c = &bare->connections[i];
        c->pg = PQconnectdb(bare->uri);
        if (PQstatus(c->pg) != CONNECTION_OK)
            bare_fail("connecting", PQerrorMessage(c->pg));
        execute(c->pg, bare->level == LEVEL_PROCESS ? "set synchronous_commit = off"
                                                    : "set synchronous_commit = on");
        if (i == 0)
            make_table(bare);
        c->rows = (struct rows){.form = bare->form,
                                .key = bare->key,
                                .batch = bare->batch,
                                .payload_bytes = bare->payload_bytes};
        rows_open(&c->rows, i, RUNS / bare->connection_count);
        rows_prepare(&c->rows, c->pg, bare->conflict);
        if (PQsetnonblocking(c->pg, 1) != 0)
            bare_fail("nonblocking", PQerrorMessage(c->pg));
    }
}

static void close_all(struct bare *bare)
{
    execute(bare->connections[0].pg, "drop schema bench_bare cascade");
    for (unsigned i = 0; i < bare->connection_count; i++) {
        PQfinish(bare->connections[i].pg);
        rows_close(&bare->connections[i].rows);
    }
    free(bare->commit_ns);
}

static void send_batches(struct bare *bare, struct connection *c)
{
    while (c->sent - c->answered < bare->depth && bare->commits_sent < bare->commits_due) {
        c->sent_at_ns[c->sent++ % DEPTH_MAX] = clock_ns(CLOCK_MONOTONIC);
        bare->commits_sent++;
        rows_send(&c->rows, c->pg);
    }
    int left;
    while ((left = PQflush(c->pg)) == 0 && c->is_copying)
        c->is_copying = rows_send_copy(&c->rows, c->pg);
    if (left < 0)
        bare_fail("sending", PQerrorMessage(c->pg));
    c->wants_write = left > 0;
}

/* A statement's result may come before its transaction has ended. That it is durable is said by
 * what follows: the sync, or outside a pipeline the end of the results. */
static void receive(struct bare *bare, struct connection *c)
{
    if (PQconsumeInput(c->pg) == 0)
        bare_fail("receiving", PQerrorMessage(c->pg));
    while (c->answered < c->sent && !c->is_copying && !PQisBusy(c->pg)) {
        PGresult *result = PQgetResult(c->pg);
        ExecStatusType status = result ? PQresultStatus(result) : PGRES_COMMAND_OK;
        if (status == PGRES_COPY_IN)
            c->is_copying = true;
        else if (status != PGRES_COMMAND_OK && status != PGRES_PIPELINE_SYNC)
            bare_fail("a batch failed", PQresultErrorMessage(result));
        if (bare->form == FORM_COPY ? !result : status == PGRES_PIPELINE_SYNC) {
            uint64_t sent_at_ns = c->sent_at_ns[c->answered++ % DEPTH_MAX];
            bare->commit_ns[bare->commits++] = clock_ns(CLOCK_MONOTONIC) - sent_at_ns;
        }
        PQclear(result);
    }
}

static void set_pipeline(struct bare *bare, bool on)
{
    for (unsigned i = 0; bare->form != FORM_COPY && i < bare->connection_count; i++) {
        PGconn *pg = bare->connections[i].pg;
        if ((on ? PQenterPipelineMode(pg) : PQexitPipelineMode(pg)) != 1)
            bare_fail("pipeline", PQerrorMessage(pg));
    }
}

/* Sends so many batches over all connections, and returns once the last is durable. */
static void append(struct bare *bare, uint64_t commits)
{
    struct pollfd polls[CONNECTIONS_MAX];
    bare->commits = 0;
    bare->commits_sent = 0;
    bare->commits_due = commits;
    set_pipeline(bare, true);
    for (unsigned i = 0; i < bare->connection_count; i++)
        send_batches(bare, &bare->connections[i]);
    while (bare->commits < commits) {
        for (unsigned i = 0; i < bare->connection_count; i++) {
            struct connection *c = &bare->connections[i];
            short events = (short)(c->wants_write ? POLLIN | POLLOUT : POLLIN);
            polls[i] = (struct pollfd){.fd = PQsocket(c->pg), .events = events};
        }
        if (poll(polls, bare->connection_count, -1) < 0 && errno != EINTR)
            bare_fail("poll", strerror(errno));
        for (unsigned i = 0; i < bare->connection_count; i++) {
            if (polls[i].revents == 0)
                continue;
            receive(bare, &bare->connections[i]);
            send_batches(bare, &bare->connections[i]);
        }
    }
    set_pipeline(bare, false);
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_figures(struct bare *bare, uint64_t elapsed_ns, struct meter used)
{
    PGconn *pg = bare->connections[0].pg;
    uint64_t n = bare->commits;
    double rows = (double)(n * bare->batch);
    uint64_t sent = 0;
    uint64_t stored = query_number(pg, "select count(*) from bench_bare.records");
    uint64_t bytes = query_number(pg, "select sum(octet_length(payload)) from bench_bare.records");
    uint64_t table = query_number(pg, "select pg_table_size('bench_bare.records')");
    uint64_t index = query_number(pg, "select pg_indexes_size('bench_bare.records')");
    uint64_t sum_ns = 0;
    assert(n > 0);
    for (unsigned i = 0; i < bare->connection_count; i++)
        sent += bare->connections[i].sent * bare->batch;
    if (stored != sent || bytes != sent * bare->payload_bytes)
        bare_fail("the table", "not what was sent");
    for (uint64_t i = 0; i < n; i++)
        sum_ns += bare->commit_ns[i];
    qsort(bare->commit_ns, n, sizeof *bare->commit_ns, compare_ns);
    printf("rows_per_s=%.0f commits=%" PRIu64 " commit_mean_ns=%" PRIu64 " commit_p50_ns=%" PRIu64
           " commit_p99_ns=%" PRIu64,
           rows / ((double)elapsed_ns / 1e9), n, sum_ns / n, bare->commit_ns[n / 2],
           bare->commit_ns[n * 99 / 100]);
    printf(" server_cpu_ns_per_row=%.0f client_cpu_ns_per_row=%.0f wal_syncs=%" PRIu64
           " wal_bytes_per_row=%.1f table_bytes_per_row=%.1f index_bytes_per_row=%.1f\n",
           (double)used.server_cpu_ns / rows, (double)used.client_cpu_ns / rows, used.wal_syncs,
           (double)used.wal_bytes / rows, (double)table / (double)stored,
           (double)index / (double)stored);
}

static void measure(struct bare *bare)
{
    uint64_t commits = (bare->rows + bare->batch - 1) / bare->batch;
    /* Twice a connection untimed: catalogues, plans, memory. */
    uint64_t warmup = (uint64_t)bare->connection_count * bare->depth * 2;
    bare->commit_ns = bare_take(commits + warmup, sizeof *bare->commit_ns);
    append(bare, warmup);
    struct meter before = read_meter(bare);
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    append(bare, commits);
    uint64_t elapsed_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
    struct meter after = read_meter(bare);
    print_figures(bare, elapsed_ns,
                  (struct meter){
                      .client_cpu_ns = after.client_cpu_ns - before.client_cpu_ns,
                      .server_cpu_ns = after.server_cpu_ns - before.server_cpu_ns,
                      .wal_bytes = after.wal_bytes - before.wal_bytes,
                      .wal_syncs = after.wal_syncs - before.wal_syncs,
                  });
}

static unsigned parse_count(const char *flag, const char *text, unsigned long max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value < 1 || value > max)
        bare_fail(flag, "not a number of its range");
    return (unsigned)value;
}

static unsigned parse_name(const char *flag, const char *text, const char *const names[])
{
    for (unsigned i = 0; names[i]; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    bare_fail(flag, "not one of its values");
}

static void parse_flag(struct bare *bare, const char *flag, const char *value)
{
    static const char *const forms[] = {"slices", "unnest", "values", "copy", NULL};
    static const char *const keys[] = {"seq", "uuidv7", "uuidv4", NULL};
    static const char *const levels[] = {"power", "process", "none", NULL};
    if (strcmp(flag, "connections") == 0)
        bare->connection_count = parse_count(flag, value, CONNECTIONS_MAX);
    else if (strcmp(flag, "rows") == 0)
        bare->rows = parse_count(flag, value, 1000000000);
    else if (strcmp(flag, "batch") == 0)
        bare->batch = parse_count(flag, value, RUNS);
    else if (strcmp(flag, "payload") == 0)
        bare->payload_bytes = parse_count(flag, value, 1 << 20);
    else if (strcmp(flag, "depth") == 0)
        bare->depth = parse_count(flag, value, DEPTH_MAX);
    else if (strcmp(flag, "form") == 0)
        bare->form = (enum form)parse_name(flag, value, forms);
    else if (strcmp(flag, "key") == 0)
        bare->key = (enum key)parse_name(flag, value, keys);
    else if (strcmp(flag, "level") == 0)
        bare->level = (enum level)parse_name(flag, value, levels);
    else if (strcmp(flag, "conflict") == 0)
        bare->conflict = true;
    else
        bare->sql = value;
}

int main(int argc, char **argv)
{
    static const struct option flags[] = {
        {"connections", required_argument, NULL, 0},
        {"rows", required_argument, NULL, 0},
        {"batch", required_argument, NULL, 0},
        {"payload", required_argument, NULL, 0},
        {"form", required_argument, NULL, 0},
        {"conflict", no_argument, NULL, 0},
        {"depth", required_argument, NULL, 0},
        {"key", required_argument, NULL, 0},
        {"level", required_argument, NULL, 0},
        {"sql", required_argument, NULL, 0},
        {NULL, 0, NULL, 0},
    };
    static struct bare bare = {.connection_count = 4,
                               .batch = 1250,
                               .payload_bytes = 137, /* the mean of a default run's six records */
                               .depth = 1,
                               .rows = 200000,
                               .form = FORM_SLICES};
    int index;
    int flag;
    while ((flag = getopt_long_only(argc, argv, "", flags, &index)) == 0)
        parse_flag(&bare, flags[index].name, optarg);
    if (flag != -1 || optind != argc - 1) {
        fputs(usage, stderr);
        return 2;
    }
    bare.uri = argv[optind];
    if (bare.form == FORM_COPY && (bare.depth != 1 || bare.conflict))
        bare_fail("-form copy", "has neither -depth nor -conflict");
    if ((uint64_t)bare.batch * bare.depth > RUNS / bare.connection_count)
        bare_fail("-batch", "times -depth and -connections is more than the 5000 runs in flight");
    open_all(&bare);
    measure(&bare);
    close_all(&bare);
    return 0;
}
