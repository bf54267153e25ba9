/*
 * The SQLite store: one to 64 files, each with its thread and one connection.
 *
 * PATH is shard 0, which holds the campaigns; PATH.1 and so on are the others. A run belongs to the
 * shard that its number hashes to, in every process. What a shard does is in sqlite_shard.c, how
 * records are committed in sqlite_commit.c; here is the store as a whole.
 *
 * Opening: shard 0 first, whose lock stands for the store's; then the others, which must be of the
 * same store. A store is made file by file, shard 0 first, and holds no campaign before it is
 * whole: so a file that is missing from a store without campaigns was never made, and is made now.
 * What an opening has made it deletes again when it fails.
 *
 * What a WAL holds after a crash is brought into the database and synced before anything is read or
 * appended: a process that is killed leaves frames that were never synced, and a record that is
 * acted upon must be durable. The campaign is recorded at full durability, whatever the level, so
 * that a number is never used twice.
 *
 * The levels: power syncs the WAL at each commit (synchronous=FULL), process does not (NORMAL), and
 * none syncs nothing at all (OFF).
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "engine/loop.h"
#include "journal/sqlite_campaigns.h"
#include "journal/sqlite_read.h"
#include "journal/sqlite_settings.h"
#include "journal/sqlite_shard.h"

struct store {
    uint8_t id[SQLITE_STORE_ID_BYTES];
    struct campaign_keys campaigns;
    atomic_bool has_failed;
    unsigned shard_count;
    unsigned opened; /* shards with something to be closed */
    struct sqlite_shard shards[JOURNAL_SHARDS_MAX];
};

static const char *path_of(const char *uri)
{
    return uri + strlen("sqlite:");
}

/* --- opening --- */

static bool is_same_store(const struct store *store, const struct sqlite_identity *identity,
                          unsigned shard)
{
    return memcmp(store->id, identity->store, sizeof(store->id)) == 0 && identity->shard == shard &&
           identity->shards == store->shard_count;
}

/* Shard 0 says which store it is, and of how many files. */
static int take_identity(struct store *store, const struct sqlite_identity *identity,
                         const struct journal_config *config, struct errmsg *why)
{
    const struct sqlite_db *db = &store->shards[0].db;
    if (identity->shard != 0)
        return errmsg_set(why, -EINVAL, SQLITE_PATH_SHOWN " is shard %u of a store, not its first",
                          db->path, identity->shard);
    if (config->shards != 0 && config->shards != identity->shards)
        return errmsg_set(why, -EINVAL, SQLITE_PATH_SHOWN " has %u shards, not %u", db->path,
                          identity->shards, config->shards);
    memcpy(store->id, identity->store, sizeof(store->id));
    store->shard_count = identity->shards;
    return sqlite_campaigns_load(&store->shards[0].db, &store->campaigns, why);
}

static int identify(struct store *store, unsigned index, const struct journal_config *config,
                    struct errmsg *why)
{
    struct sqlite_db *db = &store->shards[index].db;
    struct sqlite_identity identity = {.shard = index};
    int error = 0;
    if (db->is_empty) {
        memcpy(identity.store, store->id, sizeof(store->id));
        identity.shards = store->shard_count;
        return sqlite_schema_create(db, &identity, why);
    }
    error = sqlite_schema_check(db, &identity, why);
    if (error != 0)
        return error;
    if (index == 0)
        return take_identity(store, &identity, config, why);
    if (!is_same_store(store, &identity, index))
        return errmsg_set(why, -EINVAL, SQLITE_PATH_SHOWN " is not shard %u of " SQLITE_PATH_SHOWN,
                          db->path, index, store->shards[0].db.path);
    return 0;
}

