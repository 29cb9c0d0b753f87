#include "launcher/watch/hang.h"

#include <string.h>

enum {
    INTERVAL_MIN_MS = 500,
    INTERVAL_MAX_MS = 10000,
    GAP_INTERVALS = 3, /* after this many intervals without a sample, drover was suspended */
    /* A rank is active if it used more CPU time than this (a tick of the kernel's clock) and … */
    ACTIVE_MS = 10,
    ACTIVE_DIVISOR = 50 /* … than a fiftieth of the elapsed time */
};

struct rank {
    int64_t last_output_ms, last_active_ms;
    int64_t last_running_ms; /* time of the last sample in which it was not stopped */
    int64_t cpu_ms;
    bool idle, stopped;
};

struct hang {
    struct rank *ranks;
    int count;
    int64_t timeout_ms, sampled_ms;
};

struct hang *hang_new(int ranks, int64_t timeout_ms, int64_t now_ms)
{
    struct hang *h = xzalloc(sizeof *h);
    h->ranks = xcalloc((size_t)ranks, sizeof *h->ranks);
    h->count = ranks;
    h->timeout_ms = timeout_ms;
    h->sampled_ms = now_ms;
    for (int i = 0; i < ranks; i++)
        h->ranks[i] = (struct rank){
            .last_output_ms = now_ms, .last_active_ms = now_ms, .last_running_ms = now_ms};
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

static void sample_rank(struct hang *h, struct rank *r, const struct hang_sample *s, int64_t now_ms)
{
    /* Negative if another process is now the relevant one */
    int64_t used_ms = s->cpu_ms - r->cpu_ms;
    if (used_ms < 0 || (used_ms > ACTIVE_MS && used_ms * ACTIVE_DIVISOR > now_ms - h->sampled_ms))
        r->last_active_ms = now_ms;
    if (s->state != 'T' && s->state != 'D')
        r->last_running_ms = now_ms;
    r->cpu_ms = s->cpu_ms;
    r->idle = now_ms - r->last_active_ms >= h->timeout_ms;
    r->stopped = r->idle && now_ms - r->last_running_ms >= h->timeout_ms;
}

static void restart_times(struct hang *h, int64_t now_ms)
{
    for (int i = 0; i < h->count; i++)
        h->ranks[i].last_output_ms = h->ranks[i].last_active_ms = h->ranks[i].last_running_ms =
            now_ms;
}

enum hang_verdict hang_sample_add(struct hang *h, const struct hang_sample *samples, int64_t now_ms)
{
    bool unknown = false, stopped = false, all_silent = true;
    int running = 0, idle = 0, waiting = 0, blocked = 0;
    if (now_ms - h->sampled_ms > (int64_t)GAP_INTERVALS * hang_interval_ms(h))
        restart_times(h, now_ms);
    for (int i = 0; i < h->count; i++) {
        struct rank *r = &h->ranks[i];
        bool is_silent = now_ms - r->last_output_ms >= h->timeout_ms;
        all_silent &= is_silent;
        if (samples[i].exited) {
            r->idle = r->stopped = false;
            continue;
        }
        sample_rank(h, r, &samples[i], now_ms);
        unknown |= !samples[i].seen || samples[i].state == 't';
        running++;
        idle += r->idle;
        stopped |= r->stopped;
        bool waits = samples[i].waits_ms >= h->timeout_ms;
        waiting += waits;
        blocked += waits || (r->idle && is_silent);
    }
    h->sampled_ms = now_ms;
    if (unknown || running == 0)
        return HANG_NONE;
    if (stopped)
        return HANG_STOPPED;
    if (waiting > 0 && blocked == running)
        return HANG_COLLECTIVE;
    if (!all_silent || idle == 0)
        return HANG_NONE;
    return idle == running ? HANG_ALL_IDLE : idle * 2 < running ? HANG_SOME_IDLE : HANG_NONE;
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
