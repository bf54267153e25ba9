/* sqlite_shard: see sqlite_shard.h. Queue, thread, and who has the connection; what is done with it
 * is in sqlite_commit.c and sqlite_read.c. */
#include "journal/sqlite_shard.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/loop.h"

/* Of runs that have not ended, all shards together. */
enum {
    RUNS_HELD_MAX = 1 << 20,
    REST_ONE_IN = 10, /* of the time, for a shard that keeps up */
};

#define WINDOW_NS (50 * NS_PER_MS)

/* Each lands on another page of the index: with room for more of them fewer leave for the WAL
 * before their commit. */
static const char cache_for_random_keys[] = "PRAGMA cache_size=-65536";

/* --- batches: there and back --- */

void sqlite_shard_send(struct sqlite_shard *shard, struct sqlite_sent *sent)
{
    sent->next = NULL;
    (void)pthread_mutex_lock(&shard->lock); /* a plain mutex, never held twice */
    bool was_empty = shard->first == NULL;
    *shard->end = sent;
    shard->end = &sent->next;
    bool must_wake = was_empty && !shard->is_owned;
    (void)pthread_mutex_unlock(&shard->lock);
    if (must_wake)
        (void)pthread_cond_signal(&shard->changed);
}

/* What is queued, up to the bound of a transaction. The lock is held. */
static struct sqlite_sent *drain(struct sqlite_shard *shard)
{
    const uint64_t records_max =
        shard->is_behind ? SQLITE_COMMIT_RECORDS_MAX : SQLITE_COMMIT_RECORDS_FEW;
    struct sqlite_sent *first = shard->first;
    uint64_t records = 0;
    uint64_t bytes = 0;
    struct sqlite_sent **at = &shard->first;
    for (; *at != NULL; at = &(*at)->next) {
        records += (*at)->batch->count;
        bytes += (*at)->batch->bytes_used;
        if (*at != first && (records > records_max || bytes > SQLITE_COMMIT_BYTES_MAX))
            break;
    }
    shard->first = *at;
    *at = NULL;
    if (shard->first == NULL)
        shard->end = &shard->first;
    return first;
}

/* Pushes the chain onto its writer's stack, and wakes a writer that has nothing there yet: one that
 * has was woken, and has not looked since. */
static void hand_back(struct sqlite_chain *chain)
{
    struct sqlite_writer *writer = chain->first->writer;
    struct sqlite_sent *top = atomic_load_explicit(&writer->settled, memory_order_relaxed);
    do
        chain->last->next = top;
    while (!atomic_compare_exchange_weak_explicit(&writer->settled, &top, chain->first,
                                                  memory_order_release, memory_order_relaxed));
    if (top == NULL)
        loop_wake(writer->writer->loop);
    *chain = (struct sqlite_chain){NULL, NULL};
}

static void hand_back_all(struct sqlite_shard *shard, struct sqlite_sent *first,
                          uint64_t settled_ns)
{
    for (struct sqlite_sent *sent = first, *next; sent != NULL; sent = next) {
        struct sqlite_chain *chain = &shard->chains[sent->writer->writer->index];
        next = sent->next;
        sent->settled_ns = settled_ns;
        sent->next = chain->first;
        if (chain->first == NULL)
            chain->last = sent;
        chain->first = sent;
    }
    for (unsigned i = 0; i < shard->journal->writers; i++)
        if (shard->chains[i].first != NULL)
            hand_back(&shard->chains[i]);
}

