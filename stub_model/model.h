/*
 * model: what answers a request with a stream of events, as a provider's client library would hand
 * them up.
 *
 * One model a scheduler thread. model_submit() takes the request's bytes (read before it returns,
 * not kept); events follow on the same thread from later turns of the loop, never from inside the
 * call: MODEL_TEXT and MODEL_TOOL_CALL / MODEL_ARGUMENTS pieces in order, then exactly one
 * MODEL_FINISH or MODEL_ERROR, the last. Ownership: the call is embedded in the caller's struct and
 * belongs to the model from model_submit() until its last event or model_cancel(). Where replies
 * are streamed in tokens, a call may be cancelled, and submitted again, from its own MODEL_TEXT
 * event; its memory stays until the callback returns. Event bytes are valid during the callback.
 *
 * A new model is one file and one row in model.c.
 */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/dist.h"
#include "engine/base/err.h"
#include "engine/base/wheel.h"

struct loop;
struct model;
struct hist;

enum model_event_kind {
    MODEL_TEXT,      /* a piece of the reply's text, UTF-8, not escaped */
    MODEL_TOOL_CALL, /* a tool call begins: call_index and the tool's name in `bytes` */
    MODEL_ARGUMENTS, /* a piece of that call's arguments, as JSON text */
    MODEL_FINISH,    /* the reply is complete: finish, completion_tokens; call->prompt_tokens */
    MODEL_ERROR,     /* the request was refused or failed: the reason in `bytes` */
};

enum model_finish { MODEL_FINISH_STOP, MODEL_FINISH_TOOL_CALLS };

struct model_event {
    enum model_event_kind kind;
    enum model_finish finish;
    const char *bytes;
    size_t size;
    uint64_t due_ns;     /* when the model had it ready; 0: at once */
    uint32_t call_index; /* from 0 */
    uint32_t completion_tokens;
    bool may_retry; /* of MODEL_ERROR: there is nothing wrong with the request */
};

struct model_call {
    struct timer timer; /* the model's own, as are the next three */
    const struct model *model;
    uint32_t turn;
    uint32_t token;         /* of a stream: the next one */
    uint32_t prompt_tokens; /* the model's answer, from the reply's end until the next submit */
    uint32_t attempt;       /* the caller's: which try of this request, from 0 */
    const char *refusal;    /* the model's own: why it refused the request, constant, or NULL */
    uint64_t run;           /* the caller's: what the reply is a function of, with seed and turn */
    void (*on_event)(struct model_call *call, const struct model_event *event, uint64_t now_ns);
};
static_assert(sizeof(struct model_call) == 80, "embedded in every run");

struct model_config {
    const char *name; /* the row of the table: "stub" */
    uint64_t seed;
    struct dist latency; /* shared, read-only */
    uint32_t turns; /* the last turn answers with the final text, those before with tool calls */
    uint32_t tools; /* tool calls a turn */
    const struct dist *reply_bytes; /* of each turn's text; NULL: the model's own short texts */
    uint32_t tokens; /* of each turn's text, streamed one by one; 0: the whole reply comes at once,
                        else reply_bytes plays no part */
    uint64_t token_interval_ns; /* from token to token; the first comes after the latency */
    double error_rate;          /* 0 to 1: the share of attempts that fail, after their latency */
    struct hist *overshoot; /* delivered − (submitted + sampled latency), may be NULL; written by
                               the model's thread */
    struct hist *token_lag; /* delivered − due of each token that has a due time; as above */
};

struct model_ops {
    const char *name;
    int (*open)(struct model *model, struct errmsg *why);
    void (*close)(struct model *model);
    void (*submit)(struct model *model, struct model_call *call, const char *request, size_t size,
                   uint64_t now_ns);
    void (*cancel)(struct model *model, struct model_call *call);
};

struct model {
    const struct model_ops *ops;
    struct loop *loop;
    struct model_config config;
    void *impl;
};

int model_open(struct model *model, const struct model_config *config, struct loop *loop,
               struct errmsg *why);
void model_close(struct model *model);

static inline void model_submit(struct model *model, struct model_call *call, const char *request,
                                size_t size, uint64_t now_ns)
{
    model->ops->submit(model, call, request, size, now_ns);
}

/* No further event of this call comes. */
static inline void model_cancel(struct model *model, struct model_call *call)
{
    model->ops->cancel(model, call);
}

extern const struct model_ops model_stub_ops;

#endif
