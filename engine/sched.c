/*
 * sched: see sched.h.
 */
#include "engine/sched.h"

/* What is made ready meanwhile waits for the next turn, so that a task which goes on and on does
 * not fill this one. */
static void step_ready(struct sched *s)
{
    const struct task *last = s->last;
    struct task *task = NULL;
    for (unsigned i = 0; i < SCHED_TURN_MAX && s->first != NULL && task != last; i++) {
        task = s->first;
        s->first = task->next;
        if (s->first != NULL)
            __builtin_prefetch(s->first);
        task->kind->step(task, loop_clock_ns(&s->loop));
    }
}

/* The longest that anything served in this turn has waited: since its deadline, or for the turn. */
static void record_lag(struct sched *s)
{
    uint64_t turn_ns = loop_clock_ns(&s->loop) - s->loop.now_ns;
    hist_record(s->lag, turn_ns > s->loop.late_ns ? turn_ns : s->loop.late_ns);
}

int sched_run(struct sched *s)
{
    while (!s->is_over(s)) {
        bool is_busy = s->first != NULL || loop_has_due(&s->loop);
        int error = loop_poll(&s->loop, is_busy ? 0 : UINT64_MAX, SCHED_TURN_MAX);
        if (error != 0)
            return error;
        step_ready(s);
        while (s->settle(s))
            ;
        if (s->lag != NULL)
            record_lag(s);
    }
    return 0;
}