void sqlite_shard_forget(struct sqlite_shard *shard, const struct sqlite_writer *writer)
{
    (void)pthread_mutex_lock(&shard->lock);
    struct sqlite_sent **at = &shard->first;
    while (*at != NULL) {
        if ((*at)->writer == writer)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    shard->end = at;
    /* What is drained after this has nothing of the writer. */
    uint64_t turn = shard->turns;
    while (shard->is_committing && shard->turns == turn)
        (void)pthread_cond_wait(&shard->given_back, &shard->lock);
    (void)pthread_mutex_unlock(&shard->lock);
}

/* --- the connection --- */

void sqlite_shard_borrow(struct sqlite_shard *shard)
{
    (void)pthread_mutex_lock(&shard->lock);
    shard->borrowers++;
    while (shard->is_owned)
        (void)pthread_cond_wait(&shard->given_back, &shard->lock);
    shard->borrowers--;
    shard->is_owned = true;
    (void)pthread_mutex_unlock(&shard->lock);
}

/* The lock is held. */
static void give_back(struct sqlite_shard *shard)
{
    assert(shard->is_owned);
    shard->is_owned = false;
    shard->is_committing = false;
    shard->turns++;
    (void)pthread_cond_broadcast(&shard->given_back);
}

void sqlite_shard_give_back(struct sqlite_shard *shard)
{
    (void)pthread_mutex_lock(&shard->lock);
    give_back(shard);
    (void)pthread_cond_signal(&shard->changed);
    (void)pthread_mutex_unlock(&shard->lock);
}

void sqlite_shard_bind_run(const struct sqlite_shard *shard, sqlite3_stmt *statement, int parameter,
                           uint64_t run, uint8_t uuid[RUN_KEY_UUID_BYTES])
{
    const struct journal_campaign *campaign = &shard->campaign;
    int64_t packed = run_key_pack(campaign->id, run);
    /* Neither fails: no memory is needed. */
    if (campaign->key == RUN_KEY_SEQ) {
        (void)sqlite3_bind_int64(statement, parameter, packed);
        return;
    }
    run_key_make_uuid(campaign->key, packed, campaign->created_unix_ms, uuid);
    (void)sqlite3_bind_blob(statement, parameter, uuid, RUN_KEY_UUID_BYTES, SQLITE_STATIC);
}

/* --- the thread --- */

/* Readers that wait come first: they are few, and the queue only grows into a larger commit. */
static bool has_work(const struct sqlite_shard *shard)
{
    return shard->first != NULL && !shard->is_owned && shard->borrowers == 0;
}

/* The lock is held. False when the thread is to end. */
static bool wait_for_work(struct sqlite_shard *shard)
{
    uint64_t start_ns = clock_monotonic_ns();
    while (!shard->must_stop && !has_work(shard))
        (void)pthread_cond_wait(&shard->changed, &shard->lock);
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t window_ns = now_ns - shard->window_start_ns;
    shard->rest_ns += now_ns - start_ns;
    if (window_ns >= WINDOW_NS) {
        shard->is_behind = shard->rest_ns < window_ns / REST_ONE_IN;
        shard->window_start_ns = now_ns;
        shard->rest_ns = 0;
    }
    return !shard->must_stop;
}

static void *shard_main(void *arg)
{
    struct sqlite_shard *shard = arg;
    (void)pthread_mutex_lock(&shard->lock);
    while (wait_for_work(shard)) {
        struct sqlite_sent *first = drain(shard);
        shard->is_owned = true;
        shard->is_committing = true;
        (void)pthread_mutex_unlock(&shard->lock);
        uint64_t settled_ns = sqlite_shard_commit(shard, first);
        hand_back_all(shard, first, settled_ns);
        sqlite_shard_bound_wal(shard);
        (void)pthread_mutex_lock(&shard->lock);
        give_back(shard);
    }
    (void)pthread_mutex_unlock(&shard->lock);
    return NULL;
}

/* Signals are for the thread that the program keeps for them. */
static int start_thread(struct sqlite_shard *shard, struct errmsg *why)
{
    sigset_t all;
    sigset_t old;
    (void)sigfillset(&all); /* these four cannot fail with valid arguments */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    shard->window_start_ns = clock_monotonic_ns();
    int error = pthread_create(&shard->thread, NULL, shard_main, shard);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    shard->has_thread = error == 0;
    return error == 0 ? 0 : errmsg_set(why, -error, "a thread of the journal: %s", strerror(error));
}

static void stop_thread(struct sqlite_shard *shard)
{
    if (!shard->has_thread)
        return;
    (void)pthread_mutex_lock(&shard->lock);
    assert(shard->first == NULL && shard->borrowers == 0);
    shard->must_stop = true;
    (void)pthread_cond_signal(&shard->changed);
    (void)pthread_mutex_unlock(&shard->lock);
    (void)pthread_join(shard->thread, NULL);
    shard->has_thread = false;
}

/* --- life --- */

/* SQLite tells after a commit how many pages the WAL holds. */
static int hear_commit(void *arg, sqlite3 *handle, const char *schema, int pages)
{
    struct sqlite_shard *shard = arg;
    (void)handle;
    (void)schema;
    shard->wal_pages = (uint64_t)pages;
    return SQLITE_OK;
}

int sqlite_shard_init(struct sqlite_shard *shard, struct journal *journal, atomic_bool *has_failed,
                      struct errmsg *why)
{
    shard->journal = journal;
    shard->has_failed = has_failed;
    shard->end = &shard->first;
    run_table_init(&shard->runs, 1);
    shard->chains = calloc(journal->writers, sizeof(shard->chains[0]));
    /* These cannot fail with default attributes. */
    (void)pthread_mutex_init(&shard->lock, NULL);
    (void)pthread_cond_init(&shard->changed, NULL);
    (void)pthread_cond_init(&shard->given_back, NULL);
    return shard->chains != NULL ? 0 : errmsg_set(why, -ENOMEM, "no memory for the journal");
}

int sqlite_shard_start(struct sqlite_shard *shard, unsigned shards, struct errmsg *why)
{
    run_table_init(&shard->runs, RUNS_HELD_MAX / shards);
    shard->campaign = shard->journal->campaign;
    shard->sql = sqlite_record_sql(shard->campaign.key);
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } statements[] = {
        {"BEGIN IMMEDIATE", &shard->begin},
        {"COMMIT", &shard->commit},
        {"ROLLBACK", &shard->rollback},
        {shard->sql->insert, &shard->insert},
        {shard->sql->insert_many, &shard->insert_many},
        {shard->sql->next_seq, &shard->next_seq},
        {shard->sql->find, &shard->find},
    };
    for (unsigned i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        int error = sqlite_db_prepare(&shard->db, statements[i].sql, statements[i].statement, why);
        if (error != 0)
            return error;
    }
    (void)sqlite3_wal_hook(shard->db.handle, hear_commit, shard);
    int error = sqlite_db_set_level(&shard->db, shard->journal->durability, why);
    if (error == 0 && shard->campaign.key == RUN_KEY_UUIDV4)
        error = sqlite_db_execute(&shard->db, cache_for_random_keys, "setting up", why);
    return error != 0 ? error : start_thread(shard, why);
}

void sqlite_shard_close(struct sqlite_shard *shard)
{
    sqlite3_stmt *const statements[] = {shard->begin,  shard->commit,      shard->rollback,
                                        shard->insert, shard->insert_many, shard->next_seq,
                                        shard->find};
    struct errmsg why;
    stop_thread(shard);
    for (unsigned i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
        (void)sqlite3_finalize(statements[i]); /* an error was told when it happened */
    /* What cannot be brought into the database stays in the WAL, for the next process. */
    if (shard->wal_pages > 0 && !shard->is_broken && sqlite_shard_checkpoint(shard, &why) != 0)
        sqlite_db_trust(&shard->db, false);
    sqlite_db_close(&shard->db);
    run_table_free(&shard->runs);
    free(shard->chains);
    (void)pthread_cond_destroy(&shard->given_back); /* nobody waits: all writers are closed */
    (void)pthread_cond_destroy(&shard->changed);
    (void)pthread_mutex_destroy(&shard->lock);
}
