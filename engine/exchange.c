/*
 * exchange: see exchange.h. First its life, then the calls, then what is heard, then failure.
 */
#include "engine/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/prng.h"
#include "engine/run_parts.h"

static void on_first(struct model_call *call, const struct model_event *event, uint64_t now_ns);
static void on_rival(struct model_call *call, const struct model_event *event, uint64_t now_ns);
static void on_hedge(struct timer *timer, uint64_t now_ns);
static void on_timer(struct timer *timer, uint64_t now_ns);
static void fail_try(struct exchange *x, const struct model_event *error, uint64_t now_ns);
static void on_text_due(struct coalesce *text, uint64_t now_ns);

const char *stream_journal_name(enum stream_journal mode)
{
    switch (mode) {
    case STREAM_JOURNAL_NONE:
        return "none";
    case STREAM_JOURNAL_COALESCED:
        return "coalesced";
    case STREAM_JOURNAL_TOKEN:
        return "token";
    }
    return "invalid";
}

/* --- life --- */

void exchange_env_init(struct run_env *env)
{
    env->coalesce =
        (struct coalesce_env){.loop = &env->sched->loop, .pool = &env->pool, .on_due = on_text_due};
}

static struct exchange *open_exchange(struct run *run)
{
    size_t capacity = 0;
    struct exchange *x = pool_alloc(&run->env->pool, sizeof(*x), &capacity);
    if (x == NULL)
        return NULL;
    memset(x, 0, sizeof(*x));
    x->run = run;
    x->capacity = (uint32_t)capacity;
    x->rival.run = run_number(run);
    x->rival.on_event = on_rival;
    run->model_call.on_event = on_first;
    timer_init(&x->rival.timer, NULL);
    timer_init(&x->timer, on_timer);
    timer_init(&x->hedge, on_hedge);
    coalesce_init(&x->text, &run->env->coalesce);
    run->exchange = x;
    return x;
}

static void cancel(struct exchange *x, struct model_call *call)
{
    bool *is_out = call == &x->rival ? &x->is_rival_out : &x->is_first_out;
    if (*is_out)
        model_cancel(x->run->env->model, call);
    *is_out = false;
}

void exchange_stop(struct exchange *x)
{
    struct loop *loop = &x->run->env->sched->loop;
    cancel(x, &x->run->model_call);
    cancel(x, &x->rival);
    loop_timer_stop(loop, &x->timer);
    loop_timer_stop(loop, &x->hedge);
    coalesce_begin(&x->text);
    x->held = EXCHANGE_HELD_NONE;
}

void exchange_close(struct exchange *x)
{
    struct run *run = x->run;
    coalesce_free(&x->text);
    if (x->piece != NULL)
        pool_free(&run->env->pool, x->piece, x->piece_capacity);
    run->exchange = NULL;
    pool_free(&run->env->pool, x, x->capacity);
}

/* --- the calls --- */

/* False when the run has failed for want of memory. */
static bool submit(struct exchange *x, struct model_call *call, uint64_t now_ns)
{
    struct run *run = x->run;
    size_t size = 0;
    if (!run_compose_request(run, &run->request_digest, &size)) {
        run_fail(run, OUTCOME_FAILED, "no memory to compose a request", now_ns);
        return false;
    }
    /* Which of all calls for this reply: draws of their own, and those of a plain call for the
     * first. */
    call->attempt = 2u * run->agent.retries + (call == &x->rival);
    *(call == &x->rival ? &x->is_rival_out : &x->is_first_out) = true;
    run->env->model_calls++;
    model_submit(run->env->model, call, run->env->scratch, size, now_ns);
    return true;
}

static void start_try(struct exchange *x, uint64_t now_ns)
{
    const struct exchange_rules *rules = &x->run->env->shape->exchange;
    struct loop *loop = &x->run->env->sched->loop;
    x->answering = NULL;
    x->pieces = 0;
    x->token = 0;
    coalesce_begin(&x->text);
    if (!submit(x, &x->run->model_call, now_ns))
        return;
    if (rules->timeout_ns > 0)
        loop_timer_start(loop, &x->timer, now_ns + rules->timeout_ns);
    if (rules->hedge_ns > 0)
        loop_timer_start(loop, &x->hedge, now_ns + rules->hedge_ns);
}

