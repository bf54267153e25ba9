/* pg_lane: see pg_lane.h. */
#include "journal/pg_lane.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Runs of a lane that are remembered: 16 to 32 bytes each. */
enum { RUNS_MAX = 1 << 20 };
/* Between tries to connect while there is nothing to send. */
#define PAUSE_NS_MIN (100 * NS_PER_MS)
#define PAUSE_NS_MAX (2 * NS_PER_S)
/* For all sessions: the figures are not worth more waiting. */
#define HAND_IN_NS NS_PER_S

static struct pg_lane *lane_of(struct pg_connection *connection)
{
    return container_of(connection, struct pg_lane, connection);
}

static struct pg_store *store_of(const struct pg_lane *lane)
{
    return lane->connection.store;
}

/* --- the batch goes back --- */

static struct journal_batch *release(struct pg_lane *lane)
{
    struct journal_batch *batch = lane->batch;
    lane->batch = NULL;
    lane->state = PG_LANE_IDLE;
    return batch;
}

static void settle(struct pg_lane *lane)
{
    struct pg_store *store = store_of(lane);
    uint64_t now_ns = loop_clock_ns(lane->writer->loop);
    atomic_fetch_add_explicit(&store->commit_ns, now_ns - lane->sent_ns, memory_order_relaxed);
    journal_batch_done(lane->writer, release(lane), now_ns);
}

/* May yet succeed, on this connection or another. */
static void put_off(struct pg_lane *lane, const struct pg_failure *failure)
{
    struct journal_batch *batch = release(lane);
    journal_lane_trouble(lane->writer, batch, &failure->why);
    journal_batch_retry(lane->writer, batch, failure->error, lane->is_in_doubt);
}

/* Never to be tried again: neither this batch nor a later one. */
static void stop(struct pg_lane *lane, const struct pg_failure *failure)
{
    int result = failure->verdict == PG_FULL ? JOURNAL_FULL : -EIO;
    pg_store_stop(store_of(lane), failure);
    journal_batch_fail(lane->batch, lane->is_in_doubt ? JOURNAL_UNKNOWN : result);
    settle(lane);
}

static void stop_for(struct pg_lane *lane, const char *text)
{
    struct pg_failure failure;
    pg_error_set(&failure, PG_FATAL, -EIO, "%s", text);
    stop(lane, &failure);
}

/* The server has answered the request with an error, and undone it. */
static void take_back(struct pg_lane *lane)
{
    struct pg_failure failure = lane->failure;
    switch (failure.verdict) {
    case PG_RETRY:
        put_off(lane, &failure);
        return;
    case PG_LOST:
        pg_connection_fail(&lane->connection, &failure);
        return;
    case PG_NONE:
    case PG_EXISTS:
    case PG_FULL:
    case PG_FATAL:
        stop(lane, &failure);
        return;
    }
}

/* --- asking --- */

static const int binary[PG_PARAMETERS_MAX] = {1, 1, 1, 1, 1, 1, 1};

/* Sends the parameters with the question or the insert. */
static void ask(struct pg_lane *lane, enum pg_lane_state state)
{
    const struct pg_parameters *given = &lane->parameters;
    PGconn *pg = lane->connection.pg;
    int is_taken;

    lane->state = state;
    lane->answer = PG_ANSWER_NONE;
    if (state == PG_LANE_LOOKING)
        is_taken = PQsendQueryParams(pg, store_of(lane)->question, given->count, given->types,
                                     given->values, given->lengths, binary, 1);
    else
        is_taken = PQsendQueryPrepared(pg, PG_INSERT_NAME, given->count, given->values,
                                       given->lengths, binary, 1);
    pg_connection_sent(&lane->connection, is_taken == 1);
}

static void look(struct pg_lane *lane)
{
    const struct pg_store *store = store_of(lane);
    pg_picks_open(&lane->picks, lane->batch);
    if (pg_parameters_of_question(&lane->parameters, &store->keys, lane->batch, &lane->picks))
        ask(lane, PG_LANE_LOOKING);
    else
        stop_for(lane, "no memory for a question to the server");
}

static void insert(struct pg_lane *lane)
{
    const struct pg_store *store = store_of(lane);
    pg_picks_cut(&lane->picks, lane->batch, PG_INSERT_BYTES);
    if (!pg_parameters_of_records(&lane->parameters, &store->keys, lane->batch, &lane->picks)) {
        stop_for(lane, "no memory for a statement");
        return;
    }
    lane->is_in_doubt = true;
    ask(lane, PG_LANE_INSERTING);
}

/* Picks what one statement takes of the batch, if this connection knows that what comes before each
 * record is there. That a record itself is there already, or twice in the batch, the server will
 * say. */
static bool pick_known(struct pg_lane *lane)
{
    const struct journal_batch *batch = lane->batch;
    pg_picks_open(&lane->picks, batch);
    pg_picks_cut(&lane->picks, batch, PG_INSERT_BYTES);
    for (uint32_t i = 0; i < lane->picks.count; i++) {
        const struct journal_entry *entry = &batch->entries[lane->picks.index[i]];
        if (entry->seq != 0 && run_table_find(&lane->runs, entry->run) != entry->seq)
            return false;
    }
    return true;
}

