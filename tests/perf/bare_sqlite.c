/*
 * bare_sqlite: what SQLite itself gives, without an engine: a plain loop that appends records as a
 * group commit does, by which the journal's layout was chosen and its overhead is judged.
 *
 *   bare_sqlite [-level power|process|none] [-layout indexed|indexed-packed|clustered|packed]
 *               [-key seq|uuidv7|uuidv4] [-rows N] [-batch N] [-payload BYTES] [-page BYTES]
 *               [-rows-a-statement N] [-wal-bound BYTES] [-cache BYTES] [-in-flight N] [-shards N]
 *               PATH
 *
 * prints one line of key=value figures and leaves a new database at PATH (PATH.0 and so on for
 * several shards, each of which writes all rows). The defaults are the journal's own configuration.
 *
 * A commit (-batch) holds one record each of as many of the runs in flight; a run that ends is
 * replaced by the next number. Writes and syncs are counted where they leave SQLite, in a VFS
 * around the default one. Threading: a thread a shard, which shares nothing but the options.
 * Errors: the first ends the program.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SHARDS_MAX = 64,
    SEQS_A_RUN = 6,
    SEQ_BITS = 18,
    CAMPAIGN_SHIFT = 40,
    UUID_BYTES = 16,
    WAL_FRAME_HEADER_BYTES = 24,
    ARRIVALS_A_COMMIT = 8, /* points of a busy period at which a record is taken to arrive */
};

enum key_kind { KEY_SEQ, KEY_UUIDV7, KEY_UUIDV4 };
enum file_kind { FILE_DATABASE, FILE_WAL, FILE_KINDS };

struct layout {
    bool is_packed;      /* run and seq are one integer */
    const char *create;  /* `%s` stands for the type of the run */
    const char *columns; /* of an insert, in the order of binding */
};

/* In the order of layout_names. */
static const struct layout layouts[] = {
    {false,
     "CREATE TABLE records(id INTEGER PRIMARY KEY, run %s NOT NULL, seq INTEGER NOT NULL,"
     " kind INTEGER NOT NULL, digest INTEGER NOT NULL, payload BLOB NOT NULL);"
     "CREATE UNIQUE INDEX records_key ON records(run, seq)",
     "run, seq, kind, digest, payload"},
    {true,
     "CREATE TABLE records(id INTEGER PRIMARY KEY, key INTEGER NOT NULL,"
     " kind INTEGER NOT NULL, digest INTEGER NOT NULL, payload BLOB NOT NULL);"
     "CREATE UNIQUE INDEX records_key ON records(key)",
     "key, kind, digest, payload"},
    {false,
     "CREATE TABLE records(run %s NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL,"
     " digest INTEGER NOT NULL, payload BLOB NOT NULL, PRIMARY KEY(run, seq)) WITHOUT ROWID",
     "run, seq, kind, digest, payload"},
    {true,
     "CREATE TABLE records(key INTEGER PRIMARY KEY, kind INTEGER NOT NULL,"
     " digest INTEGER NOT NULL, payload BLOB NOT NULL)",
     "key, kind, digest, payload"},
};

static const char *const layout_names[] = {"indexed", "indexed-packed", "clustered", "packed",
                                           NULL};
static const char *const key_names[] = {"seq", "uuidv7", "uuidv4", NULL};
static const char *const level_names[] = {"power", "process", "none", NULL};
static const char *const synchronous[] = {"FULL", "NORMAL", "OFF"}; /* a level */

struct options {
    int64_t level, layout, key; /* indices of the names above */
    int64_t rows, batch, payload_bytes, page_bytes, rows_a_statement, wal_bound_bytes;
    int64_t cache_bytes, in_flight, shards;
};

static const struct {
    const char *name;
    size_t offset;
    const char *const *choices; /* NULL: a count */
} flags[] = {
    {"level", offsetof(struct options, level), level_names},
    {"layout", offsetof(struct options, layout), layout_names},
    {"key", offsetof(struct options, key), key_names},
    {"rows", offsetof(struct options, rows), NULL},
    {"batch", offsetof(struct options, batch), NULL},
    {"payload", offsetof(struct options, payload_bytes), NULL},
    {"page", offsetof(struct options, page_bytes), NULL},
    {"rows-a-statement", offsetof(struct options, rows_a_statement), NULL},
    {"wal-bound", offsetof(struct options, wal_bound_bytes), NULL},
    {"cache", offsetof(struct options, cache_bytes), NULL},
    {"in-flight", offsetof(struct options, in_flight), NULL},
    {"shards", offsetof(struct options, shards), NULL},
};

