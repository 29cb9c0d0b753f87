#include "collectives/bench/bench_internal.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"

enum { SAMPLES_MAX = 1000000 };

/* Starts one iteration: -m operations, grouped. Each operation works on another part of the buffers
 * (*slice, which it advances), so that caches do not help small sizes. */
static int iterate(struct bench *b, const struct buffers_run *r, size_t *slice)
{
    size_t bytes = r->shape.bytes, slices = bytes ? b->o->max_bytes / bytes : 1;
    int rc = b->o->agg > 1 ? drover_group_start(b->comm) : 0;
    if (rc < 0)
        return bench_comm(b, rc);
    for (int i = 0; i < b->o->agg && rc == 0; i++) {
        rc = bench_start(b, r, bytes * *slice);
        *slice = *slice + 1 < slices ? *slice + 1 : 0;
    }
    if (rc == 0 && b->o->agg > 1 && (rc = drover_group_end(b->comm)) < 0)
        return bench_comm(b, rc);
    return rc;
}

/* Waits for each iteration if there is no device, since work then progresses only while a rank
 * waits for it. */
int bench_time_iterations(struct bench *b, const struct buffers_run *r, int iters,
                          struct bench_time *out)
{
    bool each = !b->o->cpu_time && !(b->backend->caps(b->inner) & BACKEND_DEVICE_MEMORY);
    size_t slice = 0;
    double begin = clock_s(), excluded = 0;
    int rc = 0;
    for (int i = 0; i < iters && rc == 0; i++) {
        rc = iterate(b, r, &slice);
        if (rc == 0 && (b->o->blocking || each))
            rc = bench_wait(b);
        double done = b->o->blocking == 3 ? clock_s() : 0;
        if (rc == 0 && b->o->blocking % 2)
            rc = bench_barrier(b);
        excluded += b->o->blocking == 3 ? clock_s() - done : 0;
    }
    double started = clock_s();
    if (rc == 0)
        rc = bench_wait(b);
    double operations = iters ? (double)iters * b->o->agg : 1;
    *out = (struct bench_time){.done = (clock_s() - begin - excluded) / operations,
                               .started = (started - begin - excluded) / operations};
    return rc;
}

/* Returns the number of operations per iteration, or per launch of a graph. */
static double per_launch(const struct bench *b)
{
    return (double)b->o->agg * (b->o->graph ? b->o->iters : 1);
}

int bench_end_graph(struct bench *b)
{
    int rc = bench_wait(b);
    return rc == 0 ? b->backend->record(b->inner, false, b->e) : rc;
}

int bench_time_graph(struct bench *b, const struct buffers_run *r, struct bench_time *out)
{
    size_t slice = 0;
    int rc = b->backend->record(b->inner, true, b->e);
    for (int i = 0; i < b->o->iters && rc == 0; i++)
        rc = iterate(b, r, &slice);
    if (rc == 0)
        rc = bench_end_graph(b);
    if (rc == 0)
        rc = bench_barrier(b);
    double begin = clock_s();
    for (int i = 0; i < b->o->graph && rc == 0; i++)
        rc = b->backend->replay(b->inner, b->e);
    double started = clock_s();
    if (rc == 0)
        rc = bench_wait(b);
    double operations = b->o->graph * per_launch(b);
    *out = (struct bench_time){.done = (clock_s() - begin) / operations,
                               .started = (started - begin) / operations};
    return rc;
}

/* Times o->iters single iterations on every rank. all[] has room for iters + 1 values per rank; the
 * last one is the time since `begin`. */
static int sample_batch(struct bench *b, const struct buffers_run *r, double begin, double *all)
{
    size_t n = (size_t)b->o->iters, slice = 0;
    AUTO(free) double *mine = xcalloc(n + 1, sizeof *mine);
    int rc = bench_barrier(b);
    for (size_t i = 0; i < n && rc == 0; i++) {
        double from = clock_s();
        rc = b->o->graph ? b->backend->replay(b->inner, b->e) : iterate(b, r, &slice);
        if (rc == 0)
            rc = bench_wait(b);
        mine[i] = (clock_s() - from) / per_launch(b);
    }
    mine[n] = clock_s() - begin;
    return rc == 0 ? bench_gather(b, mine, (n + 1) * sizeof *mine, all) : rc;
}

/* Returns the value number i of all ranks, combined by `pick`. */
static double column(struct bench *b, const double *all, size_t i, enum stats_pick pick)
{
    for (int r = 0; r < b->all; r++)
        b->seconds[r] = all[(size_t)r * ((size_t)b->o->iters + 1) + i];
    return stats_pick(b->seconds, (size_t)b->all, pick);
}

/* Appends the ranks' times of a batch to the `n_before` earlier ones per rank. Returns the list;
 * NULL if they are not kept. */
static const double *append_rank_samples(struct bench *b, const struct buffers_run *r,
                                         const double *all, size_t n_before)
{
    if (!b->o->rank_samples)
        return NULL;
    size_t n = (size_t)b->o->iters, ranks = (size_t)b->all;
    double **list = &b->rank_samples[r->in_place];
    *list = xrealloc(*list, (n_before + n) * ranks, sizeof **list);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < ranks; k++)
            (*list)[(n_before + i) * ranks + k] = all[k * (n + 1) + i];
    return *list;
}

int bench_sample(struct bench *b, const struct buffers_run *r,
                 struct bench_report_placement *placement)
{
    size_t n = (size_t)b->o->iters;
    AUTO(free) double *all = xcalloc((n + 1) * (size_t)b->all, sizeof *all);
    double begin = clock_s();
    for (size_t have = 0; have <= SAMPLES_MAX; have += n) {
        int rc = sample_batch(b, r, begin, all);
        if (rc < 0)
            return rc;
        double *list = xrealloc(b->samples[r->in_place], have + n, sizeof *list);
        b->samples[r->in_place] = list;
        for (size_t i = 0; i < n; i++)
            list[have + i] = column(b, all, i, b->o->sample_pick);
        placement->rank_samples = append_rank_samples(b, r, all, have);
        placement->stats = stats_of(list, have + n);
        placement->samples = list;
        double half_width = (placement->stats.high - placement->stats.low) / 2;
        placement->unstable =
            b->o->stable > 0 && half_width > b->o->stable * placement->stats.median;
        if (!placement->unstable || column(b, all, n, STATS_MAX) >= b->o->max_time_s)
            break;
    }
    return 0;
}
