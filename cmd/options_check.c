/* options_check: what flags must be together, which no row of the table can tell. See options.h. */
#include <errno.h>

#include "cmd/options.h"
#include "journal/journal.h"

/* The schedule of an open loop. Stages last as long as they do. */
static int check_arrival(struct options *options, struct errmsg *why)
{
    struct campaign_config *campaign = &options->campaign;
    bool has_stages = campaign->arrival.stage_count > 0;
    campaign->arrival.seed = campaign->seed;
    if (has_stages && campaign->duration_ns > 0)
        return errmsg_set(why, -EINVAL, "-stages and -duration exclude each other");
    if (has_stages && campaign->runs == 0)
        campaign->duration_ns = arrival_plan_duration_ns(&campaign->arrival);
    if (campaign_is_open_loop(campaign) ||
        !options_is_given(options, OPTIONS_AT(campaign.arrival.process)))
        return 0;
    return errmsg_set(why, -EINVAL, "-arrival needs -rate or -stages");
}

int options_check_model(const struct options *options, struct errmsg *why)
{
    const struct campaign_config *campaign = &options->campaign;
    const struct campaign_model *model = &campaign->model;
    if (model->tokens > 0 && campaign_dist_if_given(&campaign->reply_bytes) != NULL)
        return errmsg_set(why, -EINVAL, "-tokens and -reply-bytes exclude each other");
    if (model->tokens == 0 && model->token_interval_ns > 0)
        return errmsg_set(why, -EINVAL, "-token-interval needs -tokens");
    if (model->tokens == 0 && model->rules.stream_journal != STREAM_JOURNAL_NONE)
        return errmsg_set(why, -EINVAL, "-stream-journal needs -tokens");
    if (model->rules.timeout_ns > 0 && model->rules.hedge_ns >= model->rules.timeout_ns)
        return errmsg_set(why, -EINVAL, "-hedge must be shorter than -model-timeout");
    return 0;
}

/* A warm-up is a part of the load. */
static int check_warmup(struct options *options, struct errmsg *why)
{
    struct campaign_config *campaign = &options->campaign;
    bool has_stages = campaign->arrival.stage_count > 0;
    bool is_given = options_is_given(options, OPTIONS_AT(campaign.warmup_ns));
    campaign->is_steady = options->steady_ratio > 0;
    if (campaign->is_steady && has_stages)
        return errmsg_set(why, -EINVAL, "-steady and -stages exclude each other");
    if (campaign->is_steady && !is_given)
        campaign->warmup_ns = OPTIONS_STEADY_WARMUP_NS;
    if (campaign->is_steady && campaign->warmup_ns < OPTIONS_STEADY_WARMUP_NS_MIN)
        return errmsg_set(why, -EINVAL, "-steady needs a -warmup of 200ms or more");
    if (has_stages && campaign->warmup_ns >= arrival_plan_duration_ns(&campaign->arrival))
        return errmsg_set(why, -EINVAL, "-warmup must be shorter than the -stages together");
    return 0;
}

/* What only new runs can be told wrongly. */
static int check_run(struct options *options, struct errmsg *why)
{
    struct campaign_config *campaign = &options->campaign;
    bool is_ledger = campaign->tool_effect == TOOL_EFFECT_LEDGER;
    if (campaign->duration_ns > 0 && campaign->runs > 0)
        return errmsg_set(why, -EINVAL, "-runs and -duration exclude each other");
    int error = check_arrival(options, why);
    if (error == 0)
        error = options_check_model(options, why);
    if (error == 0)
        error = check_warmup(options, why);
    if (error != 0)
        return error;
    if (campaign->duration_ns == 0 && campaign->runs == 0)
        campaign->runs = OPTIONS_RUNS_DEFAULT;
    if (options->is_slo_abort && options->slo_count == 0)
        return errmsg_set(why, -EINVAL, "-slo-abort needs -slo EXPR");
    if (options_is_given(options, OPTIONS_AT(slo_delay_ns)) && !options->is_slo_abort)
        return errmsg_set(why, -EINVAL, "-slo-delay needs -slo-abort");
    if (is_ledger && campaign->ledger_path == NULL)
        return errmsg_set(why, -EINVAL, "-tool-effect ledger needs -ledger FILE");
    if (!is_ledger && campaign->ledger_path != NULL)
        return errmsg_set(why, -EINVAL, "-ledger needs -tool-effect ledger");
    return 0;
}

/* A merge has no journal, and its configuration is that of what it merges. */
static int check_merge(const struct options *options, struct errmsg *why)
{
    if (options->operand_count < 2)
        return errmsg_set(why, -EINVAL, "bench merge needs two results or more, got %d",
                          options->operand_count);
    if (options->operand_count > OPTIONS_OPERANDS_MAX)
        return errmsg_set(why, -EINVAL, "bench merge takes at most %d results, got %d",
                          OPTIONS_OPERANDS_MAX, options->operand_count);
    return 0;
}

/* Without a "--" there is one of each side. */
static int check_compare(const struct options *options, struct errmsg *why)
{
    int base = options->operands_before;
    int head = options->operand_count - base;
    if (base < 0 && options->operand_count == 2)
        return 0;
    if (base < 0 || base == 0 || head == 0)
        return errmsg_set(why, -EINVAL,
                          "bench compare needs results of both sides: BASE.json… -- HEAD.json…");
    return 0;
}

/* What no single flag can tell. */
int options_check(struct options *options, struct errmsg *why)
{
    struct campaign_config *campaign = &options->campaign;
    struct errmsg reason = {.text = ""};
    options->is_progress_given = options_is_given(options, OPTIONS_AT(progress_ns));
    if (options->command == OPTIONS_OF_MERGE)
        return check_merge(options, why);
    if (options->command == OPTIONS_OF_COMPARE)
        return check_compare(options, why);

    if (campaign->journal_uri == NULL)
        return errmsg_set(why, -EINVAL, "bench %s needs -journal URI",
                          options_name_of(options->command));
    int error = options->command == OPTIONS_OF_RUN ? check_run(options, why) : 0;
    if (error != 0)
        return error;
    if (options->is_quiet && options->progress_ns > 0)
        return errmsg_set(why, -EINVAL, "-quiet and -progress exclude each other");
    struct journal_config journal = campaign_journal_config(campaign);
    error = journal_check(&journal, &reason);
    return error != 0 ? errmsg_set(why, error, "%s", reason.text) : 0;
}
