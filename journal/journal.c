/* The table of stores; what a URI and a level may be; opening. Group commit is in group_commit.c.
 */
#include "journal/journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal/backend.h"

enum {
    WRITERS_MAX = 1024,
    SCHEME_BYTES_MAX = 32,
};

const struct journal_store journal_stores[] = {
    {"memory", "memory", false, &journal_memory_ops},
    {NULL, NULL, false, NULL},
};

const char *durability_name(enum durability level)
{
    switch (level) {
    case DURABILITY_DEFAULT:
        return "default";
    case DURABILITY_NONE:
        return "none";
    case DURABILITY_PROCESS:
        return "process";
    case DURABILITY_POWER:
        return "power";
    }
    return "unknown";
}

const char *journal_strerror(int result)
{
    switch (result) {
    case JOURNAL_ACKED:
        return "recorded";
    case JOURNAL_AGAIN:
        return "there was no room in the journal's batch: append again";
    case JOURNAL_CONFLICT:
        return "other bytes are recorded under this run and seq, or another writer has the run";
    case JOURNAL_FULL:
        return "the journal is at its bound";
    case JOURNAL_TOO_LARGE:
        return "the payload is larger than 16 MiB";
    case JOURNAL_GAP:
        return "the record before it in its run is not recorded";
    }
    const char *text = result < 0 && result > -4096 ? strerrordesc_np(-result) : NULL;
    return text != NULL ? text : "unknown error";
}

/* Writes the names of a list, separated by commas, cut to what fits. */
static void join(char *text, size_t bytes, const char *name)
{
    size_t used = strlen(text);
    (void)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "", name);
}

static void refuse_scheme(const char *uri, size_t scheme_bytes, struct errmsg *why)
{
    static const char scheme_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789+-.";
    char known[256] = "";

    for (const struct journal_store *store = journal_stores; store->scheme != NULL; store++)
        join(known, sizeof(known), store->usage);
    /* What does not look like a scheme may be anything, a password too. */
    if (scheme_bytes == 0 || scheme_bytes > SCHEME_BYTES_MAX ||
        strspn(uri, scheme_letters) < scheme_bytes)
        (void)errmsg_set(why, -EINVAL, "the journal must be one of %s", known);
    else
        (void)errmsg_set(why, -EINVAL, "unknown journal \"%.*s\" (known: %s)", (int)scheme_bytes,
                         uri, known);
}

/* NULL, with the reason, for what must not be opened. */
static const struct journal_ops *find_store(const char *uri, struct errmsg *why)
{
    size_t scheme_bytes = strcspn(uri, ":");

    for (const struct journal_store *store = journal_stores; store->scheme != NULL; store++) {
        if (strlen(store->scheme) != scheme_bytes || strncmp(store->scheme, uri, scheme_bytes) != 0)
            continue;
        const char *rest = uri + scheme_bytes;
        if (store->has_address ? rest[0] == ':' && rest[1] != '\0' : rest[0] == '\0')
            return store->ops;
        (void)errmsg_set(why, -EINVAL, "journal %s must be given as %s", store->scheme,
                         store->usage);
        return NULL;
    }
    refuse_scheme(uri, scheme_bytes, why);
    return NULL;
}

static int choose_level(const struct journal_ops *ops, enum durability wanted,
                        enum durability *level, struct errmsg *why)
{
    char known[64] = "";

    if (wanted == DURABILITY_DEFAULT) {
        *level = ops->levels[0];
        return 0;
    }
    for (unsigned i = 0; i < 3 && ops->levels[i] != DURABILITY_DEFAULT; i++) {
        if (ops->levels[i] == wanted) {
            *level = wanted;
            return 0;
        }
        join(known, sizeof(known), durability_name(ops->levels[i]));
    }
    return errmsg_set(why, -EINVAL, "journal %s cannot keep durability %s; it can keep: %s",
                      ops->name, durability_name(wanted), known);
}

int journal_check(const struct journal_config *config, struct errmsg *why)
{
    enum durability level;
    const struct journal_ops *ops = find_store(config->uri, why);
    return ops == NULL ? -EINVAL : choose_level(ops, config->durability, &level, why);
}

int journal_open_ops(struct journal **journal, const struct journal_ops *ops,
                     const struct journal_config *config, struct errmsg *why)
{
    enum durability level = DURABILITY_DEFAULT; /* never stays so */
    int error = choose_level(ops, config->durability, &level, why);
    if (error != 0)
        return error;
    if (config->writers < 1 || config->writers > WRITERS_MAX)
        return errmsg_set(why, -EINVAL, "a journal has 1 to %d writers, not %u", WRITERS_MAX,
                          config->writers);
    struct journal *opened = calloc(1, sizeof(*opened));
    if (opened == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a journal");
    opened->ops = ops;
    opened->durability = level;
    opened->writers = config->writers;
    opened->bytes_max = config->bytes_max;
    error = ops->open(opened, config, why);
    if (error != 0) {
        free(opened);
        return error;
    }
    *journal = opened;
    return 0;
}

int journal_open(struct journal **journal, const struct journal_config *config, struct errmsg *why)
{
    const struct journal_ops *ops = find_store(config->uri, why);
    return ops == NULL ? -EINVAL : journal_open_ops(journal, ops, config, why);
}

void journal_close(struct journal *journal)
{
    assert(atomic_load(&journal->writers_open) == 0);
    journal->ops->close(journal);
    free(journal);
}

const char *journal_name(const struct journal *journal)
{
    return journal->ops->name;
}

enum durability journal_durability(const struct journal *journal)
{
    return journal->durability;
}