/* The connection is ready, and something of the batch is to be done. */
static void begin(struct pg_lane *lane)
{
    lane->is_looked_up = false;
    lane->must_decide = false;
    if (!lane->is_in_doubt && pick_known(lane))
        insert(lane);
    else
        look(lane);
}

/* --- answers --- */

static uint32_t count_unsettled(const struct journal_batch *batch)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        count += batch->entries[i].result == JOURNAL_UNSET;
    return count;
}

static void take_places(struct pg_lane *lane)
{
    uint32_t asked = lane->picks.count;
    if (lane->answer == PG_ANSWER_FAILED) {
        take_back(lane);
        return;
    }
    if (lane->answer != PG_ANSWER_GOOD) {
        stop_for(lane, "the server's answer about a batch makes no sense");
        return;
    }
    lane->is_in_doubt = false;
    lane->is_looked_up = true;
    pg_picks_choose(&lane->picks, lane->batch, lane->places);
    if (lane->must_decide && count_unsettled(lane->batch) == asked)
        stop_for(lane, "the server says that a record is there, and does not show it");
    else if (lane->picks.count > 0)
        insert(lane);
    else
        settle(lane);
}

/* The inserted records are there: acked, and their runs known. */
static void take_inserted(struct pg_lane *lane)
{
    struct journal_batch *batch = lane->batch;
    for (uint32_t i = 0; i < lane->picks.count; i++) {
        struct journal_entry *entry = &batch->entries[lane->picks.index[i]];
        entry->result = JOURNAL_ACKED;
        if (entry->kind == RECORD_END)
            run_table_drop(&lane->runs, entry->run);
        else
            run_table_put(&lane->runs, entry->run, (uint64_t)entry->seq + 1);
    }
    atomic_fetch_add_explicit(&store_of(lane)->commits, 1, memory_order_relaxed);
    lane->is_in_doubt = false;
    if (count_unsettled(batch) > 0) {
        begin(lane);
        return;
    }
    settle(lane);
    /* Before anybody hears of it: the server has nothing to do for this connection until then. */
    journal_flush(lane->writer);
}

static void take_failure(struct pg_lane *lane)
{
    enum pg_verdict verdict = lane->failure.verdict;
    if (verdict != PG_LOST)
        lane->is_in_doubt = false;
    if (verdict != PG_EXISTS) {
        take_back(lane);
        return;
    }
    /* Since the last look another connection was faster with one of them: it is there now. */
    lane->must_decide = lane->is_looked_up;
    look(lane);
}

static void take_commit(struct pg_lane *lane)
{
    switch (lane->answer) {
    case PG_ANSWER_GOOD:
        take_inserted(lane);
        return;
    case PG_ANSWER_FAILED:
        take_failure(lane);
        return;
    case PG_ANSWER_NONE:
    case PG_ANSWER_STRANGE:
        stop_for(lane, "the server did not record what it was given");
        return;
    }
}

static bool is_good(struct pg_lane *lane, const PGresult *result)
{
    if (lane->state == PG_LANE_LOOKING)
        return pg_places_read(result, lane->batch, &lane->picks, lane->places);
    return strtoull(PQcmdTuples((PGresult *)result), NULL, 10) == lane->picks.count;
}

/* One result of the request that is out. */
static void take_result(struct pg_lane *lane, const PGresult *result)
{
    ExecStatusType wanted = lane->state == PG_LANE_LOOKING ? PGRES_TUPLES_OK : PGRES_COMMAND_OK;
    if (lane->answer == PG_ANSWER_FAILED)
        return;
    if (PQresultStatus(result) != wanted) {
        pg_error_of_result(&lane->failure, result);
        lane->answer = PG_ANSWER_FAILED;
    } else {
        lane->answer = is_good(lane, result) ? PG_ANSWER_GOOD : PG_ANSWER_STRANGE;
    }
}

static void on_result(struct pg_connection *connection, PGresult *result)
{
    struct pg_lane *lane = lane_of(connection);
    if (result != NULL) {
        take_result(lane, result);
        return;
    }
    switch (lane->state) {
    case PG_LANE_IDLE:
    case PG_LANE_WAITING:
        assert(false); /* nothing was asked */
        return;
    case PG_LANE_LOOKING:
        take_places(lane);
        return;
    case PG_LANE_INSERTING:
        take_commit(lane);
        return;
    }
}

static void on_ready(struct pg_connection *connection)
{
    struct pg_lane *lane = lane_of(connection);
    lane->pause_ns = 0;
    /* What a server recorded before it went away may be gone, at the levels that allow it. */
    run_table_clear(&lane->runs);
    if (lane->batch != NULL)
        begin(lane);
}