static uint64_t backoff_ns(const struct run *run)
{
    unsigned doublings = run->agent.retries - 1u;
    uint64_t most_ns = EXCHANGE_BACKOFF_NS_MAX;
    if (doublings < 32 && EXCHANGE_BACKOFF_NS << doublings < most_ns)
        most_ns = EXCHANGE_BACKOFF_NS << doublings;
    uint64_t index = (uint64_t)run->agent.turns << 8 | run->agent.retries;
    struct prng p = prng_stream(run->env->shape->seed, run_number(run), PRNG_BACKOFF, index);
    return prng_below(&p, most_ns);
}

void exchange_ask(struct run *run, uint64_t now_ns)
{
    struct exchange *x = run->exchange != NULL ? run->exchange : open_exchange(run);
    if (x == NULL)
        run_fail(run, OUTCOME_FAILED, "no memory for a model call", now_ns);
    else if (run->agent.retries > 0)
        loop_timer_start(&run->env->sched->loop, &x->timer, now_ns + backoff_ns(run));
    else
        start_try(x, now_ns);
}

/* The back-off is over; or a try has taken too long. */
static void on_timer(struct timer *timer, uint64_t now_ns)
{
    static const char reason[] = "the model has not answered within -model-timeout";
    const struct model_event error = {
        .kind = MODEL_ERROR, .bytes = reason, .size = sizeof(reason) - 1, .may_retry = true};
    struct exchange *x = container_of(timer, struct exchange, timer);
    if (!x->is_first_out && !x->is_rival_out) {
        x->run->time.backoff_ns += now_ns - x->run->since_ns;
        x->run->since_ns = now_ns;
        start_try(x, now_ns);
        return;
    }
    x->run->env->model_count.timeouts++;
    fail_try(x, &error, now_ns);
}

static void on_hedge(struct timer *timer, uint64_t now_ns)
{
    struct exchange *x = container_of(timer, struct exchange, hedge);
    x->run->env->model_count.hedges++;
    (void)submit(x, &x->rival, now_ns);
}

/* --- what is heard --- */

/* Room for a piece of that size, in a block that is kept for the next. */
static bool reserve_piece(struct exchange *x, size_t bytes)
{
    struct pool *pool = &x->run->env->pool;
    size_t capacity = 0;
    if (bytes <= x->piece_capacity)
        return true;
    char *block = pool_alloc(pool, bytes, &capacity);
    if (block == NULL)
        return false;
    if (x->piece != NULL)
        pool_free(pool, x->piece, x->piece_capacity);
    x->piece = block;
    x->piece_capacity = (uint32_t)capacity;
    return true;
}

bool exchange_take_delta(struct exchange *x, struct json_span *text)
{
    const char *bytes = NULL;
    if (x->piece_bytes == 0) { /* else it is composed again */
        size_t size = coalesce_take(&x->text, &bytes);
        if (!reserve_piece(x, size))
            return false;
        memcpy(x->piece, bytes, size);
        x->piece_bytes = (uint32_t)size;
    }
    *text = (struct json_span){.bytes = x->piece, .size = x->piece_bytes};
    return true;
}

void exchange_keep_delta(struct exchange *x)
{
    x->pieces++;
    x->piece_bytes = 0;
    x->run->env->model_count.deltas++;
}

static bool has_delta(const struct exchange *x, uint64_t now_ns)
{
    switch (x->run->env->shape->exchange.stream_journal) {
    case STREAM_JOURNAL_NONE:
        return false;
    case STREAM_JOURNAL_TOKEN:
        return coalesce_pending_bytes(&x->text) > 0;
    case STREAM_JOURNAL_COALESCED:
        return coalesce_is_due(&x->text, now_ns);
    }
    return false;
}

static void record_delta(struct exchange *x, uint64_t now_ns)
{
    if (x->run->agent.is_recording || !has_delta(x, now_ns))
        return;
    x->appended_ns = now_ns;
    run_advance(x->run, (struct agent_event){AGENT_STREAMED, 0}, now_ns);
}

static void on_text_due(struct coalesce *text, uint64_t now_ns)
{
    record_delta(container_of(text, struct exchange, text), now_ns);
}

/* The other call is not needed any more: its reply would be discarded. */
static void win(struct exchange *x, struct model_call *call)
{
    struct model_count *count = &x->run->env->model_count;
    struct model_call *other = call == &x->rival ? &x->run->model_call : &x->rival;
    loop_timer_stop(&x->run->env->sched->loop, &x->hedge);
    x->answering = call;
    count->hedge_wins += call == &x->rival;
    count->discarded += call == &x->rival ? x->is_first_out : x->is_rival_out;
    cancel(x, other);
}

