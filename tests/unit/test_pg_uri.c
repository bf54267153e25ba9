/* The address of a Postgres server and what a failed connection says, against a fake server: never
 * any part of a password, and always one clean line. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "journal/backend.h"
#include "journal/pg_uri.h"
#include "tests/lib/scratch.h"

/* In every password here, and in no text. */
#define SECRET "s3cr3t"

static const char *value_of(const struct pg_uri *uri, const char *keyword)
{
    const char *value = NULL;
    for (unsigned i = 0; uri->keywords[i] != NULL; i++)
        if (strcmp(uri->keywords[i], keyword) == 0)
            value = uri->values[i];
    return value;
}

static void a_uri_is_taken_apart_and_completed(void **state)
{
    (void)state;
    struct pg_uri uri;
    struct errmsg why;
    assert_int_equal(pg_uri_parse(&uri,
                                  "postgresql://me:" SECRET "%40%2f@/db?host=/tmp,/run&port=5433&"
                                  "sslmode=disable&client_encoding=LATIN1",
                                  7 * NS_PER_S, &why),
                     0);
    assert_string_equal(value_of(&uri, "user"), "me");
    assert_string_equal(value_of(&uri, "password"), SECRET "@/");
    assert_string_equal(value_of(&uri, "host"), "/tmp,/run");
    assert_string_equal(value_of(&uri, "sslmode"), "disable");
    assert_string_equal(value_of(&uri, "client_encoding"), "UTF8");
    assert_string_equal(value_of(&uri, "fallback_application_name"), "bench");
    assert_string_equal(value_of(&uri, "connect_timeout"), "10");
    assert_string_equal(value_of(&uri, "keepalives_idle"), "30");
    assert_string_equal(value_of(&uri, "tcp_user_timeout"), "7000");
    assert_null(value_of(&uri, "application_name"));
    assert_int_equal(uri.connect_timeout_s, 20);
    assert_false(uri.is_doubtful);
    pg_uri_free(&uri);

    assert_int_equal(pg_uri_parse(&uri,
                                  "postgres://h/db?connect_timeout=3&keepalives_idle=7&"
                                  "application_name=mine&tcp_user_timeout=5",
                                  UINT64_MAX, &why),
                     0);
    assert_string_equal(value_of(&uri, "connect_timeout"), "3");
    assert_string_equal(value_of(&uri, "keepalives_idle"), "7");
    assert_string_equal(value_of(&uri, "tcp_user_timeout"), "5");
    assert_string_equal(value_of(&uri, "application_name"), "mine");
    assert_int_equal(uri.connect_timeout_s, 3);
    pg_uri_free(&uri);
    static const char *const endless[] = {"0", "-1", "9999999999"};
    static const unsigned timeouts_s[] = {10, 10, 600};
    for (unsigned i = 0; i < 3; i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "postgres://h/?connect_timeout=%s", endless[i]);
        assert_int_equal(pg_uri_parse(&uri, text, NS_PER_S, &why), 0);
        assert_int_equal(uri.connect_timeout_s, timeouts_s[i]);
        pg_uri_free(&uri);
    }
}

static void a_malformed_uri_is_not_repeated(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "postgres:" SECRET,
        "postgres:/" SECRET,
        "postgres:host=h password=" SECRET,
        "postgres://me:%zz" SECRET "@host/db",
        "postgres://me:" SECRET, /* the host is missing */
        "postgres://me:" SECRET "/db",
        "postgres://me:12" SECRET ",5432/db",
        "postgres://host/db?password=a&" SECRET "=1",
        "postgres://host/db?password=a&" SECRET,
        "postgres://host/db?" SECRET,
        "postgres://[" SECRET "/db",
        "postgres://host/db?password=a=" SECRET,
        "postgres://host/db?x" SECRET "=%00",
    };
    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct pg_uri uri;
        struct errmsg why = {""};
        struct journal *journal;
        if (pg_uri_parse(&uri, texts[i], NS_PER_S, &why) == 0)
            fail_msg("taken: %s", texts[i]);
        assert_true(why.text[0] != '\0' && strstr(why.text, SECRET) == NULL);
        struct journal_config config = {.uri = texts[i], .writers = 1};
        assert_int_equal(journal_check(&config, &why), 0);
        assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
        assert_null(strstr(why.text, SECRET));
    }
}