/* From here on the file is known to be ours, and is written. */
static int make_ready(struct sqlite_shard *shard, struct errmsg *why)
{
    int error = sqlite_db_execute(&shard->db, "COMMIT", "opening", why);
    if (error == 0)
        error = sqlite_db_set_wal(&shard->db, why);
    if (error == 0)
        error = sqlite_db_drop_journal(&shard->db, why);
    if (error == 0)
        error = sqlite_db_empty_wal(&shard->db, why);
    if (error == 0)
        sqlite_db_trust(&shard->db, true);
    return error;
}

static int open_shard(struct store *store, struct journal *journal, unsigned index,
                      const struct journal_config *config, struct errmsg *why)
{
    struct sqlite_shard *shard = &store->shards[index];
    char path[SQLITE_PATH_BYTES];
    bool is_audit = config->mode == JOURNAL_AUDIT;
    bool may_create = config->mode == JOURNAL_NEW && store->campaigns.count == 0;

    if (index == 0)
        (void)snprintf(path, sizeof(path), "%s", path_of(config->uri));
    else
        (void)snprintf(path, sizeof(path), "%s.%u", path_of(config->uri), index);
    shard->index = index;
    store->opened = index + 1;
    int error = sqlite_shard_init(shard, journal, &store->has_failed, why);
    if (error == 0)
        error = sqlite_db_open(&shard->db, path, is_audit, may_create, why);
    if (error == 0 && shard->db.is_empty && !may_create)
        error = errmsg_set(why, -ENOENT, SQLITE_PATH_SHOWN " is empty", path);
    if (error == 0)
        error = identify(store, index, config, why);
    if (error == 0 && !is_audit)
        error = make_ready(shard, why);
    return error;
}

/* --- the campaign --- */

