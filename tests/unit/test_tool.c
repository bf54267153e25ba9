/* The tools: what arguments they take, what they answer, and the ledger as others read it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/tool.h"
#include "tests/lib/scratch.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static struct tool_result run_tool(const struct tool_context *context, const char *name,
                                   const char *arguments)
{
    const struct json_span name_span = {.bytes = name, .size = strlen(name)};
    const struct json_span arguments_span = {.bytes = arguments, .size = strlen(arguments)};
    struct tool_result result;
    memset(&result, 0x5a, sizeof(result)); /* what is not set must not look right */
    tool_run(context, &name_span, &arguments_span, &result);
    assert_true(result.size <= sizeof(result.text));
    return result;
}

static void assert_result(const struct tool_result *result, bool is_error, const char *text)
{
    if (result->is_error != is_error || result->size != strlen(text) ||
        memcmp(result->text, text, result->size) != 0)
        fail_msg("%s \"%.*s\" instead of \"%s\"", result->is_error ? "error" : "result",
                 result->size, result->text, text);
}

static void good_arguments_are_answered(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        const char *text;
    } cases[] = {
        {"{\"order\":0}", "Order 0 was shipped."},
        {"{\"order\":17}", "Order 17 was shipped."},
        {" { \"order\" : 17 } ", "Order 17 was shipped."},
        {"{\"order\":18446744073709551615}", "Order 18446744073709551615 was shipped."},
    };
    static const enum tool_effect effects[] = {TOOL_EFFECT_NONE, TOOL_EFFECT_NOOP};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (size_t j = 0; j < COUNT_OF(effects); j++) {
            const struct tool_context context = {.effect = effects[j], .ledger_fd = -1};
            struct tool_result result = run_tool(&context, "noop", cases[i].arguments);
            assert_result(&result, false, cases[i].text);
        }
    }
}

static void bad_arguments_are_an_error_and_have_no_effect(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "{}",
        "[]",
        "17",
        "null",
        "{\"order\":}",
        "{\"order\":17",
        "{\"order\":17}}",
        "{\"order\":\"17\"}",
        "{\"order\":-1}",
        "{\"order\":1.5}",
        "{\"order\":1e3}",
        "{\"order\":null}",
        "{\"order\":[17]}",
        "{\"order\":18446744073709551616}",
        "{\"Order\":17}",
        "{\"order\":17,\"order\":17}",
        "{\"order\":17,\"more\":1}",
        "{\"more\":1}",
    };
    int fd = memfd_create("ledger", MFD_CLOEXEC);
    struct stat status;
    const struct tool_context context = {
        .effect = TOOL_EFFECT_LEDGER, .ledger_fd = fd, .call_id = 1, .attempt = 1};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct tool_result result = run_tool(&context, "noop", cases[i]);
        if (!result.is_error || result.size == 0)
            fail_msg("%s: it passed", cases[i]);
    }
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(close(fd), 0);
}

static void an_unknown_tool_is_an_error(void **state)
{
    (void)state;
    static const char *const names[] = {"", "noo", "noopx", "NOOP", "rm", "no\\u006fp"};
    const struct tool_context context = {.effect = TOOL_EFFECT_NOOP, .ledger_fd = -1};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct tool_result result = run_tool(&context, names[i], "{\"order\":17}");
        assert_result(&result, true, "unknown tool");
    }
}

static void only_a_read_only_tool_is_not_declared(void **state)
{
    (void)state;
    assert_false(tool_effect_is_declared(TOOL_EFFECT_NONE));
    assert_true(tool_effect_is_declared(TOOL_EFFECT_NOOP));
    assert_true(tool_effect_is_declared(TOOL_EFFECT_LEDGER));
}

/* --- the ledger --- */

static const struct {
    uint64_t run;
    uint32_t call;
    uint32_t attempt;
} effects[] = {
    {0, 1, 1},
    {17, 2, 1},
    {17, 2, 2},
    {UINT64_MAX, UINT32_MAX, UINT32_MAX},
};
static const char ledger_lines[] = "0 c1 1\n17 c2 1\n17 c2 2\n"
                                   "18446744073709551615 c4294967295 4294967295\n";

static void write_effects(int fd)
{
    for (size_t i = 0; i < COUNT_OF(effects); i++) {
        const struct tool_context context = {.effect = TOOL_EFFECT_LEDGER,
                                             .ledger_fd = fd,
                                             .run = effects[i].run,
                                             .call_id = effects[i].call,
                                             .attempt = effects[i].attempt};
        struct tool_result result = run_tool(&context, "noop", "{\"order\":17}");
        assert_result(&result, false, "Order 17 was shipped.");
    }
}

static void each_effect_is_a_line_of_the_ledger(void **state)
{
    (void)state;
    struct scratch scratch = {""};
    char path[80];
    char text[256];
    assert_int_equal(scratch_make(&scratch, "tool"), 0);
    (void)snprintf(path, sizeof(path), "%s/ledger", scratch.path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    write_effects(fd);
    assert_int_equal(close(fd), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    assert_int_equal(scratch_remove(&scratch), 0);
    assert_string_equal(text, ledger_lines);
}

/* A socket that keeps the limits of messages shows each write as one. */
static void each_line_is_one_write(void **state)
{
    (void)state;
    int fds[2];
    char message[256];
    const char *rest = ledger_lines;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    write_effects(fds[0]);
    for (size_t i = 0; i < COUNT_OF(effects); i++) {
        ssize_t size = recv(fds[1], message, sizeof(message), MSG_DONTWAIT);
        const char *end = strchr(rest, '\n') + 1;
        assert_int_equal(size, end - rest);
        assert_memory_equal(message, rest, (size_t)size);
        rest = end;
    }
    assert_true(recv(fds[1], message, sizeof(message), MSG_DONTWAIT) < 0);
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
}

static void a_ledger_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    struct tool_context context = {.effect = TOOL_EFFECT_LEDGER, .call_id = 1, .attempt = 1};
    context.ledger_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(context.ledger_fd >= 0);
    struct tool_result result = run_tool(&context, "noop", "{\"order\":17}");
    assert_result(&result, true, "No space left on device");
    assert_int_equal(close(context.ledger_fd), 0);
    result = run_tool(&context, "noop", "{\"order\":17}");
    assert_result(&result, true, "Bad file descriptor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_arguments_are_answered),
        cmocka_unit_test(bad_arguments_are_an_error_and_have_no_effect),
        cmocka_unit_test(an_unknown_tool_is_an_error),
        cmocka_unit_test(only_a_read_only_tool_is_not_declared),
        cmocka_unit_test(each_effect_is_a_line_of_the_ledger),
        cmocka_unit_test(each_line_is_one_write),
        cmocka_unit_test(a_ledger_that_cannot_be_written_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