/* The "@" and the host forgotten, a password of digits stands where the port does. */
static void a_password_of_digits_is_not_repeated(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "postgres://bench:99999999",  "postgres://bench:99999999/db",
        "postgres://bench:0",         "postgres://bench:54x,99999999",
        "postgres://bench:65536/?x=", "postgres://h/db?port=99999999999999999999999",
        "postgres://h,h:1,/?port=-1",
    };
    for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct journal *journal;
        struct errmsg why = {""};
        struct journal_config config = {.uri = refused[i], .writers = 1};
        if (journal_open(&journal, &config, &why) != -EINVAL)
            fail_msg("taken: %s", refused[i]);
        assert_null(strstr(why.text, "9999"));
    }
    static const struct {
        const char *text;
        bool is_doubtful;
    } lists[] = {{"postgres://bench:5432,99999999/db", true}, {"postgres://h:1,h:2/db", true},
                 {"postgres://u@h:1,h:2/db", false},          {"postgres://h,h:2/db", false},
                 {"postgres://h:1/d:b?host=a,b", false},      {"postgres://[::1]:5432/db", false}};
    for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct pg_uri uri;
        struct errmsg why;
        assert_int_equal(pg_uri_parse(&uri, lists[i].text, NS_PER_S, &why), 0);
        assert_int_equal(uri.is_doubtful, lists[i].is_doubtful);
        pg_uri_free(&uri);
    }
    static const char *const taken[] = {
        "postgres://127.0.0.1:54319/db", "postgres://127.0.0.1:54319,127.0.0.1:54319/db",
        "postgres://bench.invalid:54319/db", "postgres://bench.invalid:5432,54319.invalid/db"};
    for (unsigned i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        struct journal *journal;
        struct errmsg why = {""};
        struct journal_config config = {.uri = taken[i], .writers = 1};
        assert_true(journal_open(&journal, &config, &why) < 0);
        assert_null(strstr(why.text, "54319"));
    }
}

/* --- a server that is none --- */

struct fake {
    struct scratch scratch;
    int listener;
    pthread_t thread;
    const char *answer;
    size_t bytes; /* of the answer; 0: the session is closed at once; SIZE_MAX: it is kept open */
};

static void *serve(void *arg)
{
    struct fake *fake = arg;
    char unused[4096];
    int session = accept(fake->listener, NULL, NULL);
    if (session < 0)
        return NULL;
    if (fake->bytes > 0)
        (void)!read(session, unused, sizeof(unused));
    if (fake->bytes > 0 && fake->bytes != SIZE_MAX)
        (void)send(session, fake->answer, fake->bytes, MSG_NOSIGNAL);
    while (fake->bytes == SIZE_MAX && read(session, unused, sizeof(unused)) > 0)
        continue;
    (void)close(session);
    return NULL;
}

static void open_fake(struct fake *fake)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_int_equal(scratch_make(&fake->scratch, "pg_uri"), 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/.s.PGSQL.5432",
                   fake->scratch.path);
    fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake->listener, 1), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, serve, fake), 0);
}

static void close_fake(struct fake *fake)
{
    (void)shutdown(fake->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(fake->thread, NULL), 0);
    (void)close(fake->listener);
    assert_int_equal(scratch_remove(&fake->scratch), 0);
}

/* What opening a journal says when the server answers so to a session's first words. */
static struct errmsg refusal_of(const char *user, const char *answer, size_t bytes, int *error)
{
    struct fake fake = {.answer = answer, .bytes = bytes};
    struct errmsg why = {""};
    struct journal *journal;
    char uri[256];
    open_fake(&fake);
    (void)snprintf(uri, sizeof(uri),
                   "postgres://%s/db?host=%s&port=5432&sslmode=disable&connect_timeout=1", user,
                   fake.scratch.path);
    struct journal_config config = {.uri = uri, .writers = 1};
    *error = journal_open(&journal, &config, &why);
    assert_true(*error < 0);
    close_fake(&fake);
    return why;
}

/* The error message of the protocol. */
static size_t make_refusal(char *answer, const char *sqlstate, const char *words)
{
    char *at = answer + 5;
    at += sprintf(at, "SFATAL") + 1;
    at += sprintf(at, "C%s", sqlstate) + 1;
    at += sprintf(at, "M%s", words) + 1;
    *at++ = '\0';
    uint32_t bytes = (uint32_t)(at - answer - 1);
    answer[0] = 'E';
    for (unsigned i = 0; i < 4; i++)
        answer[1 + i] = (char)(bytes >> (24 - 8 * i));
    return (size_t)(at - answer);
}

