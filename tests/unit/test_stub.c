/*
 * The stub model on a virtual clock: the same (seed, run, turn) gets the same answer after the same
 * time, whatever else is going on; what is no request is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hist.h"
#include "engine/base/prng.h"
#include "engine/base/prose.h"
#include "stub_model/model.h"
#include "tests/lib/loop_sim.h"
#include "tests/lib/parsed_dist.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define TICK_NS (UINT64_C(1) << WHEEL_TICK_BITS)

enum { TRANSCRIPT_BYTES = 1024, ALL_TIMERS = 1000000 };

/* A call, and what came back, in words. */
struct caller {
    struct model_call call;
    struct loop *loop;
    uint64_t submitted_ns;
    uint64_t done_ns;
    unsigned events;
    unsigned ends;
    size_t used;
    char transcript[TRANSCRIPT_BYTES];
};

static void note(struct caller *caller, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void note(struct caller *caller, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(caller->transcript + caller->used, TRANSCRIPT_BYTES - caller->used, format,
                         arguments);
    va_end(arguments);
    caller->used += (size_t)size;
    assert_true(caller->used < TRANSCRIPT_BYTES);
}

static void on_event(struct model_call *call, const struct model_event *event, uint64_t now_ns)
{
    struct caller *caller = container_of(call, struct caller, call);
    assert_int_equal(caller->ends, 0); /* nothing follows the last event */
    caller->events++;
    switch (event->kind) {
    case MODEL_TEXT:
        note(caller, "text %.*s|", (int)event->size, event->bytes);
        return;
    case MODEL_TOOL_CALL:
        note(caller, "call %u %.*s|", event->call_index, (int)event->size, event->bytes);
        return;
    case MODEL_ARGUMENTS:
        note(caller, "arguments %u %.*s|", event->call_index, (int)event->size, event->bytes);
        return;
    case MODEL_FINISH:
        note(caller, "%s", event->finish == MODEL_FINISH_STOP ? "stop" : "tool_calls");
        assert_true(call->prompt_tokens > 0 && event->completion_tokens > 0);
        break;
    case MODEL_ERROR:
        note(caller, "error %.*s", (int)event->size, event->bytes);
        break;
    }
    caller->ends++;
    caller->done_ns = now_ns;
}

static void caller_init(struct caller *caller, struct loop *loop, uint64_t run)
{
    memset(caller, 0, sizeof(*caller));
    caller->loop = loop;
    caller->call.run = run;
    caller->call.on_event = on_event;
    timer_init(&caller->call.timer, NULL);
}

/* A request after `turn` replies, as an agent builds it. */
static size_t write_request(char *request, size_t bytes, unsigned turn)
{
    size_t used = (size_t)snprintf(request, bytes,
                                   "{\"model\":\"stub\",\"messages\":["
                                   "{\"role\":\"system\",\"content\":\"assistant\"},"
                                   "{\"role\":\"user\",\"content\":\"hi\"}");
    for (unsigned i = 0; i < turn; i++)
        used += (size_t)snprintf(request + used, bytes - used,
                                 ",{\"role\":\"assistant\",\"content\":\"…\"}"
                                 ",{\"role\":\"tool\",\"call\":\"c1\",\"content\":\"…\"}");
    used += (size_t)snprintf(request + used, bytes - used, "]}");
    assert_true(used < bytes);
    return used;
}

static void submit(struct model *model, struct caller *caller, unsigned turn)
{
    char request[2048];
    size_t size = write_request(request, sizeof(request), turn);
    caller->submitted_ns = loop_clock_ns(model->loop);
    model_submit(model, &caller->call, request, size, loop_clock_ns(model->loop));
    memset(request, '!', size);          /* it is not kept */
    assert_int_equal(caller->events, 0); /* never from inside the call */
}

static void open_stub(struct model *model, struct loop *loop, const struct model_config *config)
{
    struct errmsg why = {""};
    assert_int_equal(loop_open_ops(loop, &loop_sim_ops, &why), 0);
    assert_int_equal(model_open(model, config, loop, &why), 0);
}

static void close_stub(struct model *model)
{
    model_close(model);
    loop_close(model->loop);
}

static struct model_config stub_config(uint32_t turns, uint32_t tools, const char *latency)
{
    return (struct model_config){
        .name = "stub", .seed = 1, .latency = latency_of(latency), .turns = turns, .tools = tools};
}

static void run_all(struct loop *loop)
{
    while (loop_has_due(loop) || wheel_next_ns(&loop->wheel) != UINT64_MAX)
        assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
}

static void an_unknown_model_is_refused(void **state)
{
    (void)state;
    struct model model;
    struct errmsg why = {""};
    const struct model_config config = {.name = "gpt"};
    assert_int_equal(model_open(&model, &config, NULL, &why), -EINVAL);
    assert_string_equal(why.text, "unknown model \"gpt\"");
}

/* --- what it answers --- */

static const struct {
    uint32_t turns;
    uint32_t tools;
    unsigned turn;
    const char *start;
    const char *end;
} replies[] = {
    {2, 1, 0, "text Let me|text  look that up.|call 0 noop|arguments 0 {\"order\":|arguments 0 7}|",
     "tool_calls"},
    {2, 2, 0,
     "text Let me|text  look that up.|call 0 noop|arguments 0 {\"order\":|arguments 0 7}|"
     "call 1 noop|arguments 1 {\"order\":|arguments 1 7}|",
     "tool_calls"},
    {3, 1, 1, "text Let me|", "tool_calls"},
    {2, 1, 1, "text ", "text Write to us again if it does not.|stop"},
    {1, 1, 0, "text ", "text Write to us again if it does not.|stop"},
    {2, 0, 0, "text ", "text Write to us again if it does not.|stop"},
    {2, 1, 5, "text ", "text Write to us again if it does not.|stop"}, /* past the last turn */
};

static void the_turn_is_read_from_the_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct loop loop;
        struct model model;
        struct caller caller;
        const struct model_config config = stub_config(replies[i].turns, replies[i].tools, "1ms");
        open_stub(&model, &loop, &config);
        caller_init(&caller, &loop, 7);
        submit(&model, &caller, replies[i].turn);
        run_all(&loop);
        size_t start = strlen(replies[i].start);
        size_t end = strlen(replies[i].end);
        assert_int_equal(caller.ends, 1);
        assert_true(caller.used >= end);
        if (strncmp(caller.transcript, replies[i].start, start) != 0 ||
            strcmp(caller.transcript + caller.used - end, replies[i].end) != 0)
            fail_msg("row %zu: %s", i, caller.transcript);
        close_stub(&model);
    }
}