/* The methods of one kind of file, and what they counted. */
struct counted {
    sqlite3_io_methods methods; /* first: a file leads to it by its methods */
    const sqlite3_io_methods *real;
    uint64_t bytes, syncs;
};

struct run {
    uint64_t number;
    int64_t seq;
};

struct shard {
    const struct options *options;
    const struct layout *layout;
    pthread_t thread;
    char path[4096];
    char vfs_name[32];
    sqlite3_vfs vfs;
    struct counted files[FILE_KINDS];
    sqlite3 *db;
    sqlite3_stmt *insert, *begin, *commit;
    struct run *runs;
    unsigned char (*uuids)[UUID_BYTES]; /* of the rows of the statement being bound */
    unsigned char *payload;
    uint64_t run_next, draws;
    int64_t wal_frames;
    uint64_t commits, checkpoints;
    uint64_t *commit_ns, *stall_ns; /* a commit, and the checkpoint that came after it */
    uint64_t elapsed_ns, cpu_ns, checkpoint_ns, database_bytes;
};

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t); /* a constant clock cannot fail */
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static _Noreturn void fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "bare_sqlite: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static void check(const struct shard *s, int code, const char *what)
{
    if (code != SQLITE_OK)
        fail(what, s->db != NULL ? sqlite3_errmsg(s->db) : sqlite3_errstr(code));
}

static void *allocate(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count, size);
    if (memory == NULL)
        fail("memory", strerror(ENOMEM));
    return memory;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The counting VFS: files are the default one's own, with two of their methods replaced. */

static int counted_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 offset)
{
    struct counted *c = (struct counted *)file->pMethods;
    c->bytes += (uint64_t)size;
    return c->real->xWrite(file, from, size, offset);
}

static int counted_sync(sqlite3_file *file, int how)
{
    struct counted *c = (struct counted *)file->pMethods;
    c->syncs++;
    return c->real->xSync(file, how);
}

static int counted_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int how,
                        int *how_out)
{
    struct shard *s = vfs->pAppData;
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);
    int code = real->xOpen(real, name, file, how, how_out);
    if (file->pMethods == NULL || !(how & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)))
        return code;
    struct counted *c = &s->files[how & SQLITE_OPEN_WAL ? FILE_WAL : FILE_DATABASE];
    c->real = file->pMethods;
    c->methods = *c->real;
    c->methods.xWrite = counted_write;
    c->methods.xSync = counted_sync;
    file->pMethods = &c->methods;
    return code;
}

/* The store. */

static sqlite3_stmt *prepare(struct shard *s, const char *sql)
{
    sqlite3_stmt *statement;
    check(s, sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL), sql);
    return statement;
}

/* OR IGNORE, because a statement of several rows that could abort would keep a journal of its own,
 * which costs more than the rows saved. */
static sqlite3_stmt *prepare_insert(struct shard *s)
{
    sqlite3_str *sql = sqlite3_str_new(s->db);
    sqlite3_str_appendf(sql, "INSERT OR IGNORE INTO records(%s) VALUES", s->layout->columns);
    for (int64_t i = 0; i < s->options->rows_a_statement; i++)
        sqlite3_str_appendf(sql, "%s(?,?,?,?%s)", i > 0 ? "," : "",
                            s->layout->is_packed ? "" : ",?");
    char *text = sqlite3_str_finish(sql);
    if (text == NULL)
        fail("memory", strerror(ENOMEM));
    sqlite3_stmt *statement = prepare(s, text);
    sqlite3_free(text);
    return statement;
}

/* The hook tells the frames that the WAL holds after a commit. */
static int hear_commit(void *context, sqlite3 *db, const char *schema, int frames)
{
    struct shard *s = context;
    (void)db;
    (void)schema;
    s->wal_frames = frames;
    return SQLITE_OK;
}

static void store_open(struct shard *s)
{
    const struct options *o = s->options;
    if (access(s->path, F_OK) == 0)
        fail(s->path, "is there already");
    s->vfs = *sqlite3_vfs_find(NULL);
    s->vfs.zName = s->vfs_name;
    s->vfs.pAppData = s;
    s->vfs.xOpen = counted_open;
    check(s, sqlite3_vfs_register(&s->vfs, 0), "vfs");
    int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    check(s, sqlite3_open_v2(s->path, &s->db, how, s->vfs_name), s->path);
    char sql[1024];
    int size = snprintf(sql, sizeof(sql),
                        "PRAGMA page_size=%" PRId64 "; PRAGMA locking_mode=EXCLUSIVE;"
                        "PRAGMA journal_mode=WAL; PRAGMA synchronous=%s;"
                        "PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=%" PRId64 ";",
                        o->page_bytes, synchronous[o->level], -o->cache_bytes / 1024);
    (void)snprintf(sql + size, sizeof(sql) - (size_t)size, s->layout->create,
                   o->key == KEY_SEQ ? "INTEGER" : "BLOB");
    check(s, sqlite3_exec(s->db, sql, NULL, NULL, NULL), sql);
    sqlite3_wal_hook(s->db, hear_commit, s);
    s->begin = prepare(s, "BEGIN IMMEDIATE");
    s->commit = prepare(s, "COMMIT");
    s->insert = prepare_insert(s);
}

