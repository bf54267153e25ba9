/* fuzz_options: the flags of each command, given as texts that end in a zero byte. What is
 * accepted lies within its limits; what is refused has a reason of one line. Parsing has no side
 * effects, so there is nothing to undo. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/options.h"
#include "engine/base/clock.h"
#include "tests/lib/exact_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARGUMENTS_MAX = 32, INPUT_BYTES_MAX = 4096 };

/* What a new run has and the others leave to the store. */
static void check_run(const struct options *options)
{
    const struct campaign_config *campaign = &options->campaign;
    assert(campaign->concurrency >= 1);
    assert(campaign->turns >= 1 && campaign->turns <= CAMPAIGN_TURNS_MAX);
    assert(campaign->tools >= 1 && campaign->tools <= CAMPAIGN_TOOLS_MAX);
    assert(campaign->mode == JOURNAL_NEW && campaign->campaign == 0);
    if (options->action != OPTIONS_GO)
        return;
    assert((campaign->runs == 0) == (campaign->duration_ns > 0));
    assert((campaign->ledger_path != NULL) == (campaign->tool_effect == TOOL_EFFECT_LEDGER));
}

/* The operands, and all of them, each of the arguments. */
static void check_merge(const struct options *options)
{
    const char *uri = options->campaign.journal_uri;
    assert(uri != NULL && strcmp(uri, "memory") == 0);
    if (options->action != OPTIONS_GO)
        return;
    assert(options->operand_count >= 2 && options->operand_count <= ARGUMENTS_MAX);
    for (int i = 0; i < options->operand_count; i++)
        assert(options->operands[i] != NULL);
}

static void check_accepted(const struct options *options)
{
    const struct campaign_config *campaign = &options->campaign;
    assert(campaign->concurrency <= CAMPAIGN_CONCURRENCY_MAX);
    assert(campaign->threads >= 1 && campaign->threads <= CAMPAIGN_THREADS_MAX);
    assert(campaign->runs <= OPTIONS_RUNS_MAX);
    assert(campaign->duration_ns <= NS_MAX_DURATION && campaign->timeout_ns <= NS_MAX_DURATION);
    assert(campaign->retry_for_ns <= NS_MAX_DURATION && options->progress_ns <= NS_MAX_DURATION);
    assert(campaign->shards <= JOURNAL_SHARDS_MAX);
    assert(campaign->connections <= JOURNAL_CONNECTIONS_MAX);
    assert(campaign->campaign <= RUN_KEY_CAMPAIGN_MAX);
    assert(campaign->run_key < RUN_KEY_COUNT);
    assert(campaign->loop_name[0] != '\0');
    assert(campaign->journal_uri == NULL || campaign->journal_uri[0] != '\0');
    assert(campaign->journal_uri != NULL || options->action != OPTIONS_GO);
    assert(options->json_path == NULL || options->json_path[0] != '\0');
    assert(campaign->memory_bytes_max == 0);
    if (options->command == OPTIONS_OF_RUN)
        check_run(options);
    else if (options->command == OPTIONS_OF_MERGE)
        check_merge(options);
    else
        assert(campaign->mode != JOURNAL_NEW && campaign->runs == 0 && campaign->turns == 0);
}

static void try(enum options_command command, int argc, char **argv)
{
    struct options options;
    struct errmsg why = {.text = ""};
    char *copy[ARGUMENTS_MAX + 2]; /* operands move */
    memcpy(copy, argv, sizeof(copy));
    int error = options_parse(&options, command, argc, copy, &why);
    if (error != 0) {
        assert(error < 0 && why.text[0] != '\0' && strchr(why.text, '\n') == NULL);
        return;
    }
    assert(options.command == command);
    check_accepted(&options);
    options_free(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Which files there are is not the fuzzer's to try. */
    if (size > INPUT_BYTES_MAX || memmem(data, size, "file:", 5) != NULL)
        return 0;
    char *texts = exact_text(data, size);
    char name[] = "bench";
    char *argv[ARGUMENTS_MAX + 2] = {name};
    int argc = 1;
    for (size_t at = 0; at < size && argc <= ARGUMENTS_MAX; at += strlen(texts + at) + 1)
        argv[argc++] = texts + at;

    for (enum options_command command = OPTIONS_OF_RUN; command <= OPTIONS_OF_MERGE; command++)
        try(command, argc, argv);
    free(texts);
    return 0;
}
