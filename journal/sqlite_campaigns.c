/* sqlite_campaigns: see sqlite_campaigns.h. */
#include "journal/sqlite_campaigns.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_ID, COLUMN_CREATED, COLUMN_KEY, COLUMN_DURABILITY, COLUMN_DESCRIPTION };

/* The id of the newest; 0 when there is none. */
static int find_newest(struct sqlite_db *db, uint64_t *id, struct errmsg *why)
{
    int64_t newest = 0;
    int error = sqlite_db_get(db, "SELECT ifnull(max(id), 0) FROM campaigns", &newest, why);
    if (error != 0)
        return error;
    if (newest < 0 || newest > (int64_t)RUN_KEY_CAMPAIGN_MAX)
        return errmsg_set(why, -EBADMSG,
                          SQLITE_PATH_SHOWN " is damaged: a campaign of number %" PRId64, db->path,
                          newest);
    *id = (uint64_t)newest;
    return 0;
}

int sqlite_campaigns_add(struct sqlite_db *db, struct journal_campaign *campaign,
                         struct errmsg *why)
{
    uint64_t newest = 0;
    int error = find_newest(db, &newest, why);
    if (error != 0)
        return error;
    if (newest == RUN_KEY_CAMPAIGN_MAX)
        return errmsg_set(why, -ENOSPC, SQLITE_PATH_SHOWN " can hold no more campaigns", db->path);
    campaign->id = newest + 1;
    sqlite3_stmt *insert = NULL;
    error = sqlite_db_prepare(db,
                              "INSERT INTO campaigns(id, created_unix_ms, key, durability,"
                              " description) VALUES(?, ?, ?, ?, ?)",
                              &insert, why);
    if (error != 0)
        return error;
    /* A binding that fails for want of memory leaves NULL, which the table does not take. */
    (void)sqlite3_bind_int64(insert, COLUMN_ID + 1, (int64_t)campaign->id);
    (void)sqlite3_bind_int64(insert, COLUMN_CREATED + 1, (int64_t)campaign->created_unix_ms);
    (void)sqlite3_bind_int64(insert, COLUMN_KEY + 1, campaign->key);
    (void)sqlite3_bind_int64(insert, COLUMN_DURABILITY + 1, campaign->durability);
    (void)sqlite3_bind_text(insert, COLUMN_DESCRIPTION + 1, campaign->description, -1,
                            SQLITE_STATIC);
    int code = sqlite3_step(insert);
    if (code != SQLITE_DONE)
        error = sqlite_db_error(db, code, "recording the campaign", why);
    (void)sqlite3_finalize(insert); /* repeats the error of the step */
    return error;
}

int sqlite_campaigns_remove(struct sqlite_db *db, uint64_t id, struct errmsg *why)
{
    char sql[64];
    (void)snprintf(sql, sizeof(sql), "DELETE FROM campaigns WHERE id = %" PRIu64, id);
    return sqlite_db_execute(db, sql, "taking the campaign back", why);
}

/* A view of a row; the description is SQLite's. False for what bench does not write. */
static bool read_row(sqlite3_stmt *row, struct journal_campaign *campaign)
{
    int64_t id = 0;
    int64_t created = 0;
    int64_t key = 0;
    int64_t durability = 0;
    if (!sqlite_column_is_integer(row, COLUMN_ID, 1, RUN_KEY_CAMPAIGN_MAX, &id) ||
        !sqlite_column_is_integer(row, COLUMN_CREATED, 0, INT64_MAX, &created) ||
        !sqlite_column_is_integer(row, COLUMN_KEY, 0, RUN_KEY_COUNT - 1, &key) ||
        !sqlite_column_is_integer(row, COLUMN_DURABILITY, DURABILITY_NONE, DURABILITY_POWER,
                                  &durability) ||
        sqlite3_column_type(row, COLUMN_DESCRIPTION) != SQLITE_TEXT ||
        sqlite3_column_bytes(row, COLUMN_DESCRIPTION) > JOURNAL_DESCRIPTION_BYTES_MAX)
        return false;
    *campaign = (struct journal_campaign){
        .id = (uint64_t)id,
        .created_unix_ms = (uint64_t)created,
        .key = (enum run_key_kind)key,
        .durability = (enum durability)durability,
        .description = (const char *)sqlite3_column_text(row, COLUMN_DESCRIPTION),
    };
    return campaign->description != NULL;
}

int sqlite_campaigns_list(struct sqlite_db *db,
                          int (*visit)(void *arg, const struct journal_campaign *campaign),
                          void *arg, struct errmsg *why)
{
    struct journal_campaign campaign;
    sqlite3_stmt *rows = NULL;
    int error = sqlite_db_prepare(
        db, "SELECT id, created_unix_ms, key, durability, description FROM campaigns ORDER BY id",
        &rows, why);
    if (error != 0)
        return error;
    int code = SQLITE_ROW;
    while (error == 0 && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        if (read_row(rows, &campaign))
            error = visit(arg, &campaign);
        else
            error = errmsg_set(why, -EBADMSG,
                               SQLITE_PATH_SHOWN " is damaged: campaign %" PRId64
                                                 " is not as bench records it",
                               db->path, (int64_t)sqlite3_column_int64(rows, COLUMN_ID));
    }
    if (error == 0 && code != SQLITE_DONE)
        error = sqlite_db_error(db, code, "reading campaigns", why);
    (void)sqlite3_finalize(rows); /* repeats the error of the step */
    return error;
}

struct wanted {
    uint64_t id;
    struct journal_campaign *campaign;
};

static int take(void *arg, const struct journal_campaign *campaign)
{
    const struct wanted *wanted = arg;
    if (campaign->id != wanted->id)
        return 0;
    *wanted->campaign = *campaign;
    wanted->campaign->description = strdup(campaign->description);
    return wanted->campaign->description != NULL ? 1 : -ENOMEM;
}

int sqlite_campaigns_find(struct sqlite_db *db, uint64_t id, struct journal_campaign *campaign,
                          struct errmsg *why)
{
    int found = sqlite_campaigns_list(db, take, &(struct wanted){id, campaign}, why);
    if (found == 0)
        return errmsg_set(why, -ENOENT, SQLITE_PATH_SHOWN " has no campaign %" PRIu64, db->path,
                          id);
    if (found == -ENOMEM)
        return errmsg_set(why, found, "no memory for a campaign");
    return found > 0 ? 0 : found;
}

void sqlite_campaign_free(struct journal_campaign *campaign)
{
    free((char *)campaign->description);
    campaign->description = NULL;
}

int sqlite_campaigns_load(struct sqlite_db *db, struct campaign_keys *keys, struct errmsg *why)
{
    struct errmsg said = {.text = ""}; /* by the store; by the list nothing is */
    struct errmsg reason;
    keys->count = 0;
    int error = sqlite_campaigns_list(db, campaign_keys_add, keys, &said);
    if (error == 0 || said.text[0] != '\0')
        return error == 0 ? 0 : errmsg_set(why, error, "%s", said.text);
    (void)campaign_keys_say(error, &reason);
    return errmsg_set(why, error, SQLITE_PATH_SHOWN ": %s", db->path, reason.text);
}
