/*
 * The stub model's streams, failures and attempts on a virtual clock: every token comes when it is
 * due, however late the loop was before; what it says does not depend on when; a given share of
 * attempts fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hist.h"
#include "engine/base/prng.h"
#include "stub_model/model.h"
#include "stub_model/token.h"
#include "tests/lib/loop_sim.h"
#include "tests/lib/parsed_dist.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define TICK_NS (UINT64_C(1) << WHEEL_TICK_BITS)
#define NEVER UINT32_MAX

enum { TEXT_BYTES = 32768, TOKENS_MAX = 4096, ALL_TIMERS = 1000000 };

static const char request_of_turn_0[] = "{\"messages\":[{\"role\":\"user\"}]}";
static const char request_of_turn_1[] =
    "{\"messages\":[{\"role\":\"user\"},{\"role\":\"assistant\"},{\"role\":\"tool\"}]}";

/* A call and what came of it. What it does in its own events is told by the token's number. */
struct listener {
    struct model_call call;
    struct model *model;
    uint64_t spend_ns; /* the callback's own time, each token */
    uint32_t stall_at; /* this token's callback takes stall_ns */
    uint64_t stall_ns;
    uint32_t cancel_at;
    uint32_t resubmit_at; /* once */
    uint32_t tokens;
    uint32_t calls;
    uint32_t ends;
    uint32_t completion_tokens;
    enum model_event_kind end;
    enum model_finish finish;
    bool may_retry;
    uint64_t end_due_ns;
    uint64_t end_ns;
    size_t size;
    uint64_t due_ns[TOKENS_MAX];
    uint64_t now_ns[TOKENS_MAX];
    char text[TEXT_BYTES];
};

static void submit(struct listener *l, unsigned turn)
{
    const char *request = turn == 0 ? request_of_turn_0 : request_of_turn_1;
    model_submit(l->model, &l->call, request, strlen(request), loop_clock_ns(l->model->loop));
}

static void hear_token(struct listener *l, const struct model_event *event, uint64_t now_ns)
{
    uint32_t index = l->tokens++;
    assert_true(l->tokens <= TOKENS_MAX && l->size + event->size < TEXT_BYTES);
    assert_int_equal(l->calls + l->ends, 0); /* all text comes before tool calls */
    memcpy(l->text + l->size, event->bytes, event->size);
    l->size += event->size;
    l->due_ns[index] = event->due_ns;
    l->now_ns[index] = now_ns;
    loop_sim_spend(l->model->loop, l->spend_ns + (index == l->stall_at ? l->stall_ns : 0));
    if (index == l->cancel_at)
        model_cancel(l->model, &l->call);
    if (index == l->resubmit_at) {
        l->resubmit_at = NEVER;
        l->tokens = 0;
        l->size = 0;
        model_cancel(l->model, &l->call);
        submit(l, 0);
        assert_int_equal(l->tokens, 0); /* never from inside the call */
    }
}

static void listen(struct model_call *call, const struct model_event *event, uint64_t now_ns)
{
    struct listener *l = container_of(call, struct listener, call);
    assert_int_equal(l->ends, 0);
    switch (event->kind) {
    case MODEL_TEXT:
        hear_token(l, event, now_ns);
        return;
    case MODEL_TOOL_CALL:
        l->calls++;
        return;
    case MODEL_ARGUMENTS:
        return;
    case MODEL_FINISH:
        l->finish = event->finish;
        l->completion_tokens = event->completion_tokens;
        break;
    case MODEL_ERROR:
        memcpy(l->text, event->bytes, event->size);
        l->size = event->size;
        l->may_retry = event->may_retry;
        break;
    }
    l->ends++;
    l->end = event->kind;
    l->end_due_ns = event->due_ns;
    l->end_ns = now_ns;
}

/* The one model of a test, and a call of it. */
struct stage {
    struct loop loop;
    struct model model;
    struct hist lag;
    struct listener listener;
};

static struct model_config stream_config(const char *latency, uint32_t tokens, uint64_t interval_ns)
{
    return (struct model_config){
        .name = "stub",
        .seed = 1,
        .latency = latency_of(latency),
        .turns = 2,
        .tools = 1,
        .tokens = tokens,
        .token_interval_ns = interval_ns,
    };
}

static struct listener *prepare(struct stage *s, uint64_t run)
{
    struct listener *l = &s->listener;
    memset(l, 0, sizeof(*l));
    l->call.run = run;
    l->call.on_event = listen;
    timer_init(&l->call.timer, NULL);
    l->model = &s->model;
    l->stall_at = l->cancel_at = l->resubmit_at = NEVER;
    return l;
}

