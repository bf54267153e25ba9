/* What a batch looks like to a Postgres server, what an answer about it decides, and what failures
 * mean; without a server. */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "journal/pg_batch.h"
#include "journal/pg_error.h"
#include "journal/pg_rows.h"

enum { ENTRIES_MAX = 16 };

struct sample {
    struct journal_batch batch;
    struct journal_entry entries[ENTRIES_MAX];
    char bytes[256];
    uint8_t places[ENTRIES_MAX];
};

static void add(struct sample *sample, uint64_t run, uint32_t seq, const char *payload,
                enum pg_place place)
{
    struct journal_batch *batch = &sample->batch;
    uint32_t bytes = (uint32_t)strlen(payload);
    batch->entries = sample->entries;
    batch->bytes = sample->bytes;
    memcpy(batch->bytes + batch->bytes_used, payload, bytes);
    sample->places[batch->count] = (uint8_t)place;
    sample->entries[batch->count++] = (struct journal_entry){
        .run = run,
        .seq = seq,
        .digest = 0x0102030405060708,
        .bytes = bytes,
        .offset = batch->bytes_used,
        .kind = RECORD_TOOL,
        .result = JOURNAL_UNSET,
    };
    batch->bytes_used += bytes;
}

/* --- parameters --- */

static uint32_t get_32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return be32toh(value);
}

/* The n-th value of an array parameter; its length in *bytes. */
static const char *element(const struct pg_parameters *parameters, int column, unsigned n,
                           uint32_t *bytes)
{
    const char *at = parameters->values[column] + 20;
    for (;; n--) {
        *bytes = get_32(at);
        assert_true(at + 4 + *bytes <= parameters->values[column] + parameters->lengths[column]);
        if (n == 0)
            return at + 4;
        at += 4 + *bytes;
    }
}

static void records_go_as_an_array_a_column(void **state)
{
    (void)state;
    static const char digest[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const Oid types[] = {1016, 1016, 1007, 1005, 17, 1007, 1007};
    static const Oid element_types[] = {20, 20, 23, 21, 0, 23, 23};
    struct sample sample = {0};
    struct pg_parameters parameters = {0};
    struct pg_picks picks;
    const struct campaign_key keys = {.kind = RUN_KEY_SEQ, .campaign = 3};
    uint32_t bytes;
    add(&sample, 9, 0, "skipped", 0);
    add(&sample, 5, 7, "abc", 0);
    add(&sample, 6, 0, "", 0);
    add(&sample, 7, 1, "defgh", 0);
    sample.entries[0].result = JOURNAL_ACKED;
    pg_picks_open(&picks, &sample.batch);
    assert_int_equal(picks.count, 3);
    assert_true(pg_parameters_of_records(&parameters, &keys, &sample.batch, &picks));
    assert_int_equal(parameters.count, 7);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(parameters.types[i], types[i]);
        if (i == 4)
            continue;
        const char *at = parameters.values[i];
        assert_int_equal(get_32(at), 1);
        assert_int_equal(get_32(at + 4), 0);
        assert_int_equal(get_32(at + 8), element_types[i]);
        assert_int_equal(get_32(at + 12), 3);
        assert_int_equal(get_32(at + 16), 1);
        const char *last = element(&parameters, i, 2, &bytes);
        assert_ptr_equal(last + bytes, at + parameters.lengths[i]);
    }
    const char *run = element(&parameters, 0, 0, &bytes);
    assert_int_equal(bytes, 8);
    assert_int_equal(get_32(run), 3 << 8);
    assert_int_equal(get_32(run + 4), 5);
    assert_memory_equal(element(&parameters, 1, 1, &bytes), digest, 8);
    assert_int_equal(get_32(element(&parameters, 2, 0, &bytes)), 7);
    assert_memory_equal(element(&parameters, 3, 2, &bytes), "\0\4", 2);
    assert_int_equal(bytes, 2);
    assert_int_equal(parameters.lengths[4], 8);
    assert_memory_equal(parameters.values[4], "abcdefgh", 8);
    static const uint32_t offsets[] = {1, 4, 4};
    static const uint32_t lengths[] = {3, 0, 5};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(get_32(element(&parameters, 5, i, &bytes)), offsets[i]);
        assert_int_equal(get_32(element(&parameters, 6, i, &bytes)), lengths[i]);
    }
    assert_true(pg_parameters_of_question(&parameters, &keys, &sample.batch, &picks));
    assert_int_equal(parameters.count, 4);
    assert_int_equal(get_32(element(&parameters, 1, 2, &bytes)), 1);
    assert_int_equal(get_32(element(&parameters, 2, 2, &bytes)), 5);
    assert_memory_equal(element(&parameters, 3, 0, &bytes), digest, 8);
    pg_parameters_free(&parameters);
}

