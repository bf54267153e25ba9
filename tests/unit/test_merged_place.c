/* merged_place: what is taken of hosts that are one or differ, and of a build and settings that a
 * file may say anything of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/merged_place.h"

#define HOST                                                                                       \
    "{\"host\": {\"cpu_model\": \"Example\", \"cpus\": 2, \"cpus_online\": 4,"                     \
    "\"cpu_quota\": 1.5, \"cpu_governor\": null, \"kernel\": \"Linux 6\","                         \
    "\"clock_source\": \"tsc\", \"clock_step_ns\": 20, \"memory_bytes\": 8589934592}}"

static json_t *parse(const char *text)
{
    json_error_t fault;
    json_t *tree = json_loads(text, 0, &fault);
    if (tree == NULL)
        fail_msg("%s: %s", fault.text, text);
    return tree;
}

static struct host host_of(const char *sources)
{
    struct host host;
    json_t *tree = parse(sources);
    merged_place_host(tree, &host);
    json_decref(tree);
    return host;
}

static void test_hosts_that_are_one_are_told_as_one(void **state)
{
    (void)state;
    struct host host = host_of("[" HOST "," HOST "," HOST "]");
    assert_string_equal(host.cpu_model, "Example");
    assert_string_equal(host.kernel, "Linux 6");
    assert_string_equal(host.clock_source, "tsc");
    assert_string_equal(host.cpu_governor, "");
    assert_int_equal(host.cpus, 2);
    assert_int_equal(host.cpus_online, 4);
    assert_true(host.cpu_quota == 1.5);
    assert_int_equal(host.clock_step_ns, 20);
    assert_int_equal(host.memory_bytes, UINT64_C(8) << 30);
    assert_string_equal(host.differs_in, "");
}

/* Another kernel, no quota, and a clock that showed another step, as the same one may. */
static void test_what_differs_is_named_and_left_out(void **state)
{
    (void)state;
    struct host host = host_of(
        "[" HOST ",{\"host\": {\"cpu_model\": \"Example\", \"cpus\": 2, \"cpus_online\": 4,"
        "\"cpu_quota\": null, \"cpu_governor\": null, \"kernel\": \"Linux 7\","
        "\"clock_source\": \"tsc\", \"clock_step_ns\": 21, \"memory_bytes\": 8589934592}}]");
    assert_string_equal(host.differs_in, "cpu_quota, kernel");
    assert_string_equal(host.kernel, "");
    assert_true(host.cpu_quota < 0);
    assert_int_equal(host.clock_step_ns, 0);
    assert_string_equal(host.cpu_model, "Example");
    assert_int_equal(host.cpus, 2);
    host = host_of("[" HOST ",{\"host\": {}}]");
    assert_string_equal(host.differs_in,
                        "cpu_model, cpus, cpus_online, cpu_quota, cpu_governor, kernel, "
                        "clock_source, memory_bytes");
}

static void test_what_is_no_fact_is_not_known(void **state)
{
    (void)state;
    struct host host = host_of(
        "[{\"host\": {\"cpu_model\": 7, \"cpus\": -1, \"cpus_online\": 4294967296, \"cpu_quota\": "
        "\"all\", \"cpu_governor\": [], \"kernel\": \"\\u001b[31mLinux\\n6\", \"clock_source\": "
        "{}, \"clock_step_ns\": -5, \"memory_bytes\": 1.5}}]");
    assert_string_equal(host.cpu_model, "");
    assert_int_equal(host.cpus, 0);
    assert_int_equal(host.cpus_online, 0);
    assert_true(host.cpu_quota < 0);
    assert_string_equal(host.kernel, "?[31mLinux?6");
    assert_string_equal(host.clock_source, "");
    assert_int_equal(host.clock_step_ns, 0);
    assert_int_equal(host.memory_bytes, 0);

    char text[600];
    (void)snprintf(text, sizeof(text), "[{\"host\": {\"cpu_model\": \"%0500d\"}}]", 7);
    host = host_of(text);
    assert_int_equal(strlen(host.cpu_model), HOST_TEXT_BYTES - 1);
}

static void test_settings_are_those_of_a_store(void **state)
{
    static const struct {
        const char *settings;
        const char *fault;
    } cases[] = {
        {"[]", "a.json: store.settings must be an object of at most 16 settings, got []"},
        {"{\"\": \"1\"}", "a.json: store.settings must be of a name and a text each, got {\"\":"
                          "\"1\"}"},
        {"{\"a\": 1}", "a.json: store.settings must be of a name and a text each, got {\"a\":1}"},
        {"{\"a\\\"} 1\": \"1\"}",
         "a.json: store.settings must be of a name and a text each, got {\"a\\\"} 1\":\"1\"}"},
    };
    struct journal_settings settings;
    struct errmsg why = {.text = ""};
    char text[512];
    (void)state;
    struct result_file file = {.name = "a.json"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(text, sizeof(text), "{\"store\": {\"settings\": %s}}", cases[i].settings);
        file.tree = parse(text);
        assert_true(merged_place_settings(&file, &settings, &why) < 0);
        assert_string_equal(why.text, cases[i].fault);
        json_decref(file.tree);
    }
    json_t *many = json_object();
    for (int i = 0; i <= JOURNAL_SETTINGS_MAX; i++) {
        (void)snprintf(text, sizeof(text), "s%d", i);
        assert_int_equal(json_object_set_new(many, text, json_string("on")), 0);
    }
    file.tree = json_pack("{s:{s:o}}", "store", "settings", many);
    assert_true(merged_place_settings(&file, &settings, &why) < 0);
    assert_int_equal(json_object_del(many, "s0"), 0);
    assert_int_equal(merged_place_settings(&file, &settings, &why), 0);
    assert_int_equal(settings.count, JOURNAL_SETTINGS_MAX);
    json_decref(file.tree);

    (void)snprintf(text, sizeof(text),
                   "{\"store\": {\"settings\": {\"a\": \"x\\ny\", \"b\": "
                   "\"%0300d\"}}}",
                   0);
    file.tree = parse(text);
    assert_int_equal(merged_place_settings(&file, &settings, &why), 0);
    assert_string_equal(settings.all[0].key, "a");
    assert_string_equal(settings.all[0].value, "x?y");
    assert_int_equal(strlen(settings.all[1].value), JOURNAL_SETTING_BYTES - 1);
    json_decref(file.tree);
}

static void test_builds_are_as_far_as_they_are_told(void **state)
{
    (void)state;
    struct result_file file = {
        .name = "a.json",
        .tree = parse("{\"build\": {\"version\": \"1.2.3\", \"revision\": 5, \"is_dirty\": true,"
                      "\"is_optimized\": 1}}"),
    };
    struct version version = merged_place_build(&file);
    assert_string_equal(version.version, "1.2.3");
    assert_string_equal(version.revision, "unknown");
    assert_string_equal(version.flags, "unknown");
    assert_true(version.is_dirty);
    assert_false(version.is_optimized);
    json_decref(file.tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts_that_are_one_are_told_as_one),
        cmocka_unit_test(test_what_differs_is_named_and_left_out),
        cmocka_unit_test(test_what_is_no_fact_is_not_known),
        cmocka_unit_test(test_settings_are_those_of_a_store),
        cmocka_unit_test(test_builds_are_as_far_as_they_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
