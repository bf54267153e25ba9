/*
 * sqlite_read: reading the records of a shard.
 *
 * What is in a file is not trusted: a value that cannot be shown as a record (a wrong type, a
 * number out of the range of its field, a payload of more than 16 MiB, a key that no campaign
 * makes) is an error that names the row; what can be shown is, whether or not the contract knows
 * it.
 *
 * Threading: by who has borrowed the shard; visits are called on that thread. Errors: 0 or -errno
 * with text; what a visit returns.
 */
#ifndef BENCH_JOURNAL_SQLITE_READ_H
#define BENCH_JOURNAL_SQLITE_READ_H

#include "journal/sqlite_campaigns.h"
#include "journal/sqlite_shard.h"

/* As journal_read(), for the campaign that is being written, with the reason of another error than
 * -ENOENT; the payload is copied to *buffer, which grows. */
int sqlite_read_record(struct sqlite_shard *shard, uint64_t run, uint32_t seq,
                       struct journal_record *record, char **buffer, size_t *buffer_bytes,
                       struct errmsg *why);

/* As journal_scan(); and -EBADMSG when the index, by which runs are read, and new records refused
 * that are there already, is not that of the records. */
int sqlite_read_scan(struct sqlite_shard *shard, const struct campaign_keys *known,
                     uint64_t campaign, uint32_t kinds, journal_visit *visit, void *arg,
                     struct errmsg *why);

/* As journal_count(), of a campaign whose runs are numbers. */
int sqlite_read_count_numbers(struct sqlite_shard *shard, uint64_t campaign,
                              struct journal_count *count, struct errmsg *why);

/* As journal_read_runs(), for the campaign that is being written. */
int sqlite_read_runs(struct sqlite_shard *shard, const uint64_t *runs, unsigned count,
                     journal_visit *visit, void *arg, struct errmsg *why);

#endif
