/* sqlite_header: see sqlite_header.h. Offsets are SQLite's, from its file format. */
#include "journal/sqlite_header.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal/sqlite_look.h"

enum {
    HEADER_BYTES = 100,
    HEADER_USER_VERSION = 60,
    HEADER_APPLICATION_ID = 68,

    JOURNAL_HEADER_BYTES = 28,
    JOURNAL_INITIAL_PAGES = 16, /* how many pages the database had before the transaction */
    JOURNAL_SECTOR_BYTES = 20,  /* the first page begins there */
    JOURNAL_PAGE_BYTES = 24,
    JOURNAL_NUMBER_BYTES = 4, /* in front of each page */

    WAL_HEADER_BYTES = 32,
    WAL_PAGE_BYTES = 8,
    WAL_SALT = 16,
    WAL_SALT_BYTES = 8,
    WAL_FRAME_HEADER_BYTES = 24, /* in front of each page: number, size, salt, checksum */
    WAL_FRAME_SALT = 8,

    PAGE_BYTES_MIN = 512,
    PAGE_BYTES_MAX = 65536,
    SECTOR_BYTES = 512,
};

static const unsigned char database_magic[16] = "SQLite format 3";
static const unsigned char journal_magic[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
static const unsigned char wal_magic[3] = {0x37, 0x7f, 0x06}; /* the fourth is of two */

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* --- files --- */

struct raw {
    sqlite3_filename name;
    sqlite3_file *file;
    int64_t bytes;
};

static void raw_close(struct raw *raw)
{
    if (raw->file != NULL && raw->file->pMethods != NULL)
        (void)raw->file->pMethods->xClose(raw->file); /* it was only read */
    sqlite3_free_filename(raw->name);
    free(raw->file);
}

/* `kind` is SQLite's flag. raw_close() follows whatever the result. */
static int raw_open(struct raw *raw, const char *full, const char *ending, int kind)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_int64 bytes = 0;
    char plain[SQLITE_PATH_BYTES + 16];
    (void)snprintf(plain, sizeof(plain), "%s%s", full, ending);
    *raw = (struct raw){
        .name = sqlite3_create_filename(plain, "", "", 0, NULL), /* the form that a VFS expects */
        .file = calloc(1, (size_t)vfs->szOsFile),
    };
    if (raw->file == NULL || raw->name == NULL)
        return -ENOMEM;
    errno = 0;
    if (vfs->xOpen(vfs, raw->name, raw->file, SQLITE_OPEN_READONLY | kind, NULL) != SQLITE_OK)
        return errno > 0 ? -errno : -EIO;
    if (raw->file->pMethods->xFileSize(raw->file, &bytes) != SQLITE_OK)
        return -EIO;
    raw->bytes = bytes;
    return 0;
}

/* What is beyond the end is read as 0. */
static int raw_read(const struct raw *raw, int64_t offset, unsigned char *bytes, int count)
{
    int code = raw->file->pMethods->xRead(raw->file, bytes, count, offset);
    return code == SQLITE_OK || code == SQLITE_IOERR_SHORT_READ ? 0 : -EIO;
}

bool sqlite_file_exists(const char *full, const char *ending)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    char name[SQLITE_PATH_BYTES + 16];
    int result = 0;
    (void)snprintf(name, sizeof(name), "%s%s", full, ending);
    return vfs->xAccess(vfs, name, SQLITE_ACCESS_EXISTS, &result) == SQLITE_OK && result != 0;
}

/* --- page 1 --- */

static bool take_header(struct sqlite_header *header, const unsigned char *bytes)
{
    header->is_database = memcmp(bytes, database_magic, sizeof(database_magic)) == 0;
    header->application_id = big_endian(bytes + HEADER_APPLICATION_ID);
    header->user_version = big_endian(bytes + HEADER_USER_VERSION);
    return header->is_database;
}

static bool is_page_size(uint32_t bytes)
{
    return bytes >= PAGE_BYTES_MIN && bytes <= PAGE_BYTES_MAX && (bytes & (bytes - 1)) == 0;
}

