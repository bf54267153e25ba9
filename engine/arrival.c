/* arrival: see arrival.h. */
#include "engine/arrival.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/units.h"

enum { STAGE_TEXT_BYTES = 64 };

const char *arrival_process_name(enum arrival_process process)
{
    switch (process) {
    case ARRIVAL_CONSTANT:
        return "constant";
    case ARRIVAL_POISSON:
        return "poisson";
    }
    return "invalid";
}

/* --- the text --- */

static int parse_stage(struct arrival_stage *stage, const char *text, struct errmsg *why)
{
    char duration[STAGE_TEXT_BYTES];
    struct errmsg reason;
    const char *colon = strchr(text, ':');
    if (colon == NULL)
        return errmsg_set(why, -EINVAL, "must be stages such as 30s:500/s,1m:2000/s, got \"%s\"",
                          text);
    (void)snprintf(duration, sizeof(duration), "%.*s", (int)(colon - text), text);
    int error = units_parse_duration(duration, &stage->duration_ns, &reason);
    if (error == 0)
        error = units_parse_rate(colon + 1, &stage->rate, &reason);
    if (error != 0)
        return errmsg_set(why, error, "stage \"%s\": %s", text, reason.text);
    if (stage->duration_ns == 0)
        return errmsg_set(why, -EINVAL, "stage \"%s\": must be longer than 0", text);
    return 0;
}

int arrival_parse_stages(struct arrival_plan *plan, const char *text, struct errmsg *why)
{
    char part[STAGE_TEXT_BYTES];
    uint32_t count = 0;
    for (const char *at = text;; at++) {
        size_t bytes = strcspn(at, ",");
        if (bytes >= sizeof(part))
            return errmsg_set(why, -EINVAL, "has a stage that is none: \"%.60s…\"", at);
        if (count == ARRIVAL_STAGES_MAX)
            return errmsg_set(why, -ERANGE, "must be at most %d stages", ARRIVAL_STAGES_MAX);
        (void)snprintf(part, sizeof(part), "%.*s", (int)bytes, at);
        int error = parse_stage(&plan->stages[count++], part, why);
        if (error != 0)
            return error;
        at += bytes;
        if (*at == '\0')
            break;
    }
    plan->stage_count = count;
    return 0;
}

uint64_t arrival_plan_duration_ns(const struct arrival_plan *plan)
{
    uint64_t duration_ns = 0;
    for (uint32_t i = 0; i < plan->stage_count; i++)
        duration_ns += plan->stages[i].duration_ns;
    return plan->stage_count == 0 ? UINT64_MAX : duration_ns;
}

/* --- the schedule --- */

double arrival_plan_expected(const struct arrival_plan *plan, uint64_t duration_ns)
{
    double left_ns = (double)duration_ns;
    double from = plan->rate / NS_PER_S;
    double expected = plan->stage_count == 0 ? from * left_ns : 0;
    for (uint32_t i = 0; i < plan->stage_count && left_ns > 0; i++) {
        double stage_ns = (double)plan->stages[i].duration_ns;
        double ns = fmin(left_ns, stage_ns);
        double to = from + (plan->stages[i].rate / NS_PER_S - from) * ns / stage_ns;
        expected += (from + to) / 2 * ns;
        from = to;
        left_ns -= ns;
    }
    return expected;
}

/* Expected arrivals between one and the next. */
static double draw_gap(struct arrivals *a)
{
    return a->plan->process == ARRIVAL_POISSON ? -log(prng_unit(&a->draws)) : 1;
}

static void pass(struct arrivals *a, uint64_t count)
{
    if (a->plan->process == ARRIVAL_CONSTANT)
        a->due += (double)count;
    else
        for (uint64_t i = 0; i < count; i++)
            a->due += draw_gap(a);
    a->number += count;
}

void arrivals_init(struct arrivals *a, const struct arrival_plan *plan, uint64_t first,
                   uint64_t step)
{
    *a = (struct arrivals){
        .plan = plan, .draws = prng_stream(plan->seed, 0, PRNG_ARRIVAL, 0), .step = step};
    if (plan->process == ARRIVAL_POISSON)
        a->due = draw_gap(a);
    pass(a, first);
}

/* When so many arrivals are expected since a rate of `from` began to go to `to` within `ns`: the
 * root of from·t + (to − from)·t²/(2·ns), in the form that loses no digits. */
static double invert(double expected, double from, double to, double ns)
{
    double root = sqrt(from * from + 2 * (to - from) / ns * expected);
    return expected > 0 ? 2 * expected / (from + root) : 0;
}

/* The time of the next one within the stages; false beyond the last. */
static bool find_in_stages(struct arrivals *a, uint64_t *at_ns)
{
    const struct arrival_plan *plan = a->plan;
    for (; a->stage < plan->stage_count; a->stage++) {
        const struct arrival_stage *stage = &plan->stages[a->stage];
        double ns = (double)stage->duration_ns;
        double from = (a->stage == 0 ? plan->rate : stage[-1].rate) / NS_PER_S;
        double to = stage->rate / NS_PER_S;
        double expected = (from + to) / 2 * ns;
        if (a->due < a->before + expected) {
            *at_ns = (uint64_t)(a->stage_ns + invert(a->due - a->before, from, to, ns));
            return true;
        }
        a->before += expected;
        a->stage_ns += ns;
    }
    return false;
}

bool arrivals_next(struct arrivals *a, uint64_t *number, uint64_t *at_ns)
{
    if (a->plan->stage_count == 0)
        *at_ns = (uint64_t)(a->due * NS_PER_S / a->plan->rate); /* exact where it can be */
    else if (!find_in_stages(a, at_ns))
        return false;
    *number = a->number;
    pass(a, a->step);
    return true;
}