static int begin_campaign(struct store *store, struct journal *journal,
                          const struct journal_config *config, struct errmsg *why)
{
    struct journal_campaign campaign = journal_new_campaign(journal, config);
    campaign.description = strdup(campaign.description);
    if (campaign.description == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a campaign");
    int error = sqlite_campaigns_add(&store->shards[0].db, &campaign, why);
    if (error != 0) {
        sqlite_campaign_free(&campaign);
        return error;
    }
    journal->campaign = campaign;
    return sqlite_campaigns_load(&store->shards[0].db, &store->campaigns, why);
}

static int choose_campaign(struct store *store, struct journal *journal,
                           const struct journal_config *config, struct errmsg *why)
{
    struct sqlite_db *db = &store->shards[0].db;
    if (config->mode == JOURNAL_NEW)
        return begin_campaign(store, journal, config, why);
    const struct campaign_keys *known = &store->campaigns;
    if (known->count == 0)
        return errmsg_set(why, -ENOENT, SQLITE_PATH_SHOWN " has no campaign", db->path);
    uint64_t id = config->campaign != 0 ? config->campaign : known->all[known->count - 1].campaign;
    int error = sqlite_campaigns_find(db, id, &journal->campaign, why);
    return error != 0 ? error : journal_resume_level(journal, config, &journal->campaign, why);
}

/* --- life --- */

static void close_shards(struct store *store, bool is_undone)
{
    /* Shard 0 last: its lock is the store's. */
    for (unsigned i = store->opened; i-- > 0;) {
        if (is_undone)
            sqlite_db_undo_create(&store->shards[i].db);
        sqlite_shard_close(&store->shards[i]);
    }
    store->opened = 0;
}

static void store_free(struct store *store, struct journal *journal)
{
    sqlite_campaign_free(&journal->campaign);
    campaign_keys_free(&store->campaigns);
    free(store);
}

static int sqlite_open(struct journal *journal, const struct journal_config *config,
                       struct errmsg *why)
{
    if (config->shards > JOURNAL_SHARDS_MAX)
        return errmsg_set(why, -EINVAL, "journal sqlite has 1 to %d shards, not %u",
                          JOURNAL_SHARDS_MAX, config->shards);
    if (strlen(path_of(config->uri)) >= SQLITE_PATH_BYTES - sizeof(".63"))
        return errmsg_set(why, -ENAMETOOLONG, "%.60s…: %s", path_of(config->uri),
                          strerror(ENAMETOOLONG));
    struct store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for the journal");
    store->shard_count = config->shards > 0 ? config->shards : 1;
    sqlite3_randomness(sizeof(store->id), store->id);
    int error = 0;
    for (unsigned i = 0; i < store->shard_count && error == 0; i++)
        error = open_shard(store, journal, i, config, why);
    bool is_audit = config->mode == JOURNAL_AUDIT;
    if (error == 0 && !is_audit)
        error = choose_campaign(store, journal, config, why);
    for (unsigned i = 0; i < store->shard_count && error == 0 && !is_audit; i++)
        error = sqlite_shard_start(&store->shards[i], store->shard_count, why);
    if (error != 0) {
        close_shards(store, true);
        store_free(store, journal);
        return error;
    }
    journal->parts = store->shard_count;
    journal->impl = store;
    return 0;
}

static void sqlite_close(struct journal *journal)
{
    struct store *store = journal->impl;
    close_shards(store, false);
    store_free(store, journal);
}

static void sqlite_discard(struct journal *journal)
{
    struct store *store = journal->impl;
    struct sqlite_shard *first = &store->shards[0];
    struct errmsg unused;
    bool is_new = journal->campaign.id == 1;
    for (unsigned i = 0; i < store->shard_count; i++)
        is_new = is_new && store->shards[i].db.is_made_here;
    if (!is_new) {
        sqlite_shard_borrow(first);
        (void)sqlite_campaigns_remove(&first->db, journal->campaign.id, &unused);
        sqlite_shard_give_back(first);
    }
    close_shards(store, is_new);
    store_free(store, journal);
}

/* --- writers --- */

static int sqlite_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    const struct store *store = writer->journal->impl;
    unsigned slots = store->shard_count * JOURNAL_DEPTH_MAX;
    struct sqlite_writer *opened = calloc(1, sizeof(*opened) + slots * sizeof(struct sqlite_sent));
    if (opened == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a writer of the journal");
    opened->writer = writer;
    for (unsigned i = 0; i < slots; i++) {
        opened->slots[i].writer = opened;
        opened->slots[i].next = opened->free;
        opened->free = &opened->slots[i];
    }
    writer->lanes = store->shard_count;
    writer->depth = JOURNAL_DEPTH_MAX;
    writer->impl = opened;
    return 0;
}

static void sqlite_writer_close(struct journal_writer *writer)
{
    struct store *store = writer->journal->impl;
    struct sqlite_writer *closed = writer->impl;
    for (unsigned i = 0; i < store->shard_count; i++)
        sqlite_shard_forget(&store->shards[i], closed);
    free(closed->buffer);
    free(closed);
    writer->impl = NULL;
}

static void sqlite_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    struct store *store = writer->journal->impl;
    struct sqlite_writer *from = writer->impl;
    if (atomic_load_explicit(&store->has_failed, memory_order_relaxed)) {
        journal_batch_fail(batch, JOURNAL_STOPPED);
        journal_batch_done(writer, batch, loop_clock_ns(writer->loop));
        return;
    }
    struct sqlite_sent *sent = from->free;
    assert(sent != NULL); /* as many as all lanes may have in flight */
    from->free = sent->next;
    sent->batch = batch;
    sqlite_shard_send(&store->shards[batch->lane], sent);
}

static void sqlite_poll(struct journal_writer *writer)
{
    struct sqlite_writer *to = writer->impl;
    if (atomic_load_explicit(&to->settled, memory_order_relaxed) == NULL)
        return;
    struct sqlite_sent *stack = atomic_exchange_explicit(&to->settled, NULL, memory_order_acquire);
    struct sqlite_sent *first = NULL;
    for (struct sqlite_sent *next; stack != NULL; stack = next) {
        next = stack->next;
        stack->next = first;
        first = stack;
    }
    for (struct sqlite_sent *next; first != NULL; first = next) {
        struct journal_batch *batch = first->batch;
        next = first->next;
        first->next = to->free;
        to->free = first;
        journal_batch_done(writer, batch, first->settled_ns);
    }
}