static void store_close(struct shard *s)
{
    check(s, sqlite3_finalize(s->begin), "finalize");
    check(s, sqlite3_finalize(s->commit), "finalize");
    check(s, sqlite3_finalize(s->insert), "finalize");
    check(s, sqlite3_close(s->db), "close");
    s->db = NULL;
    check(s, sqlite3_vfs_unregister(&s->vfs), "vfs");
    struct stat status;
    if (stat(s->path, &status) != 0)
        fail(s->path, strerror(errno));
    s->database_bytes = (uint64_t)status.st_size;
}

static void step(struct shard *s, sqlite3_stmt *statement, const char *what)
{
    (void)sqlite3_step(statement); /* sqlite3_reset() says it again */
    check(s, sqlite3_reset(statement), what);
}

static void checkpoint(struct shard *s)
{
    int frames = 0;
    int done = 0;
    check(s, sqlite3_wal_checkpoint_v2(s->db, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, &done),
          "checkpoint");
    if (frames != done)
        fail("checkpoint", "frames are left, though nobody reads");
}

/* The loop. */

/* A UUID of version 7 begins with 48 bits of time (here 50 runs a millisecond), the rest is noise.
 */
static void make_uuid(enum key_kind kind, uint64_t number, unsigned char uuid[static UUID_BYTES])
{
    uint64_t noise = mix(number * 2 + 1);
    uint64_t words[2] = {(noise & ~UINT64_C(0xf000)) | 0x4000,
                         mix(number * 2 + 2) >> 2 | UINT64_C(1) << 63};
    if (kind == KEY_UUIDV7)
        words[0] = (number / 50) << 16 | (noise & 0xfff) | 0x7000;
    for (size_t i = 0; i < UUID_BYTES; i++)
        uuid[i] = (unsigned char)(words[i / 8] >> (56 - i % 8 * 8));
}

/* Parameter numbers and types are right by construction, so binding cannot fail. */
static int bind_record(struct shard *s, int at, struct run *run, int64_t row)
{
    const struct options *o = s->options;
    if (s->layout->is_packed) {
        sqlite3_bind_int64(s->insert, at++, (int64_t)(run->number << SEQ_BITS) | run->seq);
    } else if (o->key == KEY_SEQ) {
        uint64_t key = UINT64_C(1) << CAMPAIGN_SHIFT | run->number;
        sqlite3_bind_int64(s->insert, at++, (int64_t)key);
        sqlite3_bind_int64(s->insert, at++, run->seq);
    } else {
        make_uuid((enum key_kind)o->key, run->number, s->uuids[row]);
        sqlite3_bind_blob(s->insert, at++, s->uuids[row], UUID_BYTES, SQLITE_STATIC);
        sqlite3_bind_int64(s->insert, at++, run->seq);
    }
    sqlite3_bind_int64(s->insert, at++, run->seq % 3);
    sqlite3_bind_int64(s->insert, at++, (int64_t)mix(s->draws++));
    sqlite3_bind_blob(s->insert, at++, s->payload, (int)o->payload_bytes, SQLITE_STATIC);
    if (++run->seq == SEQS_A_RUN)
        *run = (struct run){s->run_next++, 0};
    return at;
}

/* The run of the next record of a commit that already holds `taken`: never one of those. */
static struct run *pick_run(struct shard *s, int64_t taken)
{
    uint64_t rest = (uint64_t)(s->options->in_flight - taken);
    struct run *other = &s->runs[(uint64_t)taken + mix(~s->draws++) % rest];
    struct run run = s->runs[taken];
    s->runs[taken] = *other;
    *other = run;
    return &s->runs[taken];
}