/* What is torn has whole sectors: it may end within a page. */
static bool may_be_torn(int64_t main_bytes)
{
    return main_bytes > 0 && main_bytes % SECTOR_BYTES == 0;
}

/* In a frame of this generation of the WAL, as its salt says. */
static bool find_in_wal(const struct raw *wal, struct sqlite_header *header)
{
    unsigned char head[WAL_HEADER_BYTES];
    unsigned char frame[WAL_FRAME_HEADER_BYTES + HEADER_BYTES];
    if (raw_read(wal, 0, head, sizeof(head)) != 0 ||
        memcmp(head, wal_magic, sizeof(wal_magic)) != 0)
        return false;
    uint32_t page_bytes = big_endian(head + WAL_PAGE_BYTES);
    if (!is_page_size(page_bytes))
        return false;
    for (int64_t at = WAL_HEADER_BYTES; at < wal->bytes;
         at += WAL_FRAME_HEADER_BYTES + (int64_t)page_bytes) {
        if (raw_read(wal, at, frame, sizeof(frame)) != 0 ||
            memcmp(frame + WAL_FRAME_SALT, head + WAL_SALT, WAL_SALT_BYTES) != 0)
            return false;
        if (big_endian(frame) == 1)
            return take_header(header, frame + WAL_FRAME_HEADER_BYTES);
    }
    return false;
}

/* The first page of the journal, which page 1 is where it alone was being changed. */
static bool find_in_journal(const struct raw *journal, struct sqlite_header *header)
{
    unsigned char head[JOURNAL_HEADER_BYTES];
    unsigned char page[JOURNAL_NUMBER_BYTES + HEADER_BYTES];
    return raw_read(journal, 0, head, sizeof(head)) == 0 &&
           memcmp(head, journal_magic, sizeof(journal_magic)) == 0 &&
           is_page_size(big_endian(head + JOURNAL_PAGE_BYTES)) &&
           raw_read(journal, big_endian(head + JOURNAL_SECTOR_BYTES), page, sizeof(page)) == 0 &&
           big_endian(page) == 1 && take_header(header, page + JOURNAL_NUMBER_BYTES);
}

static bool find_beside(const char *full, const char *ending, int kind,
                        struct sqlite_header *header)
{
    struct raw raw;
    if (!sqlite_file_exists(full, ending))
        return false;
    bool is_found =
        raw_open(&raw, full, ending, kind) == 0 &&
        (kind == SQLITE_OPEN_WAL ? find_in_wal(&raw, header) : find_in_journal(&raw, header));
    raw_close(&raw);
    return is_found;
}

int sqlite_header_read(const char *full, struct sqlite_header *header)
{
    unsigned char bytes[HEADER_BYTES] = {0};
    struct raw raw;
    int error = raw_open(&raw, full, "", SQLITE_OPEN_MAIN_DB);
    if (error == 0)
        error = raw_read(&raw, 0, bytes, sizeof(bytes));
    int64_t main_bytes = raw.bytes;
    raw_close(&raw);
    *header = (struct sqlite_header){.is_empty = main_bytes == 0};
    if (error == 0 && !take_header(header, bytes) && may_be_torn(main_bytes) &&
        !find_beside(full, "-wal", SQLITE_OPEN_WAL, header))
        (void)find_beside(full, "-journal", SQLITE_OPEN_MAIN_JOURNAL, header);
    return error;
}

bool sqlite_was_being_created(const char *full)
{
    unsigned char head[JOURNAL_HEADER_BYTES] = {0};
    struct raw raw;
    if (!sqlite_file_exists(full, "-journal"))
        return false;
    bool was = raw_open(&raw, full, "-journal", SQLITE_OPEN_MAIN_JOURNAL) == 0 &&
               raw_read(&raw, 0, head, sizeof(head)) == 0 &&
               memcmp(head, journal_magic, sizeof(journal_magic)) == 0 &&
               big_endian(head + JOURNAL_INITIAL_PAGES) == 0;
    raw_close(&raw);
    return was;
}