/* --- reading --- */

static int sqlite_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                       struct journal_record *record)
{
    struct store *store = writer->journal->impl;
    struct sqlite_writer *to = writer->impl;
    struct sqlite_shard *shard = &store->shards[journal_lane_of(run, store->shard_count)];
    struct errmsg why = {.text = ""};
    sqlite_shard_borrow(shard);
    int error = sqlite_read_record(shard, run, seq, record, &to->buffer, &to->buffer_bytes, &why);
    sqlite_shard_give_back(shard);
    if (error != 0 && error != -ENOENT)
        journal_fail(writer->journal, "%s", why.text);
    return error;
}

static int sqlite_list(struct journal *journal,
                       int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                       struct errmsg *why)
{
    struct sqlite_shard *shard = &((struct store *)journal->impl)->shards[0];
    sqlite_shard_borrow(shard);
    int result = sqlite_campaigns_list(&shard->db, visit, arg, why);
    sqlite_shard_give_back(shard);
    return result;
}

static int sqlite_scan(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                       journal_visit *visit, void *arg, struct errmsg *why)
{
    struct store *store = journal->impl;
    struct sqlite_shard *shard = &store->shards[part];
    sqlite_shard_borrow(shard);
    int result = sqlite_read_scan(shard, &store->campaigns, campaign, kinds, visit, arg, why);
    sqlite_shard_give_back(shard);
    return result;
}

static int sqlite_runs(struct journal *journal, unsigned part, const uint64_t *runs, unsigned count,
                       journal_visit *visit, void *arg, struct errmsg *why)
{
    struct sqlite_shard *shard = &((struct store *)journal->impl)->shards[part];
    sqlite_shard_borrow(shard);
    int result = sqlite_read_runs(shard, runs, count, visit, arg, why);
    sqlite_shard_give_back(shard);
    return result;
}

/* What is counted must be there for the next process, too. */
static int check_place(struct sqlite_shard *shard, struct errmsg *why)
{
    sqlite_shard_borrow(shard);
    bool has_moved = sqlite_db_has_moved(&shard->db);
    sqlite_shard_give_back(shard);
    if (!has_moved)
        return 0;
    return errmsg_set(why, -ESTALE,
                      SQLITE_PATH_SHOWN " was deleted or renamed while it was written",
                      shard->db.path);
}

static int sqlite_count(struct journal *journal, unsigned part, struct journal_count *count,
                        struct errmsg *why)
{
    struct sqlite_shard *shard = &((struct store *)journal->impl)->shards[part];
    int error = check_place(shard, why);
    if (error != 0)
        return error;
    if (journal->campaign.key != RUN_KEY_SEQ) /* whose keys do not say the campaign by themselves */
        return sqlite_scan(journal, journal->campaign.id, part, UINT32_MAX, journal_count_record,
                           count, why);
    sqlite_shard_borrow(shard);
    int result = sqlite_read_count_numbers(shard, journal->campaign.id, count, why);
    sqlite_shard_give_back(shard);
    return result;
}

/* --- its files --- */

/* Where the path leads, links followed, also to what is not there yet: then glibc leaves the first
 * name there that it has not found. */
static bool find_place(const char *path, char place[PATH_MAX])
{
    return realpath(path, place) != NULL || errno == ENOENT;
}

static bool is_same_file(const char *path, const struct stat *status)
{
    struct stat other;
    return stat(path, &other) == 0 && other.st_dev == status->st_dev &&
           other.st_ino == status->st_ino;
}

