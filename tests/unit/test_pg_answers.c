/* What a server may answer that speaks the protocol and still makes no sense, and one that is only
 * starting up; against a fake server that follows a script. */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/loop.h"
#include "journal/pg_connection.h"
#include "journal/pg_read.h"
#include "journal/pg_rows.h"
#include "tests/lib/scratch.h"

enum { TEXT_BYTES = 1024, QUERY_BYTES_MAX = 16 << 10 };

/* --- messages --- */

struct text {
    char bytes[TEXT_BYTES];
    size_t used;
};

static void add(struct text *text, const void *bytes, size_t count)
{
    assert_true(text->used + count <= sizeof(text->bytes));
    memcpy(text->bytes + text->used, bytes, count);
    text->used += count;
}

static void add_16(struct text *text, uint16_t value)
{
    value = htobe16(value);
    add(text, &value, sizeof(value));
}

static void add_32(struct text *text, uint32_t value)
{
    value = htobe32(value);
    add(text, &value, sizeof(value));
}

static void add_message(struct text *text, char type, const struct text *body)
{
    add(text, &type, 1);
    add_32(text, (uint32_t)body->used + 4);
    add(text, body->bytes, body->used);
}

static void add_string_message(struct text *text, char type, const char *body, size_t bytes)
{
    struct text of_body = {.used = 0};
    add(&of_body, body, bytes);
    add_message(text, type, &of_body);
}

static void add_done(struct text *text, const char *tag)
{
    add_string_message(text, 'C', tag, strlen(tag) + 1);
}

static void add_ready(struct text *text)
{
    add_string_message(text, 'Z', "I", 1);
}

/* An answer of so many columns, and one row of them unless there is none. */
static void add_table(struct text *text, unsigned columns, const char *value)
{
    struct text head = {.used = 0};
    struct text row = {.used = 0};
    add_16(&head, (uint16_t)columns);
    add_16(&row, (uint16_t)columns);
    for (unsigned i = 0; i < columns; i++) {
        add(&head, "c", 2);
        add(&head, "\0\0\0\0\0\0\0\0\0\31\377\377\377\377\377\377\0\0", 18); /* text */
        add_32(&row, value == NULL ? 0 : (uint32_t)strlen(value));
        if (value != NULL)
            add(&row, value, strlen(value));
    }
    add_message(text, 'T', &head);
    if (value != NULL)
        add_message(text, 'D', &row);
    add_done(text, "SELECT 1");
}

static void add_refusal(struct text *text, const char *sqlstate)
{
    struct text body = {.used = 0};
    add(&body, "SFATAL", 7);
    add(&body, "C", 1);
    add(&body, sqlstate, 6);
    add(&body, "Mnot now", 9);
    add(&body, "", 1);
    add_message(text, 'E', &body);
}

/* --- the server --- */

struct fake {
    struct scratch scratch;
    char uri[256];
    int listener;
    pthread_t threads[2];   /* for a session, and one that is to cancel it */
    struct text answers[4]; /* to the queries of a session, in their order */
    struct text refusal;    /* of the sessions before the last one */
    unsigned refusals;
    atomic_uint accepted;
};

static bool read_all(int session, void *bytes, size_t count)
{
    return recv(session, bytes, count, MSG_WAITALL) == (ssize_t)count;
}

static bool send_text(int session, const struct text *text)
{
    return send(session, text->bytes, text->used, MSG_NOSIGNAL) == (ssize_t)text->used;
}

static void serve(struct fake *fake, int session)
{
    char query[QUERY_BYTES_MAX];
    char type;
    uint32_t bytes;
    struct text hello = {.used = 0};
    add_string_message(&hello, 'R', "\0\0\0", 4);
    add_ready(&hello);
    if (!read_all(session, &bytes, sizeof(bytes)) ||
        !read_all(session, query, be32toh(bytes) - sizeof(bytes)))
        return;
    if (atomic_fetch_add(&fake->accepted, 1) < fake->refusals) {
        (void)send_text(session, &fake->refusal);
        return;
    }
    if (!send_text(session, &hello))
        return;
    for (unsigned i = 0; read_all(session, &type, 1) && type == 'Q'; i++)
        if (!read_all(session, &bytes, sizeof(bytes)) ||
            !read_all(session, query, be32toh(bytes) - sizeof(bytes)) ||
            i == sizeof(fake->answers) / sizeof(fake->answers[0]) ||
            !send_text(session, &fake->answers[i]))
            return;
}