static void commit_records(struct shard *s)
{
    const struct options *o = s->options;
    step(s, s->begin, "begin");
    for (int64_t i = 0; i < o->batch; i += o->rows_a_statement) {
        int at = 1;
        for (int64_t row = 0; row < o->rows_a_statement; row++)
            at = bind_record(s, at, pick_run(s, i + row), row);
        step(s, s->insert, "insert");
        if (sqlite3_changes(s->db) != o->rows_a_statement)
            fail("insert", "a key was there already");
    }
    step(s, s->commit, "commit");
}

static void append_records(struct shard *s)
{
    const struct options *o = s->options;
    uint64_t start_ns = now_ns(CLOCK_MONOTONIC);
    uint64_t start_cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int64_t rows = 0; rows < o->rows; rows += o->batch, s->commits++) {
        uint64_t begin_ns = now_ns(CLOCK_MONOTONIC);
        commit_records(s);
        uint64_t end_ns = now_ns(CLOCK_MONOTONIC);
        s->commit_ns[s->commits] = end_ns - begin_ns;
        if (s->wal_frames * (o->page_bytes + WAL_FRAME_HEADER_BYTES) < o->wal_bound_bytes)
            continue;
        checkpoint(s);
        s->stall_ns[s->commits] = now_ns(CLOCK_MONOTONIC) - end_ns;
        s->checkpoint_ns += s->stall_ns[s->commits];
        s->checkpoints++;
    }
    checkpoint(s);
    s->elapsed_ns = now_ns(CLOCK_MONOTONIC) - start_ns;
    s->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - start_cpu_ns;
}

static void *shard_main(void *context)
{
    struct shard *s = context;
    const struct options *o = s->options;
    s->commit_ns = allocate(o->rows / o->batch, sizeof(*s->commit_ns));
    s->stall_ns = allocate(o->rows / o->batch, sizeof(*s->stall_ns));
    s->runs = allocate(o->in_flight, sizeof(*s->runs));
    s->uuids = allocate(o->rows_a_statement, sizeof(*s->uuids));
    s->payload = allocate(o->payload_bytes, 1);
    memset(s->payload, 'x', (size_t)o->payload_bytes);
    for (int64_t i = 0; i < o->in_flight; i++)
        s->runs[i].number = s->run_next++;
    store_open(s);
    for (int kind = 0; kind < FILE_KINDS; kind++)
        s->files[kind].bytes = s->files[kind].syncs = 0;
    append_records(s);
    store_close(s);
    free(s->runs);
    free(s->uuids);
    free(s->payload);
    return NULL;
}

/* The figures. */

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_distribution(const char *name, uint64_t *values_ns, uint64_t count)
{
    double sum_ns = 0;
    for (uint64_t i = 0; i < count; i++)
        sum_ns += (double)values_ns[i];
    qsort(values_ns, count, sizeof(*values_ns), compare_ns);
    printf(" %s_mean_ns=%.0f %s_p50_ns=%" PRIu64 " %s_p99_ns=%" PRIu64 " %s_max_ns=%" PRIu64, name,
           sum_ns / (double)count, name, values_ns[count / 2], name, values_ns[count * 99 / 100],
           name, values_ns[count - 1]);
}

/* From append to ack: a record that arrives at any point of a busy period (a commit and the
 * checkpoint after it) is acked when the next commit is over. */
static uint64_t list_acks(const struct shard *s, uint64_t *acks_ns)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i + 1 < s->commits; i++)
        for (uint64_t point = 0; point < ARRIVALS_A_COMMIT; point++)
            acks_ns[count++] = (s->commit_ns[i] + s->stall_ns[i]) * (2 * point + 1) /
                                   (UINT64_C(2) * ARRIVALS_A_COMMIT) +
                               s->commit_ns[i + 1];
    return count;
}