/* What a call said in its text. */
struct listener {
    struct model_call call;
    char *text;
    size_t size;
    size_t capacity; /* it doubles: a sanitizer's realloc() always copies */
    unsigned pieces;
    uint32_t completion_tokens;
};

static void listen(struct model_call *call, const struct model_event *event, uint64_t now_ns)
{
    struct listener *listener = container_of(call, struct listener, call);
    (void)now_ns;
    if (event->kind == MODEL_FINISH)
        listener->completion_tokens = event->completion_tokens;
    if (event->kind != MODEL_TEXT)
        return;
    assert_true(event->size <= 4096);
    while (listener->capacity < listener->size + event->size + 1) {
        listener->capacity = listener->capacity == 0 ? 8192 : 2 * listener->capacity;
        listener->text = realloc(listener->text, listener->capacity);
        assert_non_null(listener->text);
    }
    memcpy(listener->text + listener->size, event->bytes, event->size);
    listener->size += event->size;
    listener->pieces++;
}

static struct listener listen_to(const struct model_config *config, uint64_t run, unsigned turn)
{
    struct loop loop;
    struct model model;
    char request[2048];
    struct listener listener = {.call = {.run = run, .on_event = listen}};
    open_stub(&model, &loop, config);
    timer_init(&listener.call.timer, NULL);
    size_t size = write_request(request, sizeof(request), turn);
    model_submit(&model, &listener.call, request, size, loop.now_ns);
    run_all(&loop);
    close_stub(&model);
    return listener;
}

static void a_text_is_as_long_as_was_drawn(void **state)
{
    (void)state;
    static const char *const specs[] = {"0",     "1B",    "4096B",           "4097B",
                                        "100KB", "16MiB", "uniform:0KB,20KB"};
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct model_config config = stub_config(3, 1, "0");
        struct dist bytes = parsed_dist(specs[i], DIST_BYTES);
        config.reply_bytes = &bytes;
        for (unsigned turn = 0; turn < 3; turn++) {
            struct listener first = listen_to(&config, 7, turn);
            struct listener second = listen_to(&config, 7, turn);
            struct prng p = prng_stream(1, 7, PRNG_REPLY_BYTES, turn);
            uint64_t expected = dist_sample(&bytes, &p);
            expected = expected < PROSE_BYTES_MAX ? expected : PROSE_BYTES_MAX;
            assert_int_equal(first.size, expected);
            assert_int_equal(first.pieces, expected == 0 ? 1 : (expected + 4095) / 4096);
            for (size_t end = 4096; end < expected; end += 4096)
                assert_memory_equal(first.text + end - 2, ". ", 2); /* between two sentences */
            assert_int_equal(second.size, expected);
            assert_memory_equal(first.text, second.text, expected);
            assert_in_range(first.completion_tokens, expected / 4, expected / 4 + 6);
            free(first.text);
            free(second.text);
        }
    }
}

