/* hist: see hist.h. */
#include "engine/base/hist.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

void hist_init(struct hist *h)
{
    memset(h, 0, sizeof(*h));
    h->min_ns = UINT64_MAX;
}

void hist_merge(struct hist *to, const struct hist *from)
{
    to->count += from->count;
    if (__builtin_add_overflow(to->sum_ns, from->sum_ns, &to->sum_ns))
        to->sum_ns = UINT64_MAX;
    to->min_ns = from->min_ns < to->min_ns ? from->min_ns : to->min_ns;
    to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
    if (from->count == 0)
        return;
    for (uint32_t bucket = hist_bucket(from->min_ns); bucket <= hist_bucket(from->max_ns); bucket++)
        to->counts[bucket] += from->counts[bucket];
}

void hist_copy(struct hist *to, const struct hist *from)
{
    if (to->count > 0) {
        uint32_t first = hist_bucket(to->min_ns);
        uint32_t end = hist_bucket(to->max_ns) + 1;
        memset(&to->counts[first], 0, (end - first) * sizeof(to->counts[0]));
    }
    memcpy(to, from, offsetof(struct hist, counts));
    if (from->count > 0) {
        uint32_t first = hist_bucket(from->min_ns);
        uint32_t end = hist_bucket(from->max_ns) + 1;
        memcpy(&to->counts[first], &from->counts[first], (end - first) * sizeof(to->counts[0]));
    }
}

void hist_subtract(struct hist *from, const struct hist *before)
{
    uint64_t min_ns = UINT64_MAX;
    uint64_t max_ns = 0;
    assert(from->count >= before->count);
    if (from->count == 0)
        return;
    uint32_t first = hist_bucket(from->min_ns);
    uint32_t last = hist_bucket(from->max_ns);
    for (uint32_t bucket = first; bucket <= last; bucket++) {
        assert(from->counts[bucket] >= before->counts[bucket]);
        from->counts[bucket] -= before->counts[bucket];
        if (from->counts[bucket] == 0)
            continue;
        max_ns = bucket == last ? from->max_ns : hist_bucket_upper_ns(bucket);
        min_ns = min_ns == UINT64_MAX ? hist_bucket_upper_ns(bucket) : min_ns;
    }
    from->count -= before->count;
    from->sum_ns = from->sum_ns == UINT64_MAX ? UINT64_MAX : from->sum_ns - before->sum_ns;
    from->max_ns = max_ns;
    from->min_ns = min_ns < max_ns || from->count == 0 ? min_ns : max_ns;
}

uint64_t hist_bucket_upper_ns(uint32_t bucket)
{
    assert(bucket < HIST_BUCKETS);
    if (bucket < 2 * HIST_SUB_COUNT)
        return bucket;
    /* The inverse of hist_bucket(): the octave's shift, and the value's leading bits, which lie in
     * [SUB_COUNT, 2 * SUB_COUNT). */
    uint32_t shift = (bucket >> HIST_SUB_BITS) - 1;
    uint64_t leading = bucket - (shift << HIST_SUB_BITS);
    return ((leading + 1) << shift) - 1;
}

/* How many of the values, from the smallest, it takes to reach the quantile: at least 1. */
static uint64_t quantile_rank(const struct hist *h, double quantile)
{
    assert(h->count > 0);
    assert(quantile >= 0 && quantile <= 1);
    /* The product of a decimal fraction such as 0.07 and 100 may come out just above the whole
     * number that is meant; taking off its last two bits keeps the ceiling from going one too far.
     */
    double exact = quantile * (double)h->count;
    uint64_t rank = (uint64_t)ceil(exact - exact * 0x1p-51);
    if (rank < 1)
        return 1;
    return rank < h->count ? rank : h->count;
}

uint64_t hist_quantile_ns(const struct hist *h, double quantile)
{
    if (h->count == 0)
        return 0;
    uint64_t rank = quantile_rank(h, quantile);
    uint64_t seen = 0;
    for (uint32_t bucket = hist_bucket(h->min_ns); bucket < HIST_BUCKETS - 1; bucket++) {
        seen += h->counts[bucket];
        if (seen >= rank) {
            uint64_t upper_ns = hist_bucket_upper_ns(bucket);
            return upper_ns < h->max_ns ? upper_ns : h->max_ns;
        }
    }
    /* The last bucket has no bound of its own. */
    return h->max_ns;
}

bool hist_quantile_is_known(const struct hist *h, double quantile)
{
    return h->count > 0 && h->count - quantile_rank(h, quantile) >= HIST_SAMPLES_BEYOND_MIN;
}

uint64_t hist_mean_ns(const struct hist *h)
{
    return h->count > 0 ? h->sum_ns / h->count : 0;
}
