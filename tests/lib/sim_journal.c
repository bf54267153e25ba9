/* sim_journal: see sim_journal.h. */
#include "tests/lib/sim_journal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "engine/base/digest.h"
#include "engine/base/prng.h"
#include "tests/lib/loop_sim.h"
#include "tests/lib/wrapped_journal.h"

enum {
    STALL_ONE_IN = 8,
    LANES_MAX = 4,
    DEPTH_MAX = 4,
    /* All that a writer holds, and some who find no room. */
    SQUATTER_APPENDS = JOURNAL_WRITER_RECORDS_MAX + 50,
};

struct sim_writer {
    struct wrapped_writer wrapped;
    struct sim_faults faults;
    struct prng prng;
    uint64_t given; /* commits */
    uint64_t commits;
    uint64_t records; /* taken by the store */
    bool has_failed;
    bool is_dead;
};
static_assert(offsetof(struct sim_writer, wrapped) == 0, "a writer begins with its wrapper");
static_assert(LANES_MAX * DEPTH_MAX <= WRAPPED_BATCHES_MAX, "all at a time");

/* The store takes the first `count` records of the batch; the rest is refused. */
static void take(struct sim_writer *sim, struct journal_batch *batch, uint32_t count, int refusal)
{
    uint32_t all = batch->count;
    for (uint32_t i = count; i < all; i++)
        batch->entries[i].result = (int16_t)refusal;
    sim->has_failed = sim->has_failed || count < all;
    sim->records += count;
    if (count == 0) {
        struct journal_writer *writer = sim->wrapped.writer;
        journal_batch_done(writer, batch, loop_clock_ns(writer->loop));
        return;
    }
    batch->count = count;
    wrapped_commit(&sim->wrapped, batch);
    batch->count = all;
}

static void settle(struct wrapped_writer *wrapped, struct journal_batch *batch)
{
    struct sim_writer *sim = container_of(wrapped, struct sim_writer, wrapped);
    const struct sim_faults *faults = &sim->faults;
    if (faults->return_one_in > 0 && prng_below(&sim->prng, faults->return_one_in) == 0) {
        bool is_in_doubt = prng_below(&sim->prng, 2) == 0;
        journal_batch_retry(wrapped->writer, batch, -ECONNRESET, is_in_doubt);
        return;
    }
    sim->commits++;
    if (sim->commits == faults->error_at) {
        take(sim, batch, 0, -EIO);
        return;
    }
    uint64_t room = faults->full_after > 0 ? faults->full_after - sim->records : UINT64_MAX;
    take(sim, batch, batch->count < room ? batch->count : (uint32_t)room, JOURNAL_FULL);
}

/* Nothing of it is there, or all, or the records that came first. */
static void die(struct sim_writer *sim, struct journal_batch *batch)
{
    uint32_t count = batch->count;
    sim->is_dead = true;
    switch (prng_below(&sim->prng, 3)) {
    case 0:
        return;
    case 1:
        count = (uint32_t)prng_below(&sim->prng, batch->count);
        break;
    }
    if (count > 0)
        take(sim, batch, count, JOURNAL_UNKNOWN);
}

static void sim_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    struct sim_writer *sim = writer->impl;
    const struct sim_faults *faults = &sim->faults;
    if (sim->is_dead)
        return; /* it has the batch, and does nothing with it */
    if (faults->dead_at > 0 && ++sim->given == faults->dead_at) {
        die(sim, batch);
        return;
    }
    if (faults->busy_ns_max > 0)
        loop_sim_spend(writer->loop, prng_below(&sim->prng, faults->busy_ns_max));
    uint64_t frozen_ns = loop_clock_ns(writer->loop) - faults->freeze_at_ns; /* huge before */
    if (frozen_ns < faults->freeze_ns) {
        wrapped_delay(&sim->wrapped, batch, faults->freeze_ns - frozen_ns);
        return;
    }
    if (faults->delay_ns_max == 0) {
        settle(&sim->wrapped, batch);
        return;
    }
    uint64_t delay_ns = prng_below(&sim->prng, faults->delay_ns_max) + 1;
    if (prng_below(&sim->prng, STALL_ONE_IN) == 0)
        delay_ns += faults->stall_ns;
    wrapped_delay(&sim->wrapped, batch, delay_ns);
}

static int sim_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    return wrapped_writer_open(writer, sizeof(struct sim_writer), settle, why);
}

void sim_journal_set_faults(struct journal_writer *writer, const struct sim_faults *faults)
{
    assert(writer->journal->ops == &sim_journal_ops);
    struct sim_writer *sim = writer->impl;
    sim->faults = *faults;
    sim->prng = prng_stream(faults->seed, writer->index, PRNG_TEST, 0);
    writer->lanes = 1 + (unsigned)prng_below(&sim->prng, LANES_MAX);
    writer->depth = 1 + (unsigned)prng_below(&sim->prng, DEPTH_MAX);
}

bool sim_journal_is_dead(const struct journal_writer *writer)
{
    assert(writer->journal->ops == &sim_journal_ops);
    return ((const struct sim_writer *)writer->impl)->is_dead;
}

bool sim_journal_has_failed(const struct journal_writer *writer)
{
    assert(writer->journal->ops == &sim_journal_ops);
    return ((const struct sim_writer *)writer->impl)->has_failed;
}

const struct journal_ops sim_journal_ops = {
    .name = "sim",
    .levels = {DURABILITY_NONE},
    .open = wrapped_open,
    .close = wrapped_close,
    .writer_open = sim_writer_open,
    .writer_close = wrapped_writer_close,
    .commit = sim_commit,
    .read = wrapped_read,
    .list = wrapped_list,
    .scan = wrapped_scan,
    .read_runs = wrapped_read_runs,
    .count = wrapped_count,
};

/* --- the squatter --- */

static void squat(struct sim_seat *seat)
{
    journal_append(seat->squatter->writer, &seat->append, RECORD_BEGIN, "{}", 2);
}

static void on_squatted(struct journal_append *append, int result)
{
    struct sim_seat *seat = container_of(append, struct sim_seat, append);
    if (result != JOURNAL_AGAIN)
        return; /* recorded, or refused: either way nothing more comes of it */
    seat->squatter->again_count++;
    squat(seat);
}

static void on_time_to_squat(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct sim_squatter *squatter = container_of(timer, struct sim_squatter, timer);
    for (unsigned i = 0; i < SQUATTER_APPENDS; i++) {
        squatter->seats[i] = (struct sim_seat){
            .append = {.done = on_squatted,
                       .run = SIM_SQUATTER_RUN + ((uint64_t)squatter->writer->index << 20) + i,
                       .digest = DIGEST_START},
            .squatter = squatter,
        };
        squat(&squatter->seats[i]);
    }
}

int sim_squatter_start(struct sim_squatter *squatter, struct journal_writer *writer, uint64_t at_ns)
{
    *squatter = (struct sim_squatter){.writer = writer};
    squatter->seats = calloc(SQUATTER_APPENDS, sizeof(squatter->seats[0]));
    if (squatter->seats == NULL)
        return -ENOMEM;
    timer_init(&squatter->timer, on_time_to_squat);
    loop_timer_start(writer->loop, &squatter->timer, at_ns);
    return 0;
}

void sim_squatter_free(struct sim_squatter *squatter)
{
    free(squatter->seats);
}