static void *run(void *arg)
{
    struct fake *fake = arg;
    for (int session; (session = accept(fake->listener, NULL, NULL)) >= 0; (void)close(session))
        serve(fake, session);
    return NULL;
}

static void open_fake(struct fake *fake)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_int_equal(scratch_make(&fake->scratch, "pg_answers"), 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/.s.PGSQL.5432",
                   fake->scratch.path);
    (void)snprintf(fake->uri, sizeof(fake->uri), "postgres://me@/db?host=%s&port=5432",
                   fake->scratch.path);
    fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake->listener, 4), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&fake->threads[i], NULL, run, fake), 0);
}

static void close_fake(struct fake *fake)
{
    (void)shutdown(fake->listener, SHUT_RDWR);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_join(fake->threads[i], NULL), 0);
    (void)close(fake->listener);
    assert_int_equal(scratch_remove(&fake->scratch), 0);
}

/* --- starting up --- */

static void a_server_that_starts_up_is_waited_for(void **state)
{
    (void)state;
    static const struct {
        const char *sqlstate;
        uint64_t retry_for_ns;
        unsigned accepted;
    } cases[] = {{"57P03", 60 * NS_PER_S, 3}, {"57P03", 0, 1}, {"28P01", 60 * NS_PER_S, 1}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake fake = {.refusals = 2};
        struct journal *journal;
        struct errmsg why;
        add_refusal(&fake.refusal, cases[i].sqlstate);
        add_refusal(&fake.answers[0], "3D000");
        add_ready(&fake.answers[0]);
        open_fake(&fake);
        struct journal_config config = {
            .uri = fake.uri, .writers = 1, .retry_for_ns = cases[i].retry_for_ns};
        assert_true(journal_open(&journal, &config, &why) < 0);
        close_fake(&fake);
        assert_int_equal(atomic_load(&fake.accepted), cases[i].accepted);
        assert_non_null(strstr(why.text, cases[i].accepted == 3 ? "3D000" : cases[i].sqlstate));
    }
}

/* --- answers of another shape --- */

static void set_up_takes_no_answer_for_granted(void **state)
{
    (void)state;
    struct fake fake = {.refusals = 0};
    struct journal *journal;
    struct errmsg why;
    add_table(&fake.answers[0], 1, "set");
    add_table(&fake.answers[1], 3, NULL); /* what the server is set to */
    for (unsigned i = 0; i < 2; i++)
        add_ready(&fake.answers[i]);
    open_fake(&fake);
    struct journal_config config = {.uri = fake.uri, .writers = 1};
    assert_int_equal(journal_open(&journal, &config, &why), -EPROTO);
    close_fake(&fake);
}

static void unused_callback(struct pg_connection *connection)
{
    (void)connection;
}

static void a_greeting_takes_no_answer_for_granted(void **state)
{
    (void)state;
    for (unsigned columns = 0; columns < 2; columns++) {
        struct fake fake = {.refusals = 0};
        struct journal journal = {.durability = DURABILITY_POWER};
        struct pg_store store = {.journal = &journal};
        struct pg_connection connection = {.closed = unused_callback};
        struct loop loop;
        struct errmsg why;
        add_done(&fake.answers[0], "BEGIN");
        add_table(&fake.answers[0], 1, "set");
        add_table(&fake.answers[0], columns, NULL); /* the lock */
        add_ready(&fake.answers[0]);
        open_fake(&fake);
        assert_int_equal(loop_open(&loop, "auto", &why), 0);
        assert_int_equal(pg_uri_parse(&store.uri, fake.uri, NS_PER_S, &why), 0);
        pg_connection_init(&connection, &store, &loop);
        assert_int_equal(pg_connection_start_now(&connection, &why), -EPROTO);
        assert_string_equal(why.text, "the server's answer makes no sense");
        pg_connection_close(&connection);
        pg_uri_free(&store.uri);
        loop_close(&loop);
        close_fake(&fake);
    }
}

/* A store that reads over a session with the fake server. */
struct reader {
    struct fake fake;
    struct journal journal;
    struct pg_store store;
    struct errmsg why;
};

