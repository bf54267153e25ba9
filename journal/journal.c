/* The table of stores; what a URI and a level may be; opening. Group commit is in group_commit.c.
 */
#include "journal/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "journal/backend.h"

enum {
    WRITERS_MAX = 1024,
    SCHEME_BYTES_MAX = 32,
};

const struct journal_store journal_stores[] = {
    {"memory", "memory", JOURNAL_NO_ADDRESS, &journal_memory_ops},
    {"sqlite", "sqlite:PATH", JOURNAL_PATH, &journal_sqlite_ops},
    {"postgres", "postgres://USER@HOST/DATABASE", JOURNAL_SERVER, &journal_postgres_ops},
    {"postgresql", "postgresql://USER@HOST/DATABASE", JOURNAL_SERVER, &journal_postgres_ops},
    {NULL, NULL, JOURNAL_NO_ADDRESS, NULL},
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
    case JOURNAL_STOPPED:
        return "the journal has failed before, and takes no more";
    case JOURNAL_UNKNOWN:
        return "the journal has not answered: the record may be there or not";
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
    bool is_path = uri[scheme_bytes] == '\0' && strpbrk(uri, "./") != NULL;
    /* What does not look like a scheme may be anything, a password too. */
    if (scheme_bytes == 0 || scheme_bytes > SCHEME_BYTES_MAX ||
        strspn(uri, scheme_letters) < scheme_bytes)
        (void)errmsg_set(why, -EINVAL, "the journal must be one of %s%s", known,
                         is_path ? "; a file is given as sqlite:PATH" : "");
    else if (is_path)
        (void)errmsg_set(why, -EINVAL, "unknown journal \"%s\"; did you mean sqlite:%s?", uri, uri);
    else
        (void)errmsg_set(why, -EINVAL, "unknown journal \"%.*s\" (known: %s)", (int)scheme_bytes,
                         uri, known);
}

/* NULL for a scheme that none has. */
static const struct journal_store *find_row(const char *uri, size_t scheme_bytes)
{
    for (const struct journal_store *store = journal_stores; store->scheme != NULL; store++)
        if (strlen(store->scheme) == scheme_bytes && strncmp(store->scheme, uri, scheme_bytes) == 0)
            return store;
    return NULL;
}

/* Whether what follows the scheme is as the store has it: nothing, or the beginning of an address.
 */
static bool has_form(const struct journal_store *store, const char *rest)
{
    return rest[0] == (store->address == JOURNAL_NO_ADDRESS ? '\0' : ':');
}

bool journal_is_named_by(const char *text)
{
    size_t scheme_bytes = strcspn(text, ":");
    const struct journal_store *store = find_row(text, scheme_bytes);
    return store != NULL && has_form(store, text + scheme_bytes);
}