static struct stage *open_stage(const struct model_config *config)
{
    struct stage *s = calloc(1, sizeof(*s));
    struct model_config with_lag = *config;
    struct errmsg why = {""};
    assert_non_null(s);
    hist_init(&s->lag);
    with_lag.token_lag = &s->lag;
    assert_int_equal(loop_open_ops(&s->loop, &loop_sim_ops, &why), 0);
    assert_int_equal(model_open(&s->model, &with_lag, &s->loop, &why), 0);
    (void)prepare(s, 7);
    return s;
}

static void close_stage(struct stage *s)
{
    model_close(&s->model);
    loop_close(&s->loop);
    free(s);
}

static void run_all(struct stage *s)
{
    while (loop_has_due(&s->loop) || wheel_next_ns(&s->loop.wheel) != UINT64_MAX)
        assert_int_equal(loop_poll(&s->loop, UINT64_MAX, ALL_TIMERS), 0);
}

/* What the tokens say, without a model. */
static size_t expected_text(char *to, uint64_t run, uint32_t turn, uint32_t tokens)
{
    size_t size = 0;
    for (uint32_t i = 0; i < tokens; i++) {
        struct prng p = prng_stream(1, run, PRNG_MODEL_TOKEN, token_index(turn, i));
        size += token_write(to + size, &p, i + 1 == tokens);
    }
    return size;
}

static void assert_text(const struct listener *l, uint32_t turn, uint32_t tokens)
{
    static char expected[TEXT_BYTES];
    assert_int_equal(l->tokens, tokens);
    assert_int_equal(l->size, expected_text(expected, l->call.run, turn, tokens));
    assert_memory_equal(l->text, expected, l->size);
}

/* --- when tokens come --- */

static const struct {
    const char *latency;
    uint64_t latency_ns;
    uint64_t interval_ns;
    uint32_t tokens;
    uint64_t spend_ns; /* of each callback, less than the interval */
} paces[] = {
    {"50ms", 50000000, 20000000, 50, 0},
    {"50ms", 50000000, 20000000, 50, 15000000},
    {"0", 0, 20000000, 50, 0},
    {"1ns", 1, 1234567, 4096, 1000000}, /* no multiple of the wheel's tick */
    {"800ms", 800000000, 40000, 1000, 0},
    {"1ms", 1000000, 1000000, 1, 0},
    {"1ms", 1000000, UINT64_C(3600000000000), 30, 0},
};

static void a_token_is_due_at_the_first_and_whole_intervals(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(paces); i++) {
        struct model_config config =
            stream_config(paces[i].latency, paces[i].tokens, paces[i].interval_ns);
        struct stage *s = open_stage(&config);
        struct listener *l = &s->listener;
        l->spend_ns = paces[i].spend_ns;
        submit(l, 1);
        assert_int_equal(l->tokens, 0); /* never from inside the call */
        run_all(s);
        assert_int_equal(l->tokens, paces[i].tokens);
        for (uint64_t t = 0; t < l->tokens; t++) {
            uint64_t due_ns = LOOP_SIM_START_NS + paces[i].latency_ns + t * paces[i].interval_ns;
            assert_int_equal(l->due_ns[t], due_ns);
            assert_in_range(l->now_ns[t], due_ns,
                            due_ns + TICK_NS); /* of the last as of the first */
        }
        assert_int_equal(s->lag.count, l->tokens);
        assert_true(s->lag.max_ns <= TICK_NS);
        assert_int_equal(l->ends, 1);
        assert_int_equal(l->end_due_ns, l->due_ns[l->tokens - 1]);
        assert_int_equal(l->end_ns, l->now_ns[l->tokens - 1]);
        close_stage(s);
    }
}

static void what_a_stall_held_up_comes_in_one_go_each_with_its_own_lag(void **state)
{
    (void)state;
    struct model_config config = stream_config("50ms", 40, 20 * NS_PER_MS);
    struct stage *s = open_stage(&config);
    struct listener *l = &s->listener;
    uint64_t lag_ns = 0;
    l->stall_at = 9; /* at 50 + 9 * 20 = 230 ms, until 435 ms: tokens 10 to 19 are due by then */
    l->stall_ns = 205 * NS_PER_MS;
    submit(l, 1);
    run_all(s);
    assert_text(l, 1, 40);
    for (uint64_t t = 0; t < l->tokens; t++) {
        uint64_t due_ns = LOOP_SIM_START_NS + (50 + 20 * t) * NS_PER_MS;
        assert_int_equal(l->due_ns[t], due_ns);
        if (t >= 10 && t < 20)
            assert_int_equal(l->now_ns[t], l->now_ns[9] + l->stall_ns);
        else
            assert_in_range(l->now_ns[t], due_ns, due_ns + TICK_NS);
        lag_ns += l->now_ns[t] - due_ns;
    }
    assert_int_equal(s->lag.count, 40);
    assert_int_equal(s->lag.sum_ns, lag_ns);
    assert_int_equal(s->lag.max_ns, l->now_ns[10] - l->due_ns[10]);
    close_stage(s);
}