static void hear_end(struct exchange *x, const struct model_event *event, uint64_t now_ns)
{
    struct run *run = x->run;
    run->model_call.prompt_tokens = x->answering->prompt_tokens;
    coalesce_begin(&x->text);
    run_hear(run, event, now_ns);
}

static void hear_text(struct exchange *x, const struct model_event *event, uint64_t now_ns)
{
    struct run *run = x->run;
    run_hear(run, event, now_ns);
    if (run->env->shape->exchange.stream_journal == STREAM_JOURNAL_NONE || event->size == 0)
        return;
    const struct coalesce_delta delta = {++x->token, event->bytes, event->size, false};
    if (coalesce_push(&x->text, &delta, now_ns) < 0 && run->reply.error == 0)
        run->reply.error = -ENOMEM;
    record_delta(x, now_ns);
}

/* The model is done; the run waits for the journal now. */
static void hold_reply(struct exchange *x, const struct model_event *event, uint64_t now_ns)
{
    struct run *run = x->run;
    run->time.model_ns += event->due_ns > run->since_ns ? event->due_ns - run->since_ns : 0;
    run->since_ns = now_ns;
    x->held = EXCHANGE_HELD_REPLY;
    x->reply = *event;
}

static void hear(struct exchange *x, struct model_call *call, const struct model_event *event,
                 uint64_t now_ns)
{
    bool is_over = event->kind == MODEL_FINISH || event->kind == MODEL_ERROR;
    if (is_over)
        *(call == &x->rival ? &x->is_rival_out : &x->is_first_out) = false;
    if (event->kind == MODEL_ERROR) {
        if (!x->is_first_out && !x->is_rival_out) /* else the other may yet answer */
            fail_try(x, event, now_ns);
        return;
    }
    if (x->answering == NULL)
        win(x, call);
    if (event->kind == MODEL_TEXT) {
        hear_text(x, event, now_ns);
        return;
    }
    if (event->kind != MODEL_FINISH) {
        run_hear(x->run, event, now_ns);
        return;
    }
    loop_timer_stop(&x->run->env->sched->loop, &x->timer);
    if (x->run->agent.is_recording)
        hold_reply(x, event, now_ns);
    else
        hear_end(x, event, now_ns);
}

static void on_first(struct model_call *call, const struct model_event *event, uint64_t now_ns)
{
    hear(container_of(call, struct run, model_call)->exchange, call, event, now_ns);
}

static void on_rival(struct model_call *call, const struct model_event *event, uint64_t now_ns)
{
    hear(container_of(call, struct exchange, rival), call, event, now_ns);
}

/* --- failure --- */

/* No record is on its way. */
static void conclude_failure(struct exchange *x, uint64_t now_ns)
{
    struct run *run = x->run;
    reply_discard(&run->reply, &run->history);
    if (!x->may_retry || run->agent.retries >= run->env->shape->exchange.retries) {
        run_fail(run, OUTCOME_FAILED, x->failure, now_ns);
        return;
    }
    run->has_retried = true;
    run->env->model_count.retries++;
    run_advance(run, (struct agent_event){AGENT_RETRIED, 0}, now_ns);
}

static void fail_try(struct exchange *x, const struct model_event *error, uint64_t now_ns)
{
    struct run *run = x->run;
    exchange_stop(x);
    run->env->model_count.failures++;
    (void)snprintf(x->failure, sizeof(x->failure), "%.*s", (int)error->size, error->bytes);
    x->may_retry = error->may_retry;
    run->time.model_ns += now_ns - run->since_ns;
    run->since_ns = now_ns;
    if (run->agent.is_recording)
        x->held = EXCHANGE_HELD_FAILURE;
    else
        conclude_failure(x, now_ns);
}

void exchange_go_on(struct exchange *x, uint64_t now_ns)
{
    enum exchange_held held = (enum exchange_held)x->held;
    x->held = EXCHANGE_HELD_NONE;
    switch (held) {
    case EXCHANGE_HELD_NONE:
        record_delta(x, now_ns);
        return;
    case EXCHANGE_HELD_REPLY:
        hear_end(x, &x->reply, now_ns);
        return;
    case EXCHANGE_HELD_FAILURE:
        conclude_failure(x, now_ns);
        return;
    }
}
