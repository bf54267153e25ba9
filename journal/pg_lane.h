/*
 * pg_lane: the batches of one connection, one at a time, from commit to ack.
 *
 * The happy path: the records go to the server in one plain INSERT and so one transaction, all of
 * them or nothing; more than PG_INSERT_BYTES in several. A key that is there already makes the
 * server undo the whole. Then, and whenever this side does not know enough (a batch that may be
 * recorded, after a connection was lost; a record whose predecessor this connection has not written
 * lately), the lane looks what is there of the batch, settles what that decides, and inserts the
 * rest.
 *
 * Ownership: the writer's. Threading: the writer's. Errors: a table in pg_error.c says which are
 * tried again.
 */
#ifndef BENCH_JOURNAL_PG_LANE_H
#define BENCH_JOURNAL_PG_LANE_H

#include "journal/pg_connection.h"
#include "journal/run_table.h"

/* libpq moves what it has not sent whenever the server takes some, so larger is slower. */
enum { PG_INSERT_BYTES = 1 << 20 };

enum pg_lane_state {
    PG_LANE_IDLE,
    PG_LANE_WAITING,   /* for the connection */
    PG_LANE_LOOKING,   /* for what is there of the batch */
    PG_LANE_INSERTING, /* until the answer comes, the batch is in doubt */
};

/* What has come of the request that is out. */
enum pg_answer {
    PG_ANSWER_NONE,
    PG_ANSWER_GOOD,
    PG_ANSWER_STRANGE, /* not to that request */
    PG_ANSWER_FAILED,  /* with the lane's failure: the first counts */
};

struct pg_lane {
    struct pg_connection connection;
    struct list link; /* in the store's lanes */
    struct journal_writer *writer;
    struct journal_batch *batch; /* NULL when idle */
    enum pg_lane_state state;
    bool is_in_doubt;   /* the batch may be recorded */
    bool is_looked_up;  /* the picks are what the server said can be inserted */
    bool must_decide;   /* a look that decides nothing would not end */
    bool is_handing_in; /* see pg_lanes_hand_in() */
    enum pg_answer answer;
    struct pg_failure failure; /* with PG_ANSWER_FAILED */
    uint64_t sent_ns;
    struct timer again;    /* without a batch: when a lost connection is made anew, */
    uint64_t pause_ns;     /* after so long */
    struct run_table runs; /* what this connection has recorded */
    struct pg_picks picks;
    struct pg_parameters parameters;
    uint8_t places[JOURNAL_BATCH_RECORDS_MAX];
};

void pg_lane_init(struct pg_lane *lane, struct journal_writer *writer);
/* Lets go of the batch, without a word. */
void pg_lane_close(struct pg_lane *lane);

void pg_lane_commit(struct pg_lane *lane, struct journal_batch *batch);

/* Has the sessions hand in the figures that they keep to themselves for up to ten seconds. While no
 * writer is at work: it waits for the server on the connections of lanes that are idle, a second at
 * most for all of them. */
void pg_lanes_hand_in(struct pg_store *store);

#endif
