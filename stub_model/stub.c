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
 */
#include <stdbool.h>
#include <string.h>

#include "engine/base/hist.h"
#include "engine/base/json_read.h"
#include "engine/base/json_write.h"
#include "engine/base/prng.h"
#include "engine/base/prose.h"
#include "engine/loop.h"
#include "stub_model/model.h"

enum {
    BYTES_PER_TOKEN = 4, /* the usual rule of thumb for English */
    ARGUMENTS_BYTES_MAX = 64,
    PIECE_BYTES = 4096,
};

#define TOOL_NAME "noop"

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

static void finish(struct model_call *call, enum model_finish reason, size_t completion_bytes,
                   uint64_t now_ns)
{
    struct model_event event = {
        .kind = MODEL_FINISH,
        .finish = reason,
        .due_ns = call->timer.deadline_ns,
        .completion_tokens = (uint32_t)((completion_bytes + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN),
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

static void reply_with_tool_calls(const struct model *model, struct model_call *call,
                                  uint64_t now_ns)
{
    char arguments[ARGUMENTS_BYTES_MAX];
    struct json_writer w = json_writer_on(arguments, sizeof(arguments));
    json_write_literal(&w, "{\"order\":");
    size_t head = (size_t)(w.at - arguments);
    json_write_u64(&w, call->run);
    json_write_literal(&w, "}");
    size_t size = (size_t)(w.at - arguments);

    size_t text_bytes = emit_preamble(model, call, now_ns);
    for (uint32_t i = 0; i < model->config.tools; i++) {
        emit(call, MODEL_TOOL_CALL, i, TOOL_NAME, sizeof(TOOL_NAME) - 1, now_ns);
        emit(call, MODEL_ARGUMENTS, i, arguments, head, now_ns);
        emit(call, MODEL_ARGUMENTS, i, arguments + head, size - head, now_ns);
    }
    finish(call, MODEL_FINISH_TOOL_CALLS, text_bytes + model->config.tools * size, now_ns);
}

static void reply_with_text(const struct model *model, struct model_call *call, uint64_t now_ns)
{
    if (model->config.reply_bytes != NULL) {
        size_t total_bytes = emit_prose(model, call, now_ns);
        finish(call, MODEL_FINISH_STOP, total_bytes, now_ns);
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
    finish(call, MODEL_FINISH_STOP, total, now_ns);
}

static void reply(struct timer *timer, uint64_t now_ns)
{
    struct model_call *call = container_of(timer, struct model_call, timer);
    const struct model *model = call->model;
    if (model->config.overshoot != NULL && timer->deadline_ns != AT_ONCE)
        hist_record(model->config.overshoot, now_ns - timer->deadline_ns);
    if (call->refusal != NULL)
        emit(call, MODEL_ERROR, 0, call->refusal, strlen(call->refusal), now_ns);
    else if (call->turn + 1 < model->config.turns && model->config.tools > 0)
        reply_with_tool_calls(model, call, now_ns);
    else
        reply_with_text(model, call, now_ns);
}

static int stub_open(struct model *model, struct errmsg *why)
{
    (void)model;
    (void)why;
    return 0;
}

static void stub_close(struct model *model)
{
    (void)model;
}

static void stub_submit(struct model *model, struct model_call *call, const char *bytes,
                        size_t size, uint64_t now_ns)
{
    struct request request;
    call->refusal = read_request(bytes, size, &request);
    call->turn = request.assistant_messages;
    call->prompt_tokens = (uint32_t)((size + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN);
    call->model = model;
    struct prng p = prng_stream(model->config.seed, call->run, PRNG_MODEL_LATENCY, call->turn);
    uint64_t latency_ns = dist_sample(&model->config.latency, &p);
    timer_init(&call->timer, reply);
    loop_timer_start(model->loop, &call->timer, latency_ns > 0 ? now_ns + latency_ns : AT_ONCE);
}

static void stub_cancel(struct model *model, struct model_call *call)
{
    loop_timer_stop(model->loop, &call->timer);
}

const struct model_ops model_stub_ops = {
    .name = "stub",
    .open = stub_open,
    .close = stub_close,
    .submit = stub_submit,
    .cancel = stub_cancel,
};