/* What lies between the picked does not go. */
static void payloads_of_few_among_many_go_alone(void **state)
{
    (void)state;
    struct sample sample = {0};
    struct pg_parameters parameters = {0};
    struct pg_picks picks = {.count = 3, .index = {0, 2, 3}};
    const struct campaign_key keys = {.kind = RUN_KEY_SEQ, .campaign = 3};
    static const uint32_t offsets[] = {1, 3, 6};
    uint32_t bytes;
    add(&sample, 1, 0, "ab", 0);
    add(&sample, 2, 0, "between", 0);
    add(&sample, 3, 0, "cde", 0);
    add(&sample, 4, 0, "f", 0);
    assert_true(pg_parameters_of_records(&parameters, &keys, &sample.batch, &picks));
    assert_int_equal(parameters.lengths[4], 6);
    assert_memory_equal(parameters.values[4], "abcdef", 6);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(get_32(element(&parameters, 5, i, &bytes)), offsets[i]);
        assert_int_equal(get_32(element(&parameters, 6, i, &bytes)),
                         sample.entries[picks.index[i]].bytes);
    }
    pg_parameters_free(&parameters);
}

static void a_statement_takes_what_fits_and_one_record_at_least(void **state)
{
    (void)state;
    static const uint32_t maxima[] = {0, 2, 3, 5, 6, 8, 9, 100};
    static const uint32_t counts[] = {1, 1, 1, 1, 2, 2, 3, 3};
    struct sample sample = {0};
    for (unsigned i = 0; i < 3; i++)
        add(&sample, i, 0, "abc", 0);
    for (unsigned i = 0; i < sizeof(maxima) / sizeof(maxima[0]); i++) {
        struct pg_picks picks;
        pg_picks_open(&picks, &sample.batch);
        pg_picks_cut(&picks, &sample.batch, maxima[i]);
        assert_int_equal(picks.count, counts[i]);
    }
}

/* --- places --- */

static void what_is_there_decides(void **state)
{
    (void)state;
    struct sample sample = {0};
    struct pg_picks picks;
    enum { OPEN = JOURNAL_UNSET };
    static const int16_t results[] = {JOURNAL_ACKED, OPEN, JOURNAL_CONFLICT, JOURNAL_GAP, OPEN,
                                      OPEN,          OPEN, JOURNAL_GAP,      OPEN,        OPEN,
                                      JOURNAL_GAP,   OPEN};
    static const uint16_t picked[] = {1, 4, 8, 11};
    add(&sample, 8, 4, "", PG_PLACE_SAME);
    add(&sample, 8, 5, "", PG_PLACE_FREE);
    add(&sample, 3, 2, "", PG_PLACE_OTHER);
    add(&sample, 3, 3, "", PG_PLACE_FAR);
    add(&sample, 5, 0, "", PG_PLACE_FREE);
    add(&sample, 5, 0, "", PG_PLACE_FREE); /* the same again: after the first */
    add(&sample, 5, 1, "", PG_PLACE_FAR);  /* after that */
    add(&sample, 1, 9, "", PG_PLACE_FAR);
    add(&sample, 2, 7, "", PG_PLACE_FREE);
    add(&sample, 5, 7, "", PG_PLACE_FAR);
    add(&sample, 2, 9, "", PG_PLACE_FAR);
    add(&sample, 9, 1, "", PG_PLACE_FREE);
    pg_picks_choose(&picks, &sample.batch, sample.places);
    for (unsigned i = 0; i < sample.batch.count; i++)
        assert_int_equal(sample.entries[i].result, results[i]);
    assert_int_equal(picks.count, 4);
    assert_memory_equal(picks.index, picked, sizeof(picked));
}