static void a_refusal_is_told_in_one_clean_line(void **state)
{
    (void)state;
    static const struct {
        const char *sqlstate;
        const char *words;
        const char *text;
        int error;
    } cases[] = {
        {"28P01", "password authentication failed for user \"me\"",
         "password authentication failed for user \"me\" (SQLSTATE 28P01)", -EACCES},
        {"53300", "sorry, too many clients already",
         "sorry, too many clients already (SQLSTATE 53300)", -EUSERS},
        {"57P03", "the database system is starting up",
         "the database system is starting up (SQLSTATE 57P03)", -ECONNREFUSED},
        {"XX000", "\033[2J\a\xff\xfe", "?[2J??? (SQLSTATE XX000)", -EIO},
        {"XX000", "one\nDETAIL:  two", "one (SQLSTATE XX000)", -EIO},
        {"no su", "words", "no su: words", -ECONNREFUSED},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char answer[256];
        char text[256];
        int error;
        size_t bytes = make_refusal(answer, cases[i].sqlstate, cases[i].words);
        struct errmsg why = refusal_of("me:" SECRET "@", answer, bytes, &error);
        (void)snprintf(text, sizeof(text), "cannot connect to the server: %s", cases[i].text);
        if (i < 5)
            assert_string_equal(why.text, text);
        assert_non_null(strstr(why.text, cases[i].text));
        assert_int_equal(error, cases[i].error);
        assert_null(strstr(why.text, SECRET));
        assert_null(strchr(why.text, '\n'));
    }
    char *answer = malloc(20100);
    char *words = malloc(20001);
    int error;
    assert_true(answer != NULL && words != NULL);
    memset(words, 'w', 20000);
    words[20000] = '\0';
    size_t bytes = make_refusal(answer, "28000", words);
    struct errmsg why = refusal_of("me:" SECRET "@", answer, bytes, &error);
    assert_in_range(strlen(why.text), 100, 400);
    free(answer);
    free(words);
}

static void what_is_no_server_is_told_too(void **state)
{
    (void)state;
    static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    int error;
    struct errmsg why = refusal_of("me:" SECRET "@", http, sizeof(http) - 1, &error);
    assert_int_equal(strncmp(why.text, "cannot connect to the server: ", 30), 0);
    assert_null(strstr(why.text, SECRET));
    why = refusal_of("me:" SECRET "@", NULL, 0, &error);
    assert_non_null(strstr(why.text, "closed the connection"));
    assert_int_equal(error, -ECONNREFUSED);
    uint64_t start_ns = clock_monotonic_ns();
    why = refusal_of("me:" SECRET "@", NULL, SIZE_MAX, &error);
    assert_string_equal(why.text, "cannot connect to the server: no answer within 1 s");
    assert_int_equal(error, -ETIMEDOUT);
    assert_true(clock_monotonic_ns() - start_ns >= NS_PER_S);

    struct journal *journal;
    struct scratch scratch;
    char uri[256];
    assert_int_equal(scratch_make(&scratch, "pg_uri"), 0);
    (void)snprintf(uri, sizeof(uri), "postgres://me:" SECRET "@/db?host=%s", scratch.path);
    struct journal_config config = {.uri = uri, .writers = 1};
    assert_true(journal_open(&journal, &config, &why) < 0);
    assert_string_equal(why.text, "cannot connect to the server: No such file or directory");
    assert_int_equal(scratch_remove(&scratch), 0);
}

/* A password with an "@" or a "/" in it that should have been encoded ends up as host, user or
 * database, which servers and resolvers quote. */
static void words_that_may_hold_a_password_are_kept_back(void **state)
{
    (void)state;
    static const char *const uris[] = {
        "postgres://me:x@" SECRET ".invalid/db?connect_timeout=1",
        "postgres://me:x@y@" SECRET ".invalid/db",
        "postgres://me/" SECRET "@host.invalid/db?host=/nowhere/" SECRET,
    };
    char answer[256];
    int error;
    for (unsigned i = 1; i < 3; i++) {
        struct journal *journal;
        struct errmsg why;
        struct journal_config config = {.uri = uris[i], .writers = 1};
        assert_true(journal_open(&journal, &config, &why) < 0);
        assert_non_null(strstr(why.text, "%40"));
        assert_null(strstr(why.text, SECRET));
    }
    size_t bytes =
        make_refusal(answer, "28P01", "password authentication failed for user \"" SECRET "\"");
    struct errmsg why = refusal_of(SECRET "@y@", answer, bytes, &error);
    assert_null(strstr(why.text, SECRET));
    assert_int_equal(error, -EACCES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_uri_is_taken_apart_and_completed),
        cmocka_unit_test(a_malformed_uri_is_not_repeated),
        cmocka_unit_test(a_password_of_digits_is_not_repeated),
        cmocka_unit_test(a_refusal_is_told_in_one_clean_line),
        cmocka_unit_test(what_is_no_server_is_told_too),
        cmocka_unit_test(words_that_may_hold_a_password_are_kept_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