/* NULL, with the reason, for what must not be opened. */
static const struct journal_ops *find_store(const char *uri, struct errmsg *why)
{
    size_t scheme_bytes = strcspn(uri, ":");
    const struct journal_store *store = find_row(uri, scheme_bytes);
    if (store == NULL) {
        refuse_scheme(uri, scheme_bytes, why);
        return NULL;
    }
    const char *rest = uri + scheme_bytes;
    if (store->address == JOURNAL_PATH && strncmp(rest, "://", 3) == 0) {
        (void)errmsg_set(why, -EINVAL,
                         "journal %s is given as %s, without slashes before a relative path",
                         store->scheme, store->usage);
        return NULL;
    }
    if (has_form(store, rest) && strcmp(rest, ":") != 0)
        return store->ops;
    (void)errmsg_set(why, -EINVAL, "journal %s must be given as %s", store->scheme, store->usage);
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

/* What does not go with the store. */
static int check_settings(const struct journal_ops *ops, const struct journal_config *config,
                          struct errmsg *why)
{
    if (config->shards != 0 && !ops->has_shards)
        return errmsg_set(why, -EINVAL, "journal %s has no shards", ops->name);
    if (config->connections != 0 && !ops->has_connections)
        return errmsg_set(why, -EINVAL, "journal %s has no connections", ops->name);
    if (config->key != RUN_KEY_SEQ && !ops->has_keys)
        return errmsg_set(why, -EINVAL, "journal %s cannot key its runs by %s", ops->name,
                          run_key_name(config->key));
    return 0;
}

int journal_check(const struct journal_config *config, struct errmsg *why)
{
    enum durability level;
    const struct journal_ops *ops = find_store(config->uri, why);
    if (ops == NULL)
        return -EINVAL;
    int error = choose_level(ops, config->durability, &level, why);
    return error != 0 ? error : check_settings(ops, config, why);
}

static unsigned writers_max(const struct journal_ops *ops, const struct journal_config *config)
{
    if (!ops->has_connections)
        return WRITERS_MAX;
    return config->connections > 0 ? config->connections : JOURNAL_CONNECTIONS_DEFAULT;
}

static int check_bounds(const struct journal_ops *ops, const struct journal_config *config,
                        struct errmsg *why)
{
    if (config->writers < 1 || config->writers > WRITERS_MAX)
        return errmsg_set(why, -EINVAL, "a journal has 1 to %d writers, not %u", WRITERS_MAX,
                          config->writers);
    if (config->writers > writers_max(ops, config))
        return errmsg_set(why, -EINVAL,
                          "journal %s with %u connections has no more writers: not %u", ops->name,
                          writers_max(ops, config), config->writers);
    if (config->description != NULL && strlen(config->description) > JOURNAL_DESCRIPTION_BYTES_MAX)
        return errmsg_set(why, -EINVAL, "the description of a campaign has more than %d bytes",
                          JOURNAL_DESCRIPTION_BYTES_MAX);
    return 0;
}

int journal_open_ops(struct journal **journal, const struct journal_ops *ops,
                     const struct journal_config *config, struct errmsg *why)
{
    enum durability level = DURABILITY_DEFAULT; /* never stays so */
    int error = choose_level(ops, config->durability, &level, why);
    if (error != 0)
        return error;
    error = check_bounds(ops, config, why);
    if (error != 0)
        return error;
    struct journal *opened = calloc(1, sizeof(*opened));
    if (opened == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a journal");
    opened->ops = ops;
    opened->durability = level;
    opened->writers = config->writers;
    opened->mode = config->mode;
    opened->parts = 1;
    opened->connections = ops->has_connections ? writers_max(ops, config) : 0;
    opened->bytes_max = config->bytes_max;
    opened->retry_for_ns = config->retry_for_ns;
    opened->must_stop = config->must_stop;
    (void)pthread_mutex_init(&opened->failure_lock, NULL); /* cannot fail with default attributes */
    error = ops->open(opened, config, why);
    if (error != 0) {
        (void)pthread_mutex_destroy(&opened->failure_lock);
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

struct journal_campaign journal_new_campaign(const struct journal *journal,
                                             const struct journal_config *config)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with a valid clock and pointer */
    uint64_t seconds = now.tv_sec > 0 ? (uint64_t)now.tv_sec : 0; /* a clock may be anywhere */
    return (struct journal_campaign){
        .created_unix_ms = seconds * 1000 + (uint64_t)now.tv_nsec / NS_PER_MS,
        .key = config->key,
        .durability = journal->durability,
        .description = config->description != NULL ? config->description : "{}",
    };
}

int journal_resume_level(struct journal *journal, const struct journal_config *config,
                         const struct journal_campaign *campaign, struct errmsg *why)
{
    enum durability wanted = config->durability;
    if (wanted == DURABILITY_DEFAULT)
        wanted = campaign->durability;
    if (campaign->durability == DURABILITY_NONE && wanted != DURABILITY_NONE)
        return errmsg_set(why, -EINVAL,
                          "campaign %" PRIu64 " was begun at durability none, and cannot be "
                          "resumed at %s",
                          campaign->id, durability_name(wanted));
    return choose_level(journal->ops, wanted, &journal->durability, why);
}

bool journal_owns_path(const struct journal_config *config, const char *path)
{
    const struct journal_ops *ops = find_store(config->uri, NULL);
    return ops != NULL && ops->owns_path != NULL && ops->owns_path(config->uri, path);
}

struct journal_disk journal_disk(const struct journal_config *config)
{
    const struct journal_ops *ops = find_store(config->uri, NULL);
    if (ops == NULL || ops->disk == NULL)
        return (struct journal_disk){.free_bytes = JOURNAL_NOT_KNOWN};
    return ops->disk(config->uri);
}

static void close_with(struct journal *journal, void (*close)(struct journal *journal))
{
    assert(atomic_load(&journal->writers_open) == 0);
    close(journal);
    (void)pthread_mutex_destroy(&journal->failure_lock);
    free(journal);
}

void journal_close(struct journal *journal)
{
    close_with(journal, journal->ops->close);
}

void journal_discard(struct journal *journal)
{
    bool has_more = journal->mode != JOURNAL_NEW || atomic_load(&journal->has_sent) ||
                    journal->ops->discard == NULL;
    close_with(journal, has_more ? journal->ops->close : journal->ops->discard);
}

const char *journal_name(const struct journal *journal)
{
    return journal->ops->name;
}

enum durability journal_durability(const struct journal *journal)
{
    return journal->durability;
}

const struct journal_campaign *journal_campaign(const struct journal *journal)
{
    return journal->mode == JOURNAL_AUDIT ? NULL : &journal->campaign;
}

unsigned journal_writers_max(const struct journal_config *config)
{
    const struct journal_ops *ops = find_store(config->uri, NULL);
    return ops != NULL ? writers_max(ops, config) : WRITERS_MAX;
}

bool journal_keeps_in_memory(const struct journal_config *config)
{
    const struct journal_ops *ops = find_store(config->uri, NULL);
    return ops != NULL && ops->keeps_in_memory;
}

void journal_fail(struct journal *journal, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)pthread_mutex_lock(&journal->failure_lock); /* a plain mutex, never held twice */
    if (journal->failure.text[0] == '\0')
        (void)vsnprintf(journal->failure.text, sizeof(journal->failure.text), format, arguments);
    (void)pthread_mutex_unlock(&journal->failure_lock);
    va_end(arguments);
}

bool journal_has_failed(struct journal *journal, struct errmsg *why)
{
    (void)pthread_mutex_lock(&journal->failure_lock);
    *why = journal->failure;
    (void)pthread_mutex_unlock(&journal->failure_lock);
    return why->text[0] != '\0';
}

void journal_io(struct journal *journal, struct journal_io *io)
{
    *io = journal_io_unknown();
    if (journal->ops->io != NULL)
        journal->ops->io(journal, io);
}

void journal_describe(struct journal *journal, struct journal_settings *settings)
{
    settings->count = 0;
    if (journal->ops->describe != NULL)
        journal->ops->describe(journal, settings);
}

void journal_settings_add(struct journal_settings *settings, const char *key, const char *value)
{
    if (value == NULL)
        return;
    assert(settings->count < JOURNAL_SETTINGS_MAX);
    struct journal_setting *setting = &settings->all[settings->count++];
    setting->key = key;
    (void)snprintf(setting->value, sizeof(setting->value), "%s", value); /* cut */
    errmsg_clean(setting->value);
}

/* --- reading --- */

int journal_count_record(void *arg, const struct journal_record *record)
{
    struct journal_count *count = arg;
    count->records++;
    count->bytes += record->bytes;
    count->begins += record->kind == RECORD_BEGIN;
    count->ends += record->kind == RECORD_END;
    return 0;
}

unsigned journal_parts(const struct journal *journal)
{
    return journal->parts;
}

unsigned journal_shards(const struct journal *journal)
{
    return journal->ops->has_shards ? journal->parts : 0;
}

unsigned journal_connections(const struct journal *journal)
{
    return journal->connections;
}

int journal_list(struct journal *journal,
                 int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                 struct errmsg *why)
{
    return journal->ops->list(journal, visit, arg, why);
}

int journal_scan(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                 journal_visit *visit, void *arg, struct errmsg *why)
{
    assert(part < journal->parts);
    return journal->ops->scan(journal, campaign, part, kinds, visit, arg, why);
}

int journal_read_runs(struct journal *journal, unsigned part, const uint64_t *runs, unsigned count,
                      journal_visit *visit, void *arg, struct errmsg *why)
{
    assert(part < journal->parts);
    return journal->ops->read_runs(journal, part, runs, count, visit, arg, why);
}

int journal_count(struct journal *journal, unsigned part, struct journal_count *count,
                  struct errmsg *why)
{
    assert(part < journal->parts);
    return journal->ops->count(journal, part, count, why);
}
