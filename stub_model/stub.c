/*
 * stub: a model that is a pure function of (seed, run, turn): the same call gets the same answer
 * after the same simulated latency, whatever else is going on. It keeps nothing but what is in the
 * caller's model_call.
 *
 * What it answers is decided from the messages of the request, as a provider decides: how many
 * assistant messages there are is the turn; until the last turn it asks for tool calls, then it
 * answers with the final text. A request that is not one is refused. The reply streams as a
 * provider's would, in pieces: of a few words, or of up to PIECE_BYTES where it is told how long
 * its texts are to be.
 *
 * Told how many tokens its texts have, it sends them one by one. Token i is due at first + i *
 * interval: the timer's deadline moves by whole intervals from the first token's, whenever it
 * fired, so that lateness does not add up. A turn of the loop that comes late delivers all tokens
 * that are due by then. What a token says depends on its number, not on when it is sent.
 *
 * Told to fail, it draws whether an attempt does when it is submitted. The attempt's number is part
 * of that draw and of the latency's, so that another try fares as another call would; attempt 0
 * draws what a call without attempts does.
 */
#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/hist.h"
#include "engine/base/json_read.h"
#include "engine/base/json_write.h"
#include "engine/base/prng.h"
#include "engine/base/prose.h"
#include "engine/loop.h"
#include "stub_model/model.h"
#include "stub_model/token.h"

enum {
    BYTES_PER_TOKEN = 4, /* the usual rule of thumb for English */
    ARGUMENTS_BYTES_MAX = 64,
    PIECE_BYTES = 4096,
    ATTEMPT_SHIFT = 32, /* beside the turn, in the index of a stream of draws */
};

/* No token has this number: what a cancelled stream would go on with. */
#define TOKEN_NONE UINT32_MAX

#define TOOL_NAME "noop"

static const char overloaded[] = "the model is overloaded";

/* A deadline that is over: without latency the reply comes in the next turn, not at the end of the
 * wheel's tick. */
#define AT_ONCE UINT64_C(0)

/* The final text: an opening, what was found, a closing; each drawn. */
static const char *const openings[] = {
    "Good news about your order. ",
    "Thank you for your patience. ",
    "I have looked into this for you. ",
    "Here is what I found. ",
};
static const char *const findings[] = {
    "It left our warehouse this morning ",
    "The carrier picked it up yesterday ",
    "It has been shipped with priority ",
    "It is on its way to your address ",
};
static const char *const closings[] = {
    "and should arrive within two working days. ",
    "and you can expect it by Friday. ",
    "and the tracking page shows every stop. ",
    "and no action is needed on your side. ",
};
#define LAST_WORDS "Write to us again if it does not."

enum { CHOICES = sizeof(openings) / sizeof(openings[0]) };

struct request {
    uint32_t assistant_messages;
    bool ends_in_assistant;
    bool has_messages;
};

static void read_message(struct json_reader *r, struct request *request)
{
    struct json_span key;
    struct json_span role = {0};
    (void)json_read_object(r);
    while (json_read_key(r, &key)) {
        if (json_span_is(&key, "role"))
            (void)json_read_string(r, &role);
        else
            (void)json_skip_value(r, NULL);
    }
    bool is_assistant = json_span_is(&role, "assistant");
    if (!is_assistant && !json_span_is(&role, "user") && !json_span_is(&role, "tool") &&
        !json_span_is(&role, "system"))
        (void)json_fail(r, "a message of unknown role");
    request->assistant_messages += is_assistant;
    request->ends_in_assistant = is_assistant;
}

/* NULL, or why the request is refused. */
static const char *read_request(const char *bytes, size_t size, struct request *request)
{
    struct json_reader r = json_reader_on(bytes, size);
    struct json_span key;
    *request = (struct request){0};
    (void)json_read_object(&r);
    while (json_read_key(&r, &key)) {
        if (!json_span_is(&key, "messages")) {
            (void)json_skip_value(&r, NULL);
            continue;
        }
        (void)json_read_array(&r);
        while (json_read_element(&r)) {
            read_message(&r, request);
            request->has_messages = true;
        }
    }
    if (json_read_end(&r) && (!request->has_messages || request->ends_in_assistant))
        (void)json_fail(&r, "no message to answer");
    return r.error;
}

static void emit(struct model_call *call, enum model_event_kind kind, uint32_t index,
                 const char *bytes, size_t size, uint64_t now_ns)
{
    struct model_event event = {
        .kind = kind,
        .due_ns = call->timer.deadline_ns,
        .call_index = index,
        .bytes = bytes,
        .size = size,
    };
    call->on_event(call, &event, now_ns);
}