/* The time that others took in the same turn of the loop is lag, too. */
static void a_turn_that_served_others_first_is_late(void **state)
{
    (void)state;
    struct model_config config = stream_config("50ms", 3, 20 * NS_PER_MS);
    struct stage *s = open_stage(&config);
    struct stage *first = open_stage(&config);
    struct listener *l = &s->listener;
    first->listener.model = &s->model;
    first->listener.stall_at = 1;
    first->listener.stall_ns = 4 * NS_PER_MS;
    submit(&first->listener, 1);
    submit(l, 1);
    run_all(s);
    assert_int_equal(l->tokens, 3);
    assert_in_range(l->now_ns[1] - l->due_ns[1], 4 * NS_PER_MS, 4 * NS_PER_MS + TICK_NS);
    assert_in_range(l->now_ns[2] - l->due_ns[2], 0, TICK_NS);
    assert_int_equal(s->lag.max_ns, l->now_ns[1] - l->due_ns[1]);
    close_stage(first);
    close_stage(s);
}

static void without_an_interval_all_tokens_come_in_one_go(void **state)
{
    (void)state;
    static const char *const latencies[] = {"0", "5ms"};
    for (size_t i = 0; i < COUNT_OF(latencies); i++) {
        struct model_config config = stream_config(latencies[i], 1000, 0);
        struct stage *s = open_stage(&config);
        struct listener *l = &s->listener;
        uint64_t due_ns = i == 0 ? 0 : LOOP_SIM_START_NS + 5 * NS_PER_MS;
        submit(l, 0);
        assert_int_equal(l->tokens, 0);
        while (l->tokens == 0)
            assert_int_equal(loop_poll(&s->loop, UINT64_MAX, ALL_TIMERS), 0);
        assert_text(l, 0, 1000);
        assert_int_equal(l->ends, 1);
        assert_int_equal(l->due_ns[999], due_ns);
        assert_int_equal(l->end_due_ns, due_ns);
        assert_int_equal(s->lag.count, i == 0 ? 0 : 1000); /* what comes at once is never late */
        close_stage(s);
    }
}

/* --- what they say --- */

static void a_text_is_the_same_whatever_its_timing(void **state)
{
    (void)state;
    static const uint64_t intervals_ns[] = {0, 1, 40000, 20000000};
    for (size_t i = 0; i < COUNT_OF(intervals_ns); i++) {
        for (unsigned turn = 0; turn < 2; turn++) {
            struct model_config config = stream_config("exp:10ms", 300, intervals_ns[i]);
            struct stage *s = open_stage(&config);
            struct listener *l = &s->listener;
            l->stall_at = 100 * turn;
            l->stall_ns = 50 * NS_PER_MS;
            l->call.attempt = (uint32_t)i; /* another try hears the same, too */
            submit(l, turn);
            run_all(s);
            assert_text(l, turn, 300);
            close_stage(s);
        }
    }
}

static void tokens_are_words_of_four_bytes_on_average(void **state)
{
    (void)state;
    enum { TOKENS = 4000 };
    static char texts[3][TEXT_BYTES];
    static const struct {
        uint64_t run;
        uint32_t turn;
    } of[] = {{7, 0}, {7, 1}, {8, 0}};
    for (size_t i = 0; i < COUNT_OF(of); i++) {
        size_t size = expected_text(texts[i], of[i].run, of[i].turn, TOKENS);
        size_t words = 1;
        assert_in_range(size, 38 * TOKENS / 10, 42 * TOKENS / 10);
        for (size_t at = 0; at + 1 < size; at++) {
            assert_true(texts[i][at] == ' ' || (texts[i][at] >= 'a' && texts[i][at] <= 'z'));
            words += texts[i][at] == ' ';
        }
        assert_int_equal(words, TOKENS);
        assert_int_equal(texts[i][size - 1], '.');
    }
    assert_memory_not_equal(texts[0], texts[1], 100);
    assert_memory_not_equal(texts[0], texts[2], 100);
}