/* An answer as libpq hands it over, binary. */
static PGresult *make_answer(unsigned columns)
{
    static char name[] = "column";
    PGresAttDesc attributes[5];
    memset(attributes, 0, sizeof(attributes));
    for (unsigned i = 0; i < 5; i++) {
        attributes[i].name = name;
        attributes[i].format = 1;
        attributes[i].typlen = -1;
    }
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    assert_non_null(result);
    assert_int_equal(PQsetResultAttrs(result, (int)columns, attributes), 1);
    return result;
}

static void set(PGresult *result, int row, int column, const void *value, int bytes)
{
    char copy[64];
    if (bytes > 0)
        memcpy(copy, value, (size_t)bytes);
    assert_int_equal(PQsetvalue(result, row, column, bytes < 0 ? NULL : copy, bytes), 1);
}

static void set_row(PGresult *result, int row, uint64_t place, bool has_previous, int kind,
                    const char *payload)
{
    uint64_t place_64 = htobe64(place);
    uint16_t kind_16 = htobe16((uint16_t)kind);
    char previous = has_previous;
    set(result, row, 0, &place_64, 8);
    set(result, row, 1, &previous, 1);
    set(result, row, 2, &kind_16, kind < 0 ? -1 : 2);
    set(result, row, 3, payload, payload == NULL ? -1 : (int)strlen(payload));
}

static void an_answer_says_what_is_there(void **state)
{
    (void)state;
    struct sample sample = {0};
    struct pg_picks picks;
    for (unsigned i = 0; i < 6; i++)
        add(&sample, i, 1, "abc", PG_PLACE_UNKNOWN);
    pg_picks_open(&picks, &sample.batch);
    PGresult *answer = make_answer(4);
    set_row(answer, 0, 6, true, -1, NULL);
    set_row(answer, 1, 2, true, RECORD_TOOL, "abc");
    set_row(answer, 2, 3, true, RECORD_MODEL, "abc");
    set_row(answer, 3, 1, false, -1, NULL);
    set_row(answer, 4, 4, true, RECORD_TOOL, "abd");
    set_row(answer, 5, 5, true, RECORD_TOOL, NULL); /* other length or digest */
    assert_true(pg_places_read(answer, &sample.batch, &picks, sample.places));
    static const uint8_t places[] = {PG_PLACE_FAR,   PG_PLACE_SAME,  PG_PLACE_OTHER,
                                     PG_PLACE_OTHER, PG_PLACE_OTHER, PG_PLACE_FREE};
    assert_memory_equal(sample.places, places, sizeof(places));
    set_row(answer, 0, 7, true, -1, NULL); /* nobody asked for a seventh */
    assert_false(pg_places_read(answer, &sample.batch, &picks, sample.places));
    set_row(answer, 0, 0, true, -1, NULL);
    assert_false(pg_places_read(answer, &sample.batch, &picks, sample.places));
    set_row(answer, 0, 2, true, -1, NULL); /* twice */
    assert_false(pg_places_read(answer, &sample.batch, &picks, sample.places));
    set_row(answer, 0, 6, true, -1, NULL);
    set(answer, 0, 2, "x", 1);
    assert_false(pg_places_read(answer, &sample.batch, &picks, sample.places));
    set(answer, 0, 2, NULL, -1);
    set(answer, 0, 1, NULL, -1);
    assert_false(pg_places_read(answer, &sample.batch, &picks, sample.places));
    set(answer, 0, 1, "\1", 1);
    assert_true(pg_places_read(answer, &sample.batch, &picks, sample.places));
    picks.count = 5;
    assert_false(pg_places_read(answer, &sample.batch, &picks, sample.places));
    PQclear(answer);
    answer = make_answer(3);
    picks.count = 0;
    assert_false(pg_places_read(answer, &sample.batch, &picks, sample.places));
    PQclear(answer);
}

/* --- rows --- */

static struct campaign_key listed[] = {
    {.kind = RUN_KEY_UUIDV7, .campaign = 2, .start_ms = 1700000000000},
    {.kind = RUN_KEY_UUIDV4, .campaign = 3, .start_ms = 1700000000000},
    {.kind = RUN_KEY_UUIDV7, .campaign = 5, .start_ms = 1800000000000},
};
enum { LISTED = sizeof(listed) / sizeof(listed[0]) };