static uint32_t tokens_of_bytes(size_t bytes)
{
    return (uint32_t)((bytes + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN);
}

static void finish(struct model_call *call, enum model_finish reason, uint32_t completion_tokens,
                   uint64_t now_ns)
{
    struct model_event event = {
        .kind = MODEL_FINISH,
        .finish = reason,
        .due_ns = call->timer.deadline_ns,
        .completion_tokens = completion_tokens,
    };
    call->on_event(call, &event, now_ns);
}

/* A text as long as was asked for; each piece of it is whole sentences. Returns its size. */
static __attribute__((cold)) size_t emit_prose(const struct model *model, struct model_call *call,
                                               uint64_t now_ns)
{
    char piece[PIECE_BYTES];
    uint64_t seed = model->config.seed;
    size_t total = prose_draw_bytes(model->config.reply_bytes,
                                    prng_stream(seed, call->run, PRNG_REPLY_BYTES, call->turn));
    struct prng p = prng_stream(seed, call->run, PRNG_MODEL_TEXT, call->turn);
    size_t left = total;
    do { /* at least one piece, since a reply without text has an empty one */
        size_t size = left < PIECE_BYTES ? left : PIECE_BYTES;
        left -= size;
        prose_write(&p, piece, left > 0 ? size - 1 : size);
        if (left > 0)
            piece[size - 1] = ' ';
        emit(call, MODEL_TEXT, 0, piece, size, now_ns);
    } while (left > 0);
    return total;
}

/* What is said before tool calls. Returns its size. */
static size_t emit_preamble(const struct model *model, struct model_call *call, uint64_t now_ns)
{
    static const char text[] = "Let me look that up.";
    const size_t text_bytes = sizeof(text) - 1;
    if (model->config.reply_bytes != NULL)
        return emit_prose(model, call, now_ns);
    emit(call, MODEL_TEXT, 0, text, 6, now_ns);
    emit(call, MODEL_TEXT, 0, text + 6, text_bytes - 6, now_ns);
    return text_bytes;
}

/* Returns the size of all arguments. */
static size_t emit_tool_calls(const struct model *model, struct model_call *call, uint64_t now_ns)
{
    char arguments[ARGUMENTS_BYTES_MAX];
    struct json_writer w = json_writer_on(arguments, sizeof(arguments));
    json_write_literal(&w, "{\"order\":");
    size_t head = (size_t)(w.at - arguments);
    json_write_u64(&w, call->run);
    json_write_literal(&w, "}");
    size_t size = (size_t)(w.at - arguments);

    for (uint32_t i = 0; i < model->config.tools; i++) {
        emit(call, MODEL_TOOL_CALL, i, TOOL_NAME, sizeof(TOOL_NAME) - 1, now_ns);
        emit(call, MODEL_ARGUMENTS, i, arguments, head, now_ns);
        emit(call, MODEL_ARGUMENTS, i, arguments + head, size - head, now_ns);
    }
    return model->config.tools * size;
}

static void reply_with_tool_calls(const struct model *model, struct model_call *call,
                                  uint64_t now_ns)
{
    size_t bytes = emit_preamble(model, call, now_ns);
    bytes += emit_tool_calls(model, call, now_ns);
    finish(call, MODEL_FINISH_TOOL_CALLS, tokens_of_bytes(bytes), now_ns);
}

static void reply_with_text(const struct model *model, struct model_call *call, uint64_t now_ns)
{
    if (model->config.reply_bytes != NULL) {
        size_t total_bytes = emit_prose(model, call, now_ns);
        finish(call, MODEL_FINISH_STOP, tokens_of_bytes(total_bytes), now_ns);
        return;
    }
    struct prng p = prng_stream(model->config.seed, call->run, PRNG_MODEL_TEXT, call->turn);
    const char *const pieces[] = {
        openings[prng_below(&p, CHOICES)],
        findings[prng_below(&p, CHOICES)],
        closings[prng_below(&p, CHOICES)],
        LAST_WORDS,
    };
    size_t total = 0;
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        size_t size = strlen(pieces[i]);
        emit(call, MODEL_TEXT, 0, pieces[i], size, now_ns);
        total += size;
    }
    finish(call, MODEL_FINISH_STOP, tokens_of_bytes(total), now_ns);
}

static bool asks_for_tools(const struct model *model, const struct model_call *call)
{
    return call->turn + 1 < model->config.turns && model->config.tools > 0;
}

/* One token; false when the call was given up, or made anew, from inside the event. */
static bool emit_token(const struct model *model, struct model_call *call, uint64_t now_ns)
{
    char text[TOKEN_BYTES_MAX];
    uint32_t index = call->token++;
    bool is_last = call->token == model->config.tokens;
    struct prng p = prng_stream(model->config.seed, call->run, PRNG_MODEL_TOKEN,
                                token_index(call->turn, index));
    size_t size = token_write(text, &p, is_last);
    uint64_t due_ns = call->timer.deadline_ns;
    if (model->config.token_lag != NULL && due_ns != AT_ONCE)
        hist_record(model->config.token_lag, now_ns - due_ns);
    emit(call, MODEL_TEXT, 0, text, size, now_ns);
    return call->token == index + 1;
}

