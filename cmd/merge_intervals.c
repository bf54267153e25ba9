/* merge_intervals: see merge_intervals.h. */
#include "cmd/merge_intervals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 1 << 20 };

/* Where one part stands: the rows that are over, and their sums. */
struct cursor {
    const struct merged_part *part;
    uint64_t offset_ns; /* of its start, from that of all */
    size_t at;
    uint64_t began_ns;    /* the row at `at` */
    struct interval sums; /* of the rows before it; the last two are as they were at its start */
};

/* value × part ÷ whole, rounded down. */
static uint64_t share(uint64_t value, uint64_t part, uint64_t whole)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)value * part / whole);
}

static uint64_t between(uint64_t from, uint64_t to, uint64_t part, uint64_t whole)
{
    return to >= from ? from + share(to - from, part, whole) : from - share(from - to, part, whole);
}

/* Adds what the part has come to at a time: its counts since its start. */
static void add_sums_at(struct cursor *cursor, uint64_t time_ns, struct interval *to)
{
    const struct merged_part *part = cursor->part;
    const struct interval *row;
    struct interval *sums = &cursor->sums;
    if (time_ns <= cursor->offset_ns)
        return;
    uint64_t own_ns = time_ns - cursor->offset_ns;
    for (; cursor->at < part->row_count && part->rows[cursor->at].end_ns <= own_ns; cursor->at++) {
        row = &part->rows[cursor->at];
        sums->started += row->started;
        sums->ended += row->ended;
        sums->errors += row->errors;
        sums->records += row->records;
        sums->in_flight = row->in_flight;
        sums->backlog = row->backlog;
        cursor->began_ns = row->end_ns;
    }
    to->started += sums->started;
    to->ended += sums->ended;
    to->errors += sums->errors;
    to->records += sums->records;
    if (cursor->at == part->row_count) {
        bool is_end = own_ns == cursor->began_ns; /* after it, nothing of the part is in flight */
        to->in_flight += is_end ? sums->in_flight : 0;
        to->backlog += is_end ? sums->backlog : 0;
        return;
    }
    row = &part->rows[cursor->at];
    uint64_t passed_ns = own_ns - cursor->began_ns;
    uint64_t length_ns = row->end_ns - cursor->began_ns;
    to->started += share(row->started, passed_ns, length_ns);
    to->ended += share(row->ended, passed_ns, length_ns);
    to->errors += share(row->errors, passed_ns, length_ns);
    to->records += share(row->records, passed_ns, length_ns);
    to->in_flight += between(sums->in_flight, row->in_flight, passed_ns, length_ns);
    to->backlog += between(sums->backlog, row->backlog, passed_ns, length_ns);
}

static void fill_rows(struct intervals *intervals, struct cursor *cursors, size_t count,
                      uint64_t end_ns)
{
    struct interval before = {0};
    for (size_t i = 0; i < intervals->count; i++) {
        struct interval sums = {0};
        uint64_t time_ns = i + 1 < intervals->count ? (i + 1) * intervals->every_ns : end_ns;
        for (size_t c = 0; c < count; c++)
            add_sums_at(&cursors[c], time_ns, &sums);
        intervals->rows[i] = (struct interval){
            .end_ns = time_ns,
            .started = sums.started - before.started,
            .ended = sums.ended - before.ended,
            .errors = sums.errors - before.errors,
            .records = sums.records - before.records,
            .in_flight = sums.in_flight,
            .backlog = sums.backlog,
            .p50_ns = INTERVAL_NOT_KNOWN, /* a percentile is of samples that nobody has any more */
            .p99_ns = INTERVAL_NOT_KNOWN,
        };
        before = sums;
    }
}

int merge_intervals(struct intervals *intervals, const struct merged_part *parts, size_t count,
                    uint64_t start_ns)
{
    uint64_t end_ns = 0;
    uint64_t every_ns = 1;
    struct cursor *cursors = calloc(count, sizeof(cursors[0]));
    if (cursors == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct merged_part *part = &parts[i];
        cursors[i] = (struct cursor){.part = part, .offset_ns = part->started_ns - start_ns};
        uint64_t own_ns = part->row_count > 0 ? part->rows[part->row_count - 1].end_ns : 0;
        if (own_ns > 0 && cursors[i].offset_ns + own_ns > end_ns)
            end_ns = cursors[i].offset_ns + own_ns;
        every_ns = part->every_ns > every_ns ? part->every_ns : every_ns;
    }
    *intervals = (struct intervals){.every_ns = every_ns};
    uint64_t rows = end_ns / every_ns + (end_ns % every_ns != 0);
    intervals->is_cut = rows > ROWS_MAX;
    if (rows > 0 && rows <= ROWS_MAX) {
        intervals->rows = calloc(rows, sizeof(intervals->rows[0]));
        intervals->count = intervals->rows != NULL ? rows : 0;
        intervals->capacity = intervals->count;
        fill_rows(intervals, cursors, count, end_ns);
    }
    free(cursors);
    return rows > 0 && rows <= ROWS_MAX && intervals->rows == NULL ? -ENOMEM : 0;
}