static void texts_of_turns_and_runs_differ(void **state)
{
    (void)state;
    struct model_config config = stub_config(3, 1, "0");
    struct dist bytes = parsed_dist("100B", DIST_BYTES);
    config.reply_bytes = &bytes;
    struct listener texts[] = {listen_to(&config, 7, 0), listen_to(&config, 7, 1),
                               listen_to(&config, 8, 0)};
    assert_memory_not_equal(texts[0].text, texts[1].text, 100);
    assert_memory_not_equal(texts[0].text, texts[2].text, 100);
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        free(texts[i].text);
}

static const struct {
    const char *name;
    const char *request;
    bool is_good;
} requests[] = {
    {"the least", "{\"messages\":[{\"role\":\"user\"}]}", true},
    {"other keys first", "{\"a\":[{}],\"messages\":[{\"content\":\"\",\"role\":\"tool\"}]}", true},
    {"nothing", "", false},
    {"no object", "[]", false},
    {"no messages", "{}", false},
    {"an empty list", "{\"messages\":[]}", false},
    {"messages that are no list", "{\"messages\":{\"role\":\"user\"}}", false},
    {"a message that is none", "{\"messages\":[\"user\"]}", false},
    {"a message without a role", "{\"messages\":[{\"content\":\"hi\"}]}", false},
    {"an unknown role", "{\"messages\":[{\"role\":\"root\"}]}", false},
    {"a role that is a number", "{\"messages\":[{\"role\":1}]}", false},
    {"the last word is its own", "{\"messages\":[{\"role\":\"user\"},{\"role\":\"assistant\"}]}",
     false},
    {"cut off", "{\"messages\":[{\"role\":\"user\"}]", false},
    {"trailing garbage", "{\"messages\":[{\"role\":\"user\"}]}}", false},
    {"no UTF-8", "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", false},
    {"too deep", "{\"messages\":[{\"role\":\"user\",\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
     false},
};

static void what_is_no_request_is_refused_after_its_latency(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        struct loop loop;
        struct model model;
        struct caller caller;
        const struct model_config config = stub_config(2, 1, "5ms");
        open_stub(&model, &loop, &config);
        caller_init(&caller, &loop, 0);
        model_submit(&model, &caller.call, requests[i].request, strlen(requests[i].request),
                     loop.now_ns);
        assert_int_equal(caller.events, 0);
        run_all(&loop);
        bool is_refused = strncmp(caller.transcript, "error ", 6) == 0;
        if (caller.ends != 1 || is_refused == requests[i].is_good)
            fail_msg("%s: %s", requests[i].name, caller.transcript);
        assert_true(requests[i].is_good || (caller.events == 1 && caller.used > 6));
        assert_in_range(caller.done_ns - LOOP_SIM_START_NS, 5 * NS_PER_MS, 5 * NS_PER_MS + TICK_NS);
        close_stub(&model);
    }
}

/* --- of what it is a function --- */

enum { RUNS = 40, TURNS = 3, CALLS = RUNS * TURNS };