static void print_figures(const struct options *o, const struct shard *shards)
{
    int64_t commits_max = o->rows / o->batch * o->shards;
    uint64_t *commits_ns = allocate(commits_max, sizeof(*commits_ns));
    uint64_t *acks_ns = allocate(commits_max * ARRIVALS_A_COMMIT, sizeof(*acks_ns));
    uint64_t acks = 0;
    struct shard all = {0};
    for (const struct shard *s = shards; s < shards + o->shards; s++) {
        memcpy(commits_ns + all.commits, s->commit_ns, s->commits * sizeof(*commits_ns));
        acks += list_acks(s, acks_ns + acks);
        all.commits += s->commits;
        all.elapsed_ns = s->elapsed_ns > all.elapsed_ns ? s->elapsed_ns : all.elapsed_ns;
        all.cpu_ns += s->cpu_ns;
        all.checkpoints += s->checkpoints;
        all.checkpoint_ns += s->checkpoint_ns;
        all.database_bytes += s->database_bytes;
        for (int kind = 0; kind < FILE_KINDS; kind++) {
            all.files[kind].bytes += s->files[kind].bytes;
            all.files[kind].syncs += s->files[kind].syncs;
        }
    }
    double rows = (double)o->rows * (double)o->shards;
    double commits = (double)all.commits;
    uint64_t wal_syncs = all.files[FILE_WAL].syncs;
    printf("rows=%.0f rows_per_s=%.0f cpu_ns_per_row=%.0f", rows,
           rows * 1e9 / (double)all.elapsed_ns, (double)all.cpu_ns / rows);
    printf(" wal_bytes_per_row=%.1f checkpoint_bytes_per_row=%.1f db_bytes_per_row=%.1f",
           (double)all.files[FILE_WAL].bytes / rows, (double)all.files[FILE_DATABASE].bytes / rows,
           (double)all.database_bytes / rows);
    printf(" fsyncs_per_commit=%.3f wal_fsyncs_per_commit=%.3f",
           (double)(wal_syncs + all.files[FILE_DATABASE].syncs) / commits,
           (double)wal_syncs / commits);
    print_distribution("commit", commits_ns, all.commits);
    if (acks > 0)
        print_distribution("ack", acks_ns, acks);
    printf(" checkpoints=%" PRIu64 " checkpoint_mean_ns=%" PRIu64 "\n", all.checkpoints,
           all.checkpoints > 0 ? all.checkpoint_ns / all.checkpoints : 0);
    free(commits_ns);
    free(acks_ns);
}

/* The command line. */

static int64_t parse_value(const char *const *choices, const char *text)
{
    for (int64_t i = 0; choices != NULL && choices[i] != NULL; i++)
        if (strcmp(choices[i], text) == 0)
            return i;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (choices != NULL || end == text || *end != '\0' || errno != 0 || value < 0)
        fail("not a value of that flag", text);
    return value;
}

static void parse_flag(struct options *o, const char *name, const char *text)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (strcmp(flags[i].name, name) == 0) {
            int64_t value = parse_value(flags[i].choices, text);
            memcpy((char *)o + flags[i].offset, &value, sizeof(value));
            return;
        }
    fail("no such flag", name);
}

static void check_options(struct options *o)
{
    if (o->batch == 0 || o->rows < o->batch || o->payload_bytes == 0 || o->rows_a_statement == 0)
        fail("usage", "fewer rows than a batch, or no batch, payload or rows a statement");
    if (o->shards == 0 || o->shards > SHARDS_MAX)
        fail("usage", "no shards or too many");
    if (layouts[o->layout].is_packed && o->key != KEY_SEQ)
        fail("usage", "only numbers can be packed");
    /* Whole statements, whole commits. */
    if (o->rows_a_statement > o->batch)
        o->rows_a_statement = o->batch;
    o->batch -= o->batch % o->rows_a_statement;
    o->rows -= o->rows % o->batch;
    if (o->in_flight < o->batch)
        o->in_flight = o->batch;
}

int main(int argc, char **argv)
{
    struct options options = {
        .rows = 1000000,
        .batch = 2500,
        .payload_bytes = 170,
        .page_bytes = 8192,
        .rows_a_statement = 16,
        .wal_bound_bytes = 1 << 20,
        .cache_bytes = 8 << 20,
        .in_flight = 5000,
        .shards = 1,
    };
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2)
        parse_flag(&options, argv[i] + 1, argv[i + 1]);
    if (i + 1 != argc)
        fail("usage", "bare_sqlite [-flag VALUE]... PATH");
    check_options(&options);
    struct shard *shards = allocate(options.shards, sizeof(*shards));
    for (int n = 0; n < options.shards; n++) {
        struct shard *s = &shards[n];
        s->options = &options;
        s->layout = &layouts[options.layout];
        (void)snprintf(s->vfs_name, sizeof(s->vfs_name), "counted-%d", n);
        (void)snprintf(s->path, sizeof(s->path), options.shards > 1 ? "%s.%d" : "%s", argv[i], n);
        int error = pthread_create(&s->thread, NULL, shard_main, s);
        if (error != 0)
            fail("thread", strerror(error));
    }
    for (int n = 0; n < options.shards; n++)
        (void)pthread_join(shards[n].thread, NULL); /* a thread that runs can be joined */
    print_figures(&options, shards);
    for (int n = 0; n < options.shards; n++) {
        free(shards[n].commit_ns);
        free(shards[n].stall_ns);
    }
    free(shards);
    return EXIT_SUCCESS;
}