/* Delivers what is due by now, and waits for the next token or ends the reply. */
static void stream(struct timer *timer, uint64_t turn_ns)
{
    struct model_call *call = container_of(timer, struct model_call, timer);
    const struct model *model = call->model;
    const uint32_t tokens = model->config.tokens;
    /* The turn has served others since it began, and that is lateness, too. */
    uint64_t now_ns = loop_clock_ns(model->loop);
    assert(now_ns >= turn_ns);
    while (emit_token(model, call, now_ns)) {
        if (call->token == tokens) {
            bool is_call = asks_for_tools(model, call);
            size_t bytes = is_call ? emit_tool_calls(model, call, now_ns) : 0;
            finish(call, is_call ? MODEL_FINISH_TOOL_CALLS : MODEL_FINISH_STOP,
                   tokens + tokens_of_bytes(bytes), now_ns);
            return;
        }
        uint64_t next_ns = timer->deadline_ns + model->config.token_interval_ns;
        if (next_ns > now_ns) {
            loop_timer_start(model->loop, timer, next_ns);
            return;
        }
        timer->deadline_ns = next_ns;
    }
}

static void refuse(struct model_call *call, uint64_t now_ns)
{
    struct model_event event = {
        .kind = MODEL_ERROR,
        .due_ns = call->timer.deadline_ns,
        .bytes = call->refusal,
        .size = strlen(call->refusal),
        .may_retry = call->refusal == overloaded,
    };
    call->on_event(call, &event, now_ns);
}

static void reply(struct timer *timer, uint64_t now_ns)
{
    struct model_call *call = container_of(timer, struct model_call, timer);
    const struct model *model = call->model;
    if (model->config.overshoot != NULL && timer->deadline_ns != AT_ONCE)
        hist_record(model->config.overshoot, now_ns - timer->deadline_ns);
    if (call->refusal != NULL) {
        refuse(call, now_ns);
    } else if (model->config.tokens > 0) {
        timer->fire = stream;
        stream(timer, now_ns);
    } else if (asks_for_tools(model, call)) {
        reply_with_tool_calls(model, call, now_ns);
    } else {
        reply_with_text(model, call, now_ns);
    }
}

static int stub_open(struct model *model, struct errmsg *why)
{
    const struct model_config *config = &model->config;
    (void)why;
    assert(config->error_rate >= 0 && config->error_rate <= 1);
    assert(config->tokens < TOKEN_NONE);
    return 0;
}

static void stub_close(struct model *model)
{
    (void)model;
}

/* What is drawn anew for each attempt. */
static struct prng attempt_stream(const struct model *model, const struct model_call *call,
                                  enum prng_purpose purpose)
{
    uint64_t index = ((uint64_t)call->attempt << ATTEMPT_SHIFT) + call->turn;
    return prng_stream(model->config.seed, call->run, purpose, index);
}

static bool draw_failure(const struct model *model, const struct model_call *call)
{
    struct prng p = attempt_stream(model, call, PRNG_MODEL_ERROR);
    return prng_unit(&p) < model->config.error_rate;
}

static void stub_submit(struct model *model, struct model_call *call, const char *bytes,
                        size_t size, uint64_t now_ns)
{
    struct request request;
    call->refusal = read_request(bytes, size, &request);
    call->turn = request.assistant_messages;
    call->prompt_tokens = tokens_of_bytes(size);
    call->model = model;
    call->token = 0;
    if (call->refusal == NULL && model->config.error_rate > 0 && draw_failure(model, call))
        call->refusal = overloaded;
    struct prng p = attempt_stream(model, call, PRNG_MODEL_LATENCY);
    uint64_t due_ns = now_ns + dist_sample(&model->config.latency, &p);
    /* The times of a stream count from its first token's, so that one must be known. */
    bool is_paced = model->config.tokens > 0 && model->config.token_interval_ns > 0;
    bool is_at_once = due_ns == now_ns && !is_paced;
    timer_init(&call->timer, reply);
    loop_timer_start(model->loop, &call->timer, is_at_once ? AT_ONCE : due_ns);
}

static void stub_cancel(struct model *model, struct model_call *call)
{
    call->token = TOKEN_NONE;
    loop_timer_stop(model->loop, &call->timer);
}

const struct model_ops model_stub_ops = {
    .name = "stub",
    .open = stub_open,
    .close = stub_close,
    .submit = stub_submit,
    .cancel = stub_cancel,
};