static int read_row_up_to(uint64_t newest, const char *key, size_t bytes, uint64_t campaign,
                          struct journal_record *record)
{
    const struct campaign_keys keys = {.all = listed, .count = LISTED};
    struct pg_rows rows = {.listed = &keys, .campaign = campaign, .newest = newest};
    PGresult *answer = make_answer(5);
    set(answer, 0, 0, key, (int)bytes);
    set(answer, 0, 1, "\1\2\3\4\5\6\7\10", 8);
    set(answer, 0, 2, "\0\0\1\1", 4);
    set(answer, 0, 3, "\0\5", 2);
    set(answer, 0, 4, "payload", 7);
    int result = pg_rows_read_one(answer, &rows, record);
    if (result == 0) {
        assert_int_equal(record->digest, 0x0102030405060708);
        assert_int_equal(record->seq, 257);
        assert_int_equal(record->kind, RECORD_END);
        assert_int_equal(record->bytes, 7);
        record->payload = NULL; /* the answer's */
    }
    PQclear(answer);
    return result;
}

static int read_row(const char *key, size_t bytes, uint64_t campaign, struct journal_record *record)
{
    return read_row_up_to(UINT64_MAX, key, bytes, campaign, record);
}

static void keys_come_back_as_the_runs_of_their_campaigns(void **state)
{
    (void)state;
    char key[RUN_KEY_UUID_BYTES];
    struct journal_record record;
    for (unsigned i = 0; i <= LISTED; i++) {
        const struct campaign_key seq = {.kind = RUN_KEY_SEQ, .campaign = 9};
        const struct campaign_key *keys = i < LISTED ? &listed[i] : &seq;
        size_t bytes = pg_key_bytes(keys->kind);
        for (uint64_t run = 0; run <= JOURNAL_RUN_MAX; run = run * 3 + 1) {
            assert_ptr_equal(pg_key_put(key, keys, run), key + bytes);
            for (unsigned k = 0; k < 2; k++) {
                assert_int_equal(read_row(key, bytes, k * keys->campaign, &record), 0);
                assert_int_equal(record.run, run);
                assert_int_equal(record.campaign, keys->campaign);
            }
            assert_int_equal(read_row(key, bytes, keys->campaign + 1, &record), -EBADMSG);
            assert_int_equal(read_row(key, bytes - 1, 0, &record), -EBADMSG);
            key[bytes / 2] ^= 4; /* another run, or nobody's */
            int result = read_row(key, bytes, 0, &record);
            assert_true(result == -EBADMSG || record.run != run);
        }
    }
    const struct campaign_key unlisted = {.kind = RUN_KEY_UUIDV4, .campaign = 4};
    (void)pg_key_put(key, &unlisted, 1);
    assert_int_equal(read_row(key, RUN_KEY_UUID_BYTES, 0, &record), -EBADMSG);
    assert_int_equal(read_row("\xff\0\0\0\0\0\0\1", 8, 0, &record), -EBADMSG);
}

/* A listed campaign above the newest is left out; a stranger's row never is. */
static void campaigns_above_the_newest_are_left_out(void **state)
{
    (void)state;
    char key[RUN_KEY_UUID_BYTES];
    struct journal_record record;
    for (unsigned i = 0; i < LISTED; i++) {
        (void)pg_key_put(key, &listed[i], 1);
        assert_int_equal(read_row_up_to(3, key, sizeof(key), 0, &record),
                         listed[i].campaign <= 3 ? 0 : -EBADMSG);
        assert_int_equal(read_row_up_to(3, key, sizeof(key), listed[i].campaign, &record), 0);
    }
    const struct campaign_key unlisted = {.kind = RUN_KEY_SEQ, .campaign = 4};
    (void)pg_key_put(key, &unlisted, 1);
    assert_int_equal(read_row_up_to(3, key, sizeof(int64_t), 0, &record), 0);
    assert_int_equal(record.campaign, 4);
}