static void open_reader(struct reader *reader)
{
    struct pg_store *store = &reader->store;
    open_fake(&reader->fake);
    reader->journal.impl = store;
    store->journal = &reader->journal;
    store->table = "bench.records_seq";
    store->keys = (struct campaign_key){.campaign = 1, .kind = RUN_KEY_SEQ};
    (void)pthread_mutex_init(&store->control_lock, NULL);
    store->control = PQconnectdb(reader->fake.uri);
    assert_int_equal(PQstatus(store->control), CONNECTION_OK);
}

static void close_reader(struct reader *reader)
{
    PQfinish(reader->store.control);
    (void)pthread_mutex_destroy(&reader->store.control_lock);
    close_fake(&reader->fake);
}

static void a_count_takes_no_answer_for_granted(void **state)
{
    (void)state;
    for (unsigned columns = 3; columns <= 4; columns++) {
        struct reader reader = {.why.text = ""};
        struct journal_count count = {0};
        add_table(&reader.fake.answers[0], columns, columns == 4 ? NULL : "1");
        add_ready(&reader.fake.answers[0]);
        open_reader(&reader);
        assert_int_equal(pg_read_count(&reader.journal, 0, &count, &reader.why), -EPROTO);
        close_reader(&reader);
    }
}

static void add_copy(struct text *text, const char *messages[4], const size_t bytes[4])
{
    add_string_message(text, 'H', "\1\0\5\0\1\0\1\0\1\0\1\0\1", 13);
    for (unsigned i = 0; i < 4 && messages[i] != NULL; i++)
        add_string_message(text, 'd', messages[i], bytes[i]);
    add_string_message(text, 'c', "", 0);
    add_done(text, "COPY 0");
}

static int count_visit(void *arg, const struct journal_record *record)
{
    assert_int_equal(record->run, 7);
    ++*(unsigned *)arg;
    return 0;
}

#define HEADER "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0"
#define ROW                                                                                        \
    "\0\5\0\0\0\10\0\0\1\0\0\0\0\7\0\0\0\10\0\0\0\0\0\0\0\1\0\0\0\4\0\0\0\0\0\0\0\2\0\1\0\0\0\0"
#define TRAILER "\377\377"

/* Zero rows are only believed of a copy that began and ended as one. */
static void a_copy_has_a_beginning_and_an_end(void **state)
{
    (void)state;
    enum { HEAD = sizeof(HEADER) - 1, ONE = sizeof(ROW) - 1, END = sizeof(TRAILER) - 1 };
    static const struct {
        const char *messages[4];
        size_t bytes[4];
        int error;
        unsigned count;
    } cases[] = {
        {{HEADER, TRAILER}, {HEAD, END}, 0, 0},
        {{HEADER ROW, ROW, TRAILER}, {HEAD + ONE, ONE, END}, 0, 2},
        {{NULL}, {0}, -EPROTO, 0},
        {{HEADER}, {HEAD}, -EPROTO, 0},
        {{HEADER, ROW}, {HEAD, ONE}, -EPROTO, 1},
        {{HEADER, TRAILER, ROW}, {HEAD, END, ONE}, -EPROTO, 0},
        {{HEADER, TRAILER, TRAILER}, {HEAD, END, END}, -EPROTO, 0},
    };
    for (unsigned i = 0; i <= sizeof(cases) / sizeof(cases[0]); i++) {
        struct reader reader = {.why.text = ""};
        unsigned count = 0;
        bool is_copy = i < sizeof(cases) / sizeof(cases[0]);
        if (is_copy)
            add_copy(&reader.fake.answers[0], (const char **)cases[i].messages, cases[i].bytes);
        else
            add_table(&reader.fake.answers[0], 1, "no copy");
        add_ready(&reader.fake.answers[0]);
        open_reader(&reader);
        const struct campaign_keys listed = {.all = &reader.store.keys, .count = 1};
        struct pg_rows rows = {.table = reader.store.table,
                               .listed = &listed,
                               .campaign = 1,
                               .visit = count_visit,
                               .arg = &count};
        assert_int_equal(pg_rows_copy(&reader.store, "COPY", &rows, &reader.why),
                         is_copy ? cases[i].error : -EPROTO);
        assert_int_equal(count, is_copy ? cases[i].count : 0);
        close_reader(&reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_starts_up_is_waited_for),
        cmocka_unit_test(set_up_takes_no_answer_for_granted),
        cmocka_unit_test(a_greeting_takes_no_answer_for_granted),
        cmocka_unit_test(a_count_takes_no_answer_for_granted),
        cmocka_unit_test(a_copy_has_a_beginning_and_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