/* Submits all, in an order and with pauses drawn from `shuffle`; 0: as they are, at once. */
static void ask_all(struct caller *callers, const struct model_config *config, uint64_t shuffle)
{
    struct loop loop;
    struct model model;
    unsigned order[CALLS];
    struct prng p = prng_stream(shuffle, 0, PRNG_TEST, 0);
    open_stub(&model, &loop, config);
    for (unsigned i = 0; i < CALLS; i++) {
        caller_init(&callers[i], &loop, i / TURNS);
        order[i] = i;
    }
    for (unsigned i = CALLS - 1; shuffle != 0 && i > 0; i--) {
        unsigned j = (unsigned)prng_below(&p, i + 1);
        unsigned other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    for (unsigned i = 0; i < CALLS; i++) {
        submit(&model, &callers[order[i]], order[i] % TURNS);
        uint64_t until_ns = loop.now_ns + (shuffle != 0 ? prng_below(&p, NS_PER_MS) : 0);
        while (loop.now_ns < until_ns)
            assert_int_equal(loop_poll(&loop, until_ns, ALL_TIMERS), 0);
    }
    run_all(&loop);
    close_stub(&model);
}

static void a_reply_depends_on_seed_run_and_turn_alone(void **state)
{
    (void)state;
    struct caller *first = calloc(CALLS, sizeof(*first));
    struct caller *second = calloc(CALLS, sizeof(*second));
    assert_non_null(first);
    assert_non_null(second);
    struct model_config config = stub_config(TURNS, 2, "exp:10ms");
    unsigned different = 0;
    ask_all(first, &config, 0);
    for (uint64_t shuffle = 1; shuffle <= 3; shuffle++) {
        ask_all(second, &config, shuffle);
        for (unsigned i = 0; i < CALLS; i++) {
            assert_int_equal(first[i].ends, 1);
            assert_string_equal(first[i].transcript, second[i].transcript);
            uint64_t latency_ns = first[i].done_ns - first[i].submitted_ns;
            assert_in_range(second[i].done_ns - second[i].submitted_ns + TICK_NS, latency_ns,
                            latency_ns + 2 * TICK_NS);
        }
    }
    config.seed = 2;
    ask_all(second, &config, 0);
    for (unsigned i = 0; i < CALLS; i++)
        different += strcmp(first[i].transcript, second[i].transcript) != 0;
    assert_true(different > RUNS / 2); /* of RUNS final texts, 64 there are */
    free(first);
    free(second);
}

static void latency_is_the_sampled_one_to_a_tick(void **state)
{
    (void)state;
    static const char *const specs[] = {"50ms",     "1ns",
                                        "250us",    "uniform:10ms,90ms",
                                        "exp:50ms", "normal:50ms,10ms",
                                        "1h",       "lognormal:p50=800ms,p99=8s"};
    struct caller *callers = calloc(CALLS, sizeof(*callers));
    struct hist *overshoot = calloc(1, sizeof(*overshoot));
    assert_non_null(callers);
    assert_non_null(overshoot);
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct model_config config = stub_config(TURNS, 1, specs[i]);
        config.overshoot = overshoot;
        hist_init(overshoot);
        ask_all(callers, &config, 0);
        for (unsigned j = 0; j < CALLS; j++) {
            struct prng p = prng_stream(1, j / TURNS, PRNG_MODEL_LATENCY, j % TURNS);
            uint64_t expected_ns = LOOP_SIM_START_NS + dist_sample(&config.latency, &p);
            assert_in_range(callers[j].done_ns, expected_ns, expected_ns + TICK_NS);
        }
        assert_int_equal(overshoot->count, CALLS);
        assert_true(overshoot->max_ns <= TICK_NS);
    }
    free(callers);
    free(overshoot);
}

/* --- when it answers --- */

static void zero_latency_is_never_inline(void **state)
{
    (void)state;
    struct loop loop;
    struct model model;
    struct caller caller;
    const struct model_config config = stub_config(2, 1, "0");
    open_stub(&model, &loop, &config);
    caller_init(&caller, &loop, 0);
    submit(&model, &caller, 0); /* looks that no event has come */
    assert_int_equal(loop_poll(&loop, UINT64_MAX, ALL_TIMERS), 0);
    assert_int_equal(caller.ends, 1);
    assert_int_equal(caller.done_ns, LOOP_SIM_START_NS);
    close_stub(&model);
}

static void a_cancelled_call_hears_nothing(void **state)
{
    (void)state;
    struct loop loop;
    struct model model;
    struct caller callers[4];
    const struct model_config config = stub_config(2, 1, "5ms");
    open_stub(&model, &loop, &config);
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        caller_init(&callers[i], &loop, i);
        submit(&model, &callers[i], 0);
    }
    model_cancel(&model, &callers[1].call);
    model_cancel(&model, &callers[1].call); /* a second time does nothing */
    assert_int_equal(loop_poll(&loop, loop.now_ns + NS_PER_MS, ALL_TIMERS), 0);
    model_cancel(&model, &callers[3].call);
    run_all(&loop);
    assert_int_equal(callers[0].ends, 1);
    assert_int_equal(callers[1].events, 0);
    assert_int_equal(callers[2].ends, 1);
    assert_int_equal(callers[3].events, 0);
    model_cancel(&model, &callers[0].call); /* after its end, too */

    caller_init(&callers[1], &loop, 1); /* a call may be made again */
    submit(&model, &callers[1], 0);
    run_all(&loop);
    assert_int_equal(callers[1].ends, 1);
    close_stub(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_model_is_refused),
        cmocka_unit_test(the_turn_is_read_from_the_messages),
        cmocka_unit_test(a_text_is_as_long_as_was_drawn),
        cmocka_unit_test(texts_of_turns_and_runs_differ),
        cmocka_unit_test(what_is_no_request_is_refused_after_its_latency),
        cmocka_unit_test(a_reply_depends_on_seed_run_and_turn_alone),
        cmocka_unit_test(latency_is_the_sampled_one_to_a_tick),
        cmocka_unit_test(zero_latency_is_never_inline),
        cmocka_unit_test(a_cancelled_call_hears_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