static void on_again(struct timer *timer, uint64_t now_ns)
{
    struct pg_lane *lane = container_of(timer, struct pg_lane, again);
    (void)now_ns;
    if (lane->connection.state == PG_CLOSED)
        pg_connection_start(&lane->connection);
}

/* The sessions are what keeps others out of the campaign: they are made anew at once. */
static void come_back(struct pg_lane *lane)
{
    uint64_t pause_ns = lane->pause_ns == 0 ? PAUSE_NS_MIN : 2 * lane->pause_ns;
    lane->pause_ns = pause_ns < PAUSE_NS_MAX ? pause_ns : PAUSE_NS_MAX;
    loop_timer_start(lane->writer->loop, &lane->again,
                     loop_clock_ns(lane->writer->loop) + lane->pause_ns);
}

static void on_closed(struct pg_connection *connection)
{
    struct pg_lane *lane = lane_of(connection);
    const struct pg_failure *failure = &connection->failure;
    bool is_lost = failure->verdict == PG_LOST;

    if (lane->batch != NULL && is_lost)
        put_off(lane, failure);
    else if (lane->batch != NULL)
        stop(lane, failure);
    else if (!is_lost)
        pg_store_stop(store_of(lane), failure);
    else if (!atomic_load(&store_of(lane)->is_stopped))
        come_back(lane);
}

/* --- figures --- */

static void begin_to_hand_in(struct pg_lane *lane)
{
    PGconn *pg = lane->connection.pg;
    lane->is_handing_in = lane->batch == NULL && lane->connection.state == PG_READY &&
                          PQsendQuery(pg, "SELECT pg_stat_force_next_flush()") == 1 &&
                          PQflush(pg) >= 0;
}

/* A session that does not answer in time is lost with its next request. */
static void hand_in(struct pg_lane *lane, uint64_t deadline_ns)
{
    PGconn *pg = lane->connection.pg;
    while (lane->is_handing_in) {
        lane->is_handing_in =
            PQflush(pg) >= 0 && pg_uri_wait(pg, POLLIN, deadline_ns) && PQconsumeInput(pg) == 1;
        while (lane->is_handing_in && !PQisBusy(pg)) {
            PGresult *result = PQgetResult(pg);
            lane->is_handing_in = result != NULL;
            PQclear(result);
        }
    }
}

static struct pg_lane *lane_at(struct list *link)
{
    return container_of(link, struct pg_lane, link);
}

void pg_lanes_hand_in(struct pg_store *store)
{
    struct list *lanes = &store->lanes;
    uint64_t deadline_ns = clock_monotonic_ns() + HAND_IN_NS;
    (void)pthread_mutex_lock(&store->lanes_lock); /* a plain mutex, never held twice */
    for (struct list *link = lanes->next; link != lanes; link = link->next)
        begin_to_hand_in(lane_at(link));
    for (struct list *link = lanes->next; link != lanes; link = link->next)
        hand_in(lane_at(link), deadline_ns);
    (void)pthread_mutex_unlock(&store->lanes_lock);
}

/* --- life --- */

void pg_lane_commit(struct pg_lane *lane, struct journal_batch *batch)
{
    assert(lane->batch == NULL);
    lane->batch = batch;
    lane->state = PG_LANE_WAITING;
    lane->is_in_doubt = batch->was_sent;
    lane->sent_ns = loop_clock_ns(lane->writer->loop);
    loop_timer_stop(lane->writer->loop, &lane->again);
    if (atomic_load_explicit(&store_of(lane)->is_stopped, memory_order_relaxed)) {
        journal_batch_fail(batch, lane->is_in_doubt ? JOURNAL_UNKNOWN : JOURNAL_STOPPED);
        settle(lane);
    } else if (lane->connection.state == PG_READY) {
        begin(lane);
    } else if (lane->connection.state == PG_CLOSED) {
        pg_connection_start(&lane->connection);
    }
}

void pg_lane_init(struct pg_lane *lane, struct journal_writer *writer)
{
    lane->writer = writer;
    pg_connection_init(&lane->connection, pg_store_of(writer->journal), writer->loop);
    lane->connection.ready = on_ready;
    lane->connection.result = on_result;
    lane->connection.closed = on_closed;
    timer_init(&lane->again, on_again);
    run_table_init(&lane->runs, RUNS_MAX);
    struct pg_store *store = store_of(lane);
    (void)pthread_mutex_lock(&store->lanes_lock);
    list_push_back(&store->lanes, &lane->link);
    (void)pthread_mutex_unlock(&store->lanes_lock);
}

void pg_lane_close(struct pg_lane *lane)
{
    struct pg_store *store = store_of(lane);
    (void)pthread_mutex_lock(&store->lanes_lock);
    list_remove(&lane->link);
    (void)pthread_mutex_unlock(&store->lanes_lock);
    lane->batch = NULL;
    loop_timer_stop(lane->writer->loop, &lane->again);
    pg_connection_close(&lane->connection);
    run_table_free(&lane->runs);
    pg_parameters_free(&lane->parameters);
}
