/*
 * pg_read: reading a Postgres journal over its control connection: the functions of journal.h, and
 * the statements for them. Rows are pg_rows.h's.
 */
#ifndef BENCH_JOURNAL_PG_READ_H
#define BENCH_JOURNAL_PG_READ_H

#include "journal/pg_store.h"

int pg_read_list(struct journal *journal,
                 int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                 struct errmsg *why);
int pg_read_scan(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                 journal_visit *visit, void *arg, struct errmsg *why);
int pg_read_runs(struct journal *journal, unsigned part, const uint64_t *runs, unsigned count,
                 journal_visit *visit, void *arg, struct errmsg *why);
int pg_read_count(struct journal *journal, unsigned part, struct journal_count *count,
                  struct errmsg *why);

/* One record of the campaign in force, which stays *result's. 0, -ENOENT, or another -errno. */
int pg_read_one(struct journal *journal, uint64_t run, uint32_t seq, struct journal_record *record,
                PGresult **result);

#endif
