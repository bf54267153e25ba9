/* store_place: see store_place.h. */
#include "tests/lib/store_place.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/digest.h"
#include "engine/base/prng.h"

enum { FILE_BYTES_MAX = 8 << 20 };

void store_place_make(struct store_place *place)
{
    assert_int_equal(scratch_make(&place->folder, "store"), 0);
    (void)snprintf(place->path, sizeof(place->path), "%s/store.db", place->folder.path);
    (void)snprintf(place->uri, sizeof(place->uri), "sqlite:%s", place->path);
}

void store_place_remove(const struct store_place *place)
{
    assert_int_equal(scratch_remove(&place->folder), 0);
}

int64_t store_place_size(const struct store_place *place, const char *ending)
{
    char name[STORE_PATH_BYTES];
    struct stat status;
    (void)snprintf(name, sizeof(name), "%s%s", place->path, ending);
    return stat(name, &status) == 0 ? (int64_t)status.st_size : -1;
}

const char *store_place_name(const struct store_place *place, const char *file)
{
    static char names[8][STORE_PATH_BYTES];
    static unsigned turn;
    char *text = names[turn++ % 8];
    (void)snprintf(text, STORE_PATH_BYTES, "%s/%s", place->folder.path, file);
    return text;
}

static uint64_t digest_file(const char *path)
{
    char *bytes = malloc(FILE_BYTES_MAX);
    assert_non_null(bytes);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    uint64_t digest = digest_bytes(bytes, fread(bytes, 1, FILE_BYTES_MAX, file));
    assert_int_equal(fclose(file), 0);
    free(bytes);
    return digest;
}

uint64_t store_place_digest(const struct store_place *place)
{
    uint64_t sum = 0;
    DIR *entries = opendir(place->folder.path);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        uint64_t digest = digest_bytes(entry->d_name, strlen(entry->d_name));
        char path[STORE_PATH_BYTES];
        (void)snprintf(path, sizeof(path), "%s/%s", place->folder.path, entry->d_name);
        if (entry->d_type == DT_REG)
            digest ^= prng_mix(digest_file(path));
        sum += prng_mix(digest);
    }
    assert_int_equal(closedir(entries), 0);
    return sum;
}

void store_write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void store_execute(const char *path, const char *sql)
{
    sqlite3 *db;
    char *error = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", sql, error);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

void store_leave_behind(void (*leave)(const char *path), const char *path)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        leave(path);
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