static void a_stream_ends_in_tool_calls_and_counts_its_tokens(void **state)
{
    (void)state;
    struct model_config config = stream_config("5ms", 20, NS_PER_MS);
    config.tools = 2;
    struct stage *s = open_stage(&config);
    struct listener *l = &s->listener;
    submit(l, 0);
    run_all(s);
    assert_int_equal(l->calls, 2);
    assert_int_equal(l->end, MODEL_FINISH);
    assert_int_equal(l->finish, MODEL_FINISH_TOOL_CALLS);
    assert_int_equal(l->completion_tokens, 20 + (2 * strlen("{\"order\":7}") + 3) / 4);
    l = prepare(s, 7);
    submit(l, 1);
    run_all(s);
    assert_int_equal(l->calls, 0);
    assert_int_equal(l->finish, MODEL_FINISH_STOP);
    assert_int_equal(l->completion_tokens, 20);
    close_stage(s);
}

/* --- giving up --- */

static void a_cancelled_stream_says_no_more(void **state)
{
    (void)state;
    static const uint64_t intervals_ns[] = {0, 20000000};
    for (size_t i = 0; i < COUNT_OF(intervals_ns); i++) {
        struct model_config config = stream_config("5ms", 50, intervals_ns[i]);
        struct stage *s = open_stage(&config);
        struct listener *l = &s->listener;
        l->cancel_at = 10; /* from inside */
        submit(l, 0);
        run_all(s);
        assert_int_equal(l->tokens, 11);
        assert_int_equal(l->calls + l->ends, 0);

        l = prepare(s, 7);
        l->cancel_at = 49; /* the last token: neither tool calls nor the end follow */
        submit(l, 0);
        run_all(s);
        assert_int_equal(l->tokens, 50);
        assert_int_equal(l->calls + l->ends, 0);

        l = prepare(s, 7); /* and the call may be made again */
        submit(l, 0);
        run_all(s);
        assert_text(l, 0, 50);
        assert_int_equal(l->ends, 1);
        close_stage(s);
    }
}

static void a_stream_is_cancelled_between_two_tokens(void **state)
{
    (void)state;
    struct model_config config = stream_config("5ms", 50, 20 * NS_PER_MS);
    struct stage *s = open_stage(&config);
    struct listener *l = &s->listener;
    submit(l, 0);
    while (l->tokens < 10)
        assert_int_equal(loop_poll(&s->loop, UINT64_MAX, ALL_TIMERS), 0);
    model_cancel(&s->model, &l->call);
    model_cancel(&s->model, &l->call); /* a second time does nothing */
    assert_int_equal(s->loop.wheel.armed_count, 0);
    run_all(s);
    assert_int_equal(l->tokens, 10);
    assert_int_equal(l->ends, 0);
    close_stage(s);
}

static void a_stream_is_started_anew_from_inside_itself(void **state)
{
    (void)state;
    static const uint64_t intervals_ns[] = {0, 20000000};
    for (size_t i = 0; i < COUNT_OF(intervals_ns); i++) {
        for (uint32_t at = 0; at < 50; at += 49) {
            struct model_config config = stream_config("5ms", 50, intervals_ns[i]);
            struct stage *s = open_stage(&config);
            struct listener *l = &s->listener;
            l->resubmit_at = at;
            submit(l, 0);
            run_all(s);
            assert_text(l, 0, 50);
            assert_int_equal(l->ends, 1);
            close_stage(s);
        }
    }
}

/* --- failing --- */

enum { CALLS = 20000 };

/* Which of CALLS runs fail at one attempt. */
static void fail_all(struct stage *s, uint32_t attempt, bool failed[CALLS])
{
    for (uint64_t run = 0; run < CALLS; run++) {
        struct listener *l = &s->listener;
        l->tokens = l->calls = l->ends = 0;
        l->size = 0;
        l->call.run = run;
        l->call.attempt = attempt;
        submit(l, 1);
        run_all(s);
        assert_int_equal(l->ends, 1);
        failed[run] = l->end == MODEL_ERROR;
        if (!failed[run])
            continue;
        assert_int_equal(l->tokens + l->calls, 0);
        assert_int_equal(l->size, strlen("the model is overloaded"));
        assert_memory_equal(l->text, "the model is overloaded", l->size);
        assert_true(l->may_retry);
    }
}

static void assert_share(const bool flags[CALLS], double share)
{
    double count = 0;
    for (unsigned i = 0; i < CALLS; i++)
        count += flags[i];
    /* Five standard deviations of the binomial; the seed is fixed, so this is no lottery. */
    if (fabs(count - CALLS * share) > 5 * sqrt(CALLS * share * (1 - share)))
        fail_msg("%g of %d failed, not %g of them", count, CALLS, share);
}

