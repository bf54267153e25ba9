/*
 * sqlite_settings: what a connection to a file of a store is set to, as SQLite reads it back, and
 * the file system below it.
 *
 * Threading: the connection's owner's. Errors: what cannot be read is left out.
 */
#ifndef BENCH_JOURNAL_SQLITE_SETTINGS_H
#define BENCH_JOURNAL_SQLITE_SETTINGS_H

#include "journal/sqlite_db.h"

void sqlite_settings_read(struct sqlite_db *db, struct journal_settings *settings);

#endif
