/*
 * resume: the subcommand that finishes the unfinished runs of a campaign.
 *
 * The store tells what the campaign was; the flags may say otherwise only where the content of its
 * runs does not depend on it: how many at a time, how fast the model and the tools answer, where
 * the ledger is. Then it is driven like a new one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/drive.h"
#include "cmd/output.h"
#include "engine/shape.h"

struct search {
    uint64_t wanted; /* 0: the newest */
    uint64_t found;  /* 0: none */
    enum run_key_kind key;
    char *description;
};

/* Ids come in their order: without one that is asked for, the last is the newest. */
static int note_campaign(void *arg, const struct journal_campaign *campaign)
{
    struct search *search = arg;
    if (search->wanted != 0 && campaign->id != search->wanted)
        return 0;
    free(search->description);
    search->description = strdup(campaign->description);
    search->found = campaign->id;
    search->key = campaign->key;
    return search->description == NULL ? -ENOMEM : 0;
}

static int find_campaign(const struct campaign_config *config, struct search *search,
                         struct errmsg *why)
{
    struct journal *journal = NULL;
    struct journal_config journal_config = campaign_journal_config(config);
    journal_config.mode = JOURNAL_AUDIT;
    int error = journal_open(&journal, &journal_config, why);
    if (error != 0)
        return error;
    error = journal_list(journal, note_campaign, search, why);
    journal_close(journal);
    if (error == -ENOMEM)
        return errmsg_set(why, error, "no memory for a campaign's description");
    if (error == 0 && search->found == 0 && search->wanted != 0)
        return errmsg_set(why, -ENOENT, "the journal holds no campaign %" PRIu64, search->wanted);
    if (error == 0 && search->found == 0)
        return errmsg_set(why, -ENOENT, "the journal holds no campaign");
    return error;
}

#define MEMBER(name)                                                                               \
    {                                                                                              \
        offsetof(struct options, campaign.name), sizeof(((struct options *)0)->campaign.name)      \
    }

/* What the campaign was goes behind what the flags said. Distributions take care of themselves:
 * shape.h. */
static void keep_given(struct options *options, const struct options *told)
{
    static const struct {
        size_t offset;
        size_t size;
    } members[] = {
        MEMBER(concurrency),
        MEMBER(timeout_ns),
        MEMBER(model.token_interval_ns),
        MEMBER(model.rules.retries),
        MEMBER(model.rules.timeout_ns),
        MEMBER(model.rules.stream_journal),
        MEMBER(model.error_rate),
        MEMBER(model.rules.hedge_ns),
    };
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (options_is_given(options, members[i].offset))
            memcpy((char *)options + members[i].offset, (const char *)told + members[i].offset,
                   members[i].size);
}

/* What the flags said goes before what the campaign was. */
static int read_shape(struct options *options, const struct search *search, struct errmsg *why)
{
    struct campaign_config *config = &options->campaign;
    struct errmsg reason = {.text = ""};
    const struct options told = *options;
    int error = shape_read(config, search->description, &reason);
    if (error != 0)
        return errmsg_set(why, error, "campaign %" PRIu64 " cannot be resumed: %s", search->found,
                          reason.text);
    keep_given(options, &told);
    config->campaign = search->found;
    config->run_key = search->key;
    if (config->tool_effect == TOOL_EFFECT_LEDGER && config->ledger_path == NULL)
        return errmsg_set(why, -EINVAL,
                          "campaign %" PRIu64 " has -tool-effect ledger: it needs -ledger FILE",
                          search->found);
    if (config->tool_effect != TOOL_EFFECT_LEDGER && config->ledger_path != NULL)
        return errmsg_set(why, -EINVAL,
                          "-ledger is of no use: campaign %" PRIu64 " has -tool-effect %s",
                          search->found, tool_effect_name(config->tool_effect));
    return options_check_model(options, why);
}

static int resume_what_is_named(struct options *options)
{
    struct search search = {.wanted = options->campaign.campaign};
    struct errmsg why = {.text = ""};
    int error = find_campaign(&options->campaign, &search, &why);
    if (error == 0)
        error = read_shape(options, &search, &why);
    free(search.description);
    if (error != 0) {
        output_error("%s", why.text);
        return EXIT_CODE_USAGE;
    }
    return drive_campaign(options);
}

static int resume(int argc, char **argv)
{
    return command_with_options(OPTIONS_OF_RESUME, argc, argv, resume_what_is_named);
}

const struct command command_resume = {.name = "resume", .run = resume};
