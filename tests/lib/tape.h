/*
 * tape: the records of one run as a journal would hold them, for the tests of who reads them.
 * Totals, call ids and digests are made up as the engine makes them. cmocka.h comes first in the
 * including file.
 */
#ifndef BENCH_TESTS_LIB_TAPE_H
#define BENCH_TESTS_LIB_TAPE_H

#include <stdint.h>

#include "engine/record.h"
#include "engine/replay.h"
#include "journal/journal.h"

enum { TAPE_RECORDS_MAX = 128, TAPE_PAYLOAD_BYTES_MAX = 512 };

struct tape_record {
    enum record_kind kind;
    uint32_t seq;
    uint32_t bytes;
    uint64_t digest;
    char payload[TAPE_PAYLOAD_BYTES_MAX];
};

struct tape {
    uint32_t count;
    struct tape_record records[TAPE_RECORDS_MAX];
};

/* What the records so far say. */
struct tape_facts {
    uint32_t models;
    uint32_t calls_before; /* tool calls of the turns before the last */
    uint32_t calls;        /* of the last */
    uint32_t results;      /* of all turns */
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
};

/* Fixtures of a group of tests: *state is a tape, not filled. */
int tape_set_up(void **state);
int tape_tear_down(void **state);

struct tape_facts tape_facts(const struct tape *tape);

void tape_add_begin(struct tape *tape, uint32_t turns, enum tool_effect effect);
void tape_add_model(struct tape *tape, uint32_t calls);
void tape_add_attempt(struct tape *tape, uint32_t call_id, uint32_t attempt);
void tape_add_tool(struct tape *tape, uint32_t call_id, bool is_error);
void tape_add_retry(struct tape *tape, uint32_t attempt);
void tape_add_delta(struct tape *tape, uint32_t piece);
void tape_add_end(struct tape *tape, enum outcome outcome, uint32_t turns);

/* Numbers the records and chains their digests, as if they had been written so. */
void tape_seal(struct tape *tape);

struct journal_record tape_at(const struct tape *tape, uint32_t index);

/* All of them; the first fault, or REPLAY_GOOD. */
enum replay_fault tape_replay(const struct tape *tape, struct replay *r, const char **why);

#endif
