/* fuzz_shape: any text as the description of a campaign. What is refused has a reason of one line;
 * what is taken is within its limits and, written and read again, is the same. The first byte tells
 * whether distributions were given before. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_so, const char *what)
{
    if (!is_so) {
        (void)fprintf(stderr, "fuzz_shape: %s\n", what); /* the trap tells it, too */
        __builtin_trap();
    }
}

static void free_dists(struct campaign_config *config)
{
    dist_free(&config->latency);
    dist_free(&config->tool_latency);
    dist_free(&config->prompt_bytes);
    dist_free(&config->reply_bytes);
}

static void check_taken(const struct campaign_config *config)
{
    struct campaign_config twice = {.runs = 0};
    struct errmsg why = {.text = ""};
    char text[SHAPE_BYTES_MAX];
    char again[SHAPE_BYTES_MAX];
    require(config->concurrency >= 1 && config->concurrency <= CAMPAIGN_CONCURRENCY_MAX &&
                config->turns >= 1 && config->turns <= CAMPAIGN_TURNS_MAX && config->tools >= 1 &&
                config->tools <= CAMPAIGN_TOOLS_MAX,
            "a number beyond its limits");
    shape_write(config, text);
    require(shape_read(&twice, text, &why) == 0, "written again, it is refused");
    shape_write(&twice, again);
    require(strcmp(text, again) == 0, "written again, it is another");
    free_dists(&twice);
}

/* Which files there are is not the fuzzer's to try, however it is spelt. */
static bool may_name_a_file(const char *text)
{
    return strstr(text, "file") != NULL || strstr(text, "\\u") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct campaign_config config = {.runs = 0};
    struct errmsg why = {.text = ""};
    if (size == 0)
        return 0;
    char *text = malloc(size); /* exactly as large, so that reading beyond is found */
    require(text != NULL, "no memory");
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    struct dist *const dists[] = {&config.latency, &config.tool_latency, &config.prompt_bytes,
                                  &config.reply_bytes};
    bool is_given = data[0] == 'g';
    for (size_t i = 0; is_given && i < sizeof(dists) / sizeof(dists[0]); i++)
        require(dist_parse(dists[i], "0", i < 2 ? DIST_DURATION : DIST_BYTES, &why) == 0, "0");
    if (is_given || !may_name_a_file(text)) {
        int error = shape_read(&config, text, &why);
        if (error == 0)
            check_taken(&config);
        else
            require(error < 0 && why.text[0] != '\0' && strchr(why.text, '\n') == NULL,
                    "a reason that is none");
    }
    free_dists(&config);
    free(text);
    return 0;
}