/* SQLite keeps what belongs to a database beside the place that links lead to. */
static bool sqlite_owns_path(const char *uri, const char *path)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    const char *first = path_of(uri);
    char wanted[PATH_MAX];
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (!find_place(path, wanted))
        return false;
    for (unsigned shard = 0; shard < JOURNAL_SHARDS_MAX; shard++) {
        char name[PATH_MAX + 16];
        char place[PATH_MAX];
        (void)snprintf(name, sizeof(name), shard > 0 ? "%s.%u" : "%s", first, shard);
        if (!find_place(name, place))
            continue;
        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
            (void)snprintf(name, sizeof(name), "%s%s", place, endings[i]);
            if (strcmp(name, wanted) == 0 || (exists && is_same_file(name, &status)))
                return true;
        }
    }
    return false;
}

static struct journal_disk sqlite_disk(const char *uri)
{
    char place[PATH_MAX];
    struct statfs disk;
    if (!find_place(path_of(uri), place) || statfs(dirname(place), &disk) != 0)
        return (struct journal_disk){.free_bytes = JOURNAL_NOT_KNOWN}; /* opening it will tell */
    return (struct journal_disk){
        .free_bytes = (uint64_t)disk.f_bavail * (uint64_t)disk.f_bsize,
        .is_memory = disk.f_type == TMPFS_MAGIC || disk.f_type == RAMFS_MAGIC,
    };
}

/* --- figures --- */

static uint64_t file_bytes(const char *path, const char *ending)
{
    char name[SQLITE_PATH_BYTES + 16];
    struct stat status;
    (void)snprintf(name, sizeof(name), "%s%s", path, ending);
    return stat(name, &status) == 0 ? (uint64_t)status.st_size : 0;
}

static void sqlite_io(struct journal *journal, struct journal_io *io)
{
    const struct store *store = journal->impl;
    *io = (struct journal_io){.commits = 0};
    for (unsigned i = 0; i < store->shard_count; i++) {
        const struct sqlite_shard *shard = &store->shards[i];
        io->commits += atomic_load_explicit(&shard->commits, memory_order_relaxed);
        io->commit_ns += atomic_load_explicit(&shard->commit_ns, memory_order_relaxed);
        io->checkpoints += atomic_load_explicit(&shard->checkpoints, memory_order_relaxed);
        io->checkpoint_ns += atomic_load_explicit(&shard->checkpoint_ns, memory_order_relaxed);
        for (unsigned kind = 0; kind < SQLITE_FILE_KINDS; kind++) {
            const struct sqlite_io_counts *counts = &shard->db.io.counts[kind];
            uint64_t written = atomic_load_explicit(&counts->written_bytes, memory_order_relaxed);
            if (kind == SQLITE_FILE_WAL)
                io->wal_bytes += written;
            else
                io->db_bytes += written;
            io->syncs += atomic_load_explicit(&counts->syncs_count, memory_order_relaxed);
        }
        io->store_bytes += file_bytes(shard->db.full, "") + file_bytes(shard->db.full, "-wal");
    }
}

/* All shards are set alike. */
static void sqlite_describe(struct journal *journal, struct journal_settings *settings)
{
    struct sqlite_shard *shard = &((struct store *)journal->impl)->shards[0];
    sqlite_shard_borrow(shard);
    sqlite_settings_read(&shard->db, settings);
    sqlite_shard_give_back(shard);
}

const struct journal_ops journal_sqlite_ops = {
    .name = "sqlite",
    .levels = {DURABILITY_POWER, DURABILITY_PROCESS, DURABILITY_NONE},
    .has_shards = true,
    .has_keys = true,
    .owns_path = sqlite_owns_path,
    .disk = sqlite_disk,
    .open = sqlite_open,
    .close = sqlite_close,
    .discard = sqlite_discard,
    .writer_open = sqlite_writer_open,
    .writer_close = sqlite_writer_close,
    .commit = sqlite_commit,
    .poll = sqlite_poll,
    .read = sqlite_read,
    .io = sqlite_io,
    .describe = sqlite_describe,
    .list = sqlite_list,
    .scan = sqlite_scan,
    .read_runs = sqlite_runs,
    .count = sqlite_count,
};