static void a_row_of_other_columns_makes_no_sense(void **state)
{
    (void)state;
    const struct campaign_keys keys = {.all = listed, .count = LISTED};
    struct pg_rows rows = {.listed = &keys};
    struct journal_record record;
    for (int column = 1; column < 4; column++) {
        PGresult *answer = make_answer(5);
        set(answer, 0, 0, "\0\0\0\0\0\0\0\1", 8);
        set(answer, 0, 1, "\1\2\3\4\5\6\7\10", column == 1 ? 7 : 8);
        set(answer, 0, 2, "\0\0\1\1", column == 2 ? -1 : 4);
        set(answer, 0, 3, "\0\5\0\0", column == 3 ? 4 : 2);
        set(answer, 0, 4, "", 0);
        assert_int_equal(pg_rows_read_one(answer, &rows, &record), -EPROTO);
        PQclear(answer);
    }
    PGresult *answer = make_answer(4);
    assert_int_equal(pg_rows_read_one(answer, &rows, &record), -EPROTO);
    PQclear(answer);
}

/* --- failures and levels --- */

static void a_sqlstate_says_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *sqlstate;
        enum pg_verdict verdict;
    } cases[] = {
        {"08006", PG_LOST},   {"57P01", PG_LOST},  {"57P02", PG_LOST},  {"57P03", PG_LOST},
        {"57P04", PG_FATAL},  {"57P05", PG_LOST},  {"53300", PG_LOST},  {"40001", PG_RETRY},
        {"40P01", PG_RETRY},  {"55P03", PG_RETRY}, {"53200", PG_RETRY}, {"53100", PG_FULL},
        {"23505", PG_EXISTS}, {"23514", PG_FATAL}, {"28P01", PG_FATAL}, {"28000", PG_FATAL},
        {"3D000", PG_FATAL},  {"42601", PG_FATAL}, {"42P01", PG_FATAL}, {"42501", PG_FATAL},
        {"25006", PG_FATAL},  {"25P03", PG_LOST},  {"22021", PG_FATAL}, {"57014", PG_RETRY},
        {"XX000", PG_FATAL},  {"", PG_FATAL},      {"5", PG_FATAL},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int error = 0;
        assert_int_equal(pg_error_judge(cases[i].sqlstate, &error), cases[i].verdict);
        assert_true(error < 0 && error != JOURNAL_AGAIN && error != JOURNAL_UNKNOWN);
    }
}

static void a_server_that_cannot_keep_a_level_is_refused(void **state)
{
    (void)state;
    struct errmsg why;
    assert_int_equal(pg_store_check_level(DURABILITY_POWER, "on", "on", "off", &why), 0);
    assert_int_equal(pg_store_check_level(DURABILITY_POWER, "off", "on", "off", &why), -EINVAL);
    assert_string_equal(why.text,
                        "the server runs with fsync=off: durability power cannot be kept; "
                        "-durability process or none can");
    assert_int_equal(pg_store_check_level(DURABILITY_POWER, "on", "off", "off", &why), -EINVAL);
    assert_non_null(strstr(why.text, "full_page_writes=off"));
    assert_int_equal(pg_store_check_level(DURABILITY_PROCESS, "off", "off", "off", &why), 0);
    assert_int_equal(pg_store_check_level(DURABILITY_NONE, "off", "off", "off", &why), 0);
    assert_int_equal(pg_store_check_level(DURABILITY_NONE, "on", "on", "on", &why), -EROFS);
    assert_int_equal(pg_store_check_level(DURABILITY_POWER, "", "", "", &why), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_go_as_an_array_a_column),
        cmocka_unit_test(payloads_of_few_among_many_go_alone),
        cmocka_unit_test(a_statement_takes_what_fits_and_one_record_at_least),
        cmocka_unit_test(what_is_there_decides),
        cmocka_unit_test(an_answer_says_what_is_there),
        cmocka_unit_test(keys_come_back_as_the_runs_of_their_campaigns),
        cmocka_unit_test(campaigns_above_the_newest_are_left_out),
        cmocka_unit_test(a_row_of_other_columns_makes_no_sense),
        cmocka_unit_test(a_sqlstate_says_what_to_do),
        cmocka_unit_test(a_server_that_cannot_keep_a_level_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
