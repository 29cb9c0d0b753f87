#include "launcher/hang/hang.h"

#include <string.h>

enum {
    INTERVAL_MIN_MS = 500,
    INTERVAL_MAX_MS = 10000,
    GAP_INTERVALS = 3, /* after this many intervals without a sample, drover was suspended */
    /* A rank is active if it used more CPU time than this (a tick of the kernel's clock) and … */
    ACTIVE_MS = 10,
    ACTIVE_DIVISOR = 50, /* … than a fiftieth of the elapsed time */
    /* It has worked if it had more than this per second */
    WORK_FAULTS = 64,
    WORK_BYTES = 32 << 10,
    STILL_TIMEOUTS = 3 /* for HANG_STILL */
};

struct rank {
    int64_t last_output_ms, last_active_ms;
    int64_t last_running_ms; /* time of the last sample in which it was not stopped */
    int64_t last_work_ms;
    int64_t last_not_spinning_ms; /* its GPU */
    int64_t cpu_ms, faults, io_bytes;
    bool idle, stopped;
};

struct hang {
    struct rank *ranks;
    int count;
    int64_t timeout_ms, sampled_ms;
};

const struct hang_case_text hang_cases[] = {
    [HANG_STOPPED] = {"stopped", "a rank is stopped"},
    [HANG_ALL_IDLE] = {"all idle", "no rank has written output or used its CPU"},
    [HANG_COLLECTIVE] = {"collective",
                         "ranks wait in a collective, and no rank does anything else"},
    [HANG_SOME_IDLE] = {"some idle",
                        "no rank has written output, and some have not used their CPU"},
    [HANG_GPUS_SPIN] = {"GPUs spin",
                        "no rank has written output, and GPUs only wait for other ranks"},
    [HANG_STILL] = {"still", "no rank has written output, some have not used their CPU, and the "
                             "others have only used it"},
    [HANG_POLLS] = {"polls", "no rank has written output or moved data, and those that use the CPU "
                             "wait in the same call of MPI as before"},
};

static void restart_times(struct rank *r, int64_t now_ms)
{
    r->last_output_ms = r->last_active_ms = r->last_running_ms = r->last_work_ms =
        r->last_not_spinning_ms = now_ms;
}

struct hang *hang_new(int ranks, int64_t timeout_ms, int64_t now_ms)
{
    struct hang *h = xzalloc(sizeof *h);
    h->ranks = xcalloc((size_t)ranks, sizeof *h->ranks);
    h->count = ranks;
    h->timeout_ms = timeout_ms;
    h->sampled_ms = now_ms;
    for (int i = 0; i < ranks; i++)
        restart_times(&h->ranks[i], now_ms);
    return h;
}

void hang_free(struct hang *h)
{
    if (!h)
        return;
    free(h->ranks);
    free(h);
}

int hang_interval_ms(const struct hang *h)
{
    int64_t ms = h->timeout_ms / 10;
    return ms < INTERVAL_MIN_MS   ? INTERVAL_MIN_MS
           : ms > INTERVAL_MAX_MS ? INTERVAL_MAX_MS
                                  : (int)ms;
}

void hang_activity(struct hang *h, int rank, int64_t now_ms)
{
    h->ranks[rank].last_output_ms = now_ms;
}

int64_t hang_last_activity_ms(const struct hang *h, int rank)
{
    return h->ranks[rank].last_output_ms;
}

static bool has_worked(const struct rank *r, const struct hang_sample *s, int64_t elapsed_ms)
{
    return s->gpu == GPU_WAIT_WORKS ||
           (s->faults - r->faults) * 1000 > (int64_t)WORK_FAULTS * elapsed_ms ||
           (s->io_bytes - r->io_bytes) * 1000 > (int64_t)WORK_BYTES * elapsed_ms;
}

static void sample_rank(struct hang *h, struct rank *r, const struct hang_sample *s, int64_t now_ms)
{
    int64_t elapsed_ms = now_ms - h->sampled_ms;
    /* Negative if another process is now the relevant one */
    int64_t used_ms = s->cpu_ms - r->cpu_ms;
    bool uses_cpu = used_ms > ACTIVE_MS && used_ms * ACTIVE_DIVISOR > elapsed_ms;
    bool works = used_ms < 0 || has_worked(r, s, elapsed_ms);
    if (works)
        r->last_work_ms = now_ms;
    if (works || (uses_cpu && s->gpu != GPU_WAIT_SPINS))
        r->last_active_ms = now_ms;
    if (s->state != 'T' && s->state != 'D')
        r->last_running_ms = now_ms;
    if (s->gpu != GPU_WAIT_SPINS)
        r->last_not_spinning_ms = now_ms;
    r->cpu_ms = s->cpu_ms;
    r->faults = s->faults;
    r->io_bytes = s->io_bytes;
    r->idle = now_ms - r->last_active_ms >= h->timeout_ms;
    r->stopped = r->idle && now_ms - r->last_running_ms >= h->timeout_ms;
}