static void a_share_of_attempts_fails_independently(void **state)
{
    (void)state;
    static const double rates[] = {0.01, 0.3, 0.9};
    bool *flags = calloc(4, CALLS * sizeof(*flags));
    assert_non_null(flags);
    bool *first = flags, *again = flags + CALLS, *second = flags + 2 * CALLS;
    bool *both = flags + 3 * CALLS;
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        struct model_config config = stream_config("0", 2, 0);
        config.error_rate = rates[i];
        struct stage *s = open_stage(&config);
        fail_all(s, 0, first);
        fail_all(s, 0, again);
        fail_all(s, 1, second);
        assert_memory_equal(first, again, CALLS * sizeof(*first));
        for (unsigned run = 0; run < CALLS; run++)
            both[run] = first[run] && second[run];
        assert_share(first, rates[i]);
        assert_share(second, rates[i]);
        assert_share(both, rates[i] * rates[i]);
        close_stage(s);
    }
    free(flags);
}

static void none_and_all_fail_at_the_ends_of_the_scale(void **state)
{
    (void)state;
    bool *failed = calloc(CALLS, sizeof(*failed));
    assert_non_null(failed);
    for (unsigned rate = 0; rate < 2; rate++) {
        struct model_config config = stream_config("0", 0, 0);
        config.error_rate = rate;
        struct stage *s = open_stage(&config);
        fail_all(s, 0, failed);
        assert_share(failed, rate);
        close_stage(s);
    }
    free(failed);
}

static void a_failure_comes_after_its_latency(void **state)
{
    (void)state;
    struct model_config config = stream_config("50ms", 10, NS_PER_MS);
    config.error_rate = 1;
    struct stage *s = open_stage(&config);
    struct listener *l = &s->listener;
    submit(l, 1);
    run_all(s);
    assert_int_equal(l->end, MODEL_ERROR);
    assert_int_equal(l->end_due_ns, LOOP_SIM_START_NS + 50 * NS_PER_MS);
    assert_in_range(l->end_ns, l->end_due_ns, l->end_due_ns + TICK_NS);

    l = prepare(s, 7); /* a request that is none stays one, however often it is tried */
    model_submit(&s->model, &l->call, "{}", 2, s->loop.now_ns);
    run_all(s);
    assert_int_equal(l->end, MODEL_ERROR);
    assert_false(l->may_retry);
    close_stage(s);
}

static void attempt_0_draws_the_latency_of_before_and_others_their_own(void **state)
{
    (void)state;
    struct model_config config = stream_config("exp:50ms", 1, 0);
    struct stage *s = open_stage(&config);
    for (uint64_t run = 0; run < 100; run++) {
        uint64_t due_ns[3];
        for (uint32_t attempt = 0; attempt < COUNT_OF(due_ns); attempt++) {
            struct listener *l = prepare(s, run);
            uint64_t submitted_ns = s->loop.now_ns;
            l->call.attempt = attempt;
            submit(l, 1);
            run_all(s);
            due_ns[attempt] = l->end_due_ns - submitted_ns;
        }
        struct prng p = prng_stream(1, run, PRNG_MODEL_LATENCY, 1);
        assert_int_equal(due_ns[0], dist_sample(&config.latency, &p));
        assert_int_not_equal(due_ns[0], due_ns[1]);
        assert_int_not_equal(due_ns[1], due_ns[2]);
        assert_int_not_equal(due_ns[0], due_ns[2]);
    }
    close_stage(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_due_at_the_first_and_whole_intervals),
        cmocka_unit_test(what_a_stall_held_up_comes_in_one_go_each_with_its_own_lag),
        cmocka_unit_test(a_turn_that_served_others_first_is_late),
        cmocka_unit_test(without_an_interval_all_tokens_come_in_one_go),
        cmocka_unit_test(a_text_is_the_same_whatever_its_timing),
        cmocka_unit_test(tokens_are_words_of_four_bytes_on_average),
        cmocka_unit_test(a_stream_ends_in_tool_calls_and_counts_its_tokens),
        cmocka_unit_test(a_cancelled_stream_says_no_more),
        cmocka_unit_test(a_stream_is_cancelled_between_two_tokens),
        cmocka_unit_test(a_stream_is_started_anew_from_inside_itself),
        cmocka_unit_test(a_share_of_attempts_fails_independently),
        cmocka_unit_test(none_and_all_fail_at_the_ends_of_the_scale),
        cmocka_unit_test(a_failure_comes_after_its_latency),
        cmocka_unit_test(attempt_0_draws_the_latency_of_before_and_others_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