/* What the running ranks do. */
struct counts {
    int running, idle, waiting, blocked, still, long_still, spinning, alone;
    bool unknown, stopped, all_silent, long_silent;
};

static void count_rank(struct counts *c, const struct hang *h, const struct rank *r,
                       const struct hang_sample *s, int64_t now_ms)
{
    int64_t silent_ms = now_ms - r->last_output_ms, still_ms = now_ms - r->last_work_ms;
    c->unknown |= !s->seen || s->state == 't';
    c->running++;
    c->idle += r->idle;
    c->stopped |= r->stopped;
    bool waits = s->waits_ms >= h->timeout_ms;
    c->waiting += waits;
    c->blocked += waits || (r->idle && silent_ms >= h->timeout_ms);
    c->still += still_ms >= h->timeout_ms;
    c->long_still += still_ms >= STILL_TIMEOUTS * h->timeout_ms;
    c->spinning += now_ms - r->last_not_spinning_ms >= h->timeout_ms;
    c->alone += r->idle && s->waits_alone;
}

static enum hang_case decide(const struct counts *c, bool gpu_works)
{
    if (c->unknown || c->running == 0)
        return HANG_NONE;
    if (c->stopped)
        return HANG_STOPPED;
    if (c->waiting > 0 && c->blocked == c->running)
        return HANG_COLLECTIVE;
    if (!c->all_silent)
        return HANG_NONE;
    if (c->idle == c->running)
        return HANG_ALL_IDLE;
    if (gpu_works)
        return HANG_NONE;
    if (c->still == c->running && c->spinning > 0)
        return HANG_GPUS_SPIN;
    if (c->idle > 0 && c->still == c->running && (c->idle * 2 < c->running || c->alone > 0))
        return HANG_SOME_IDLE;
    if (c->long_silent && c->idle > 0 && c->long_still == c->running)
        return HANG_STILL;
    return c->still == c->running ? HANG_POLLS : HANG_NONE;
}

enum hang_case hang_sample_add(struct hang *h, const struct hang_sample *samples, int64_t now_ms)
{
    struct counts c = {.all_silent = true, .long_silent = true};
    bool gpu_works = false;
    if (now_ms - h->sampled_ms > (int64_t)GAP_INTERVALS * hang_interval_ms(h))
        for (int i = 0; i < h->count; i++)
            restart_times(&h->ranks[i], now_ms);
    for (int i = 0; i < h->count; i++) {
        struct rank *r = &h->ranks[i];
        c.all_silent &= now_ms - r->last_output_ms >= h->timeout_ms;
        c.long_silent &= now_ms - r->last_output_ms >= STILL_TIMEOUTS * h->timeout_ms;
        if (samples[i].exited) {
            r->idle = r->stopped = false;
            continue;
        }
        gpu_works |= samples[i].gpu == GPU_WAIT_WORKS;
        sample_rank(h, r, &samples[i], now_ms);
        count_rank(&c, h, r, &samples[i], now_ms);
    }
    h->sampled_ms = now_ms;
    return decide(&c, gpu_works);
}

int64_t hang_still_ms(const struct hang *h, int rank)
{
    const struct rank *r = &h->ranks[rank];
    return h->sampled_ms - (r->idle ? r->last_active_ms : r->last_work_ms);
}

bool hang_spins(const struct hang *h, int rank)
{
    return h->sampled_ms - h->ranks[rank].last_not_spinning_ms >= h->timeout_ms;
}

bool hang_is_idle(const struct hang *h, int rank)
{
    return h->ranks[rank].idle;
}

static int count_equal(const char *const *where, int ranks, const char *text)
{
    int n = 0;
    for (int i = 0; i < ranks; i++)
        n += where[i] && strcmp(where[i], text) == 0;
    return n;
}

void hang_differs(bool *differs, const char *const *where, int ranks)
{
    int known = 0;
    /* The only value that can have a majority (Boyer and Moore 1991) */
    const char *majority = NULL;
    for (int i = 0, lead = 0; i < ranks; i++) {
        if (!where[i])
            continue;
        known++;
        if (lead == 0)
            majority = where[i];
        lead += strcmp(where[i], majority) == 0 ? 1 : -1;
    }
    bool has_majority = majority && count_equal(where, ranks, majority) * 2 > known;
    for (int i = 0; i < ranks; i++)
        differs[i] = has_majority && where[i] && strcmp(where[i], majority) != 0;
}
