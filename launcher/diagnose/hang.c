#include "launcher/diagnose/hang.h"

#include <string.h>

enum {
    INTERVAL_MIN_MS = 500,
    INTERVAL_MAX_MS = 10000,
    GAP_INTERVALS = 3, /* without a sample: we were suspended */
    MOVED_MS = 10,     /* more than a tick of the kernel's clock, and … */
    MOVED_SHARE = 50   /* … than a fiftieth of the time */
};

struct rank {
    int64_t spoke_ms, moved_ms;
    int64_t running_ms; /* last seen not stopped */
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
        h->ranks[i] = (struct rank){.spoke_ms = now_ms, .moved_ms = now_ms, .running_ms = now_ms};
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
    h->ranks[rank].spoke_ms = now_ms;
}

int64_t hang_last_activity_ms(const struct hang *h, int rank)
{
    return h->ranks[rank].spoke_ms;
}

static void take_sample(struct hang *h, struct rank *r, const struct hang_sample *s, int64_t now_ms)
{
    int64_t used_ms = s->cpu_ms - r->cpu_ms; /* less than before: another process counts now */
    if (used_ms < 0 || (used_ms > MOVED_MS && used_ms * MOVED_SHARE > now_ms - h->sampled_ms))
        r->moved_ms = now_ms;
    if (s->state != 'T' && s->state != 'D')
        r->running_ms = now_ms;
    r->cpu_ms = s->cpu_ms;
    r->idle = now_ms - r->moved_ms >= h->timeout_ms;
    r->stopped = r->idle && now_ms - r->running_ms >= h->timeout_ms;
}

static void start_anew(struct hang *h, int64_t now_ms)
{
    for (int i = 0; i < h->count; i++)
        h->ranks[i].spoke_ms = h->ranks[i].moved_ms = h->ranks[i].running_ms = now_ms;
}

enum hang_verdict hang_sample_add(struct hang *h, const struct hang_sample *samples, int64_t now_ms)
{
    bool unknown = false, stopped = false, silent = true;
    int running = 0, idle = 0, waiting = 0, stuck = 0;
    if (now_ms - h->sampled_ms > (int64_t)GAP_INTERVALS * hang_interval_ms(h))
        start_anew(h, now_ms);
    for (int i = 0; i < h->count; i++) {
        struct rank *r = &h->ranks[i];
        bool quiet = now_ms - r->spoke_ms >= h->timeout_ms;
        silent &= quiet;
        if (samples[i].exited) {
            r->idle = r->stopped = false;
            continue;
        }
        take_sample(h, r, &samples[i], now_ms);
        unknown |= !samples[i].seen || samples[i].state == 't';
        running++;
        idle += r->idle;
        stopped |= r->stopped;
        bool waits = samples[i].waits_ms >= h->timeout_ms;
        waiting += waits;
        stuck += waits || (r->idle && quiet);
    }
    h->sampled_ms = now_ms;
    if (unknown || running == 0)
        return HANG_NONE;
    if (stopped)
        return HANG_STOPPED;
    if (waiting > 0 && stuck == running)
        return HANG_COLLECTIVE;
    if (!silent || idle == 0)
        return HANG_NONE;
    return idle == running ? HANG_ALL_IDLE : idle * 2 < running ? HANG_SOME_IDLE : HANG_NONE;
}

bool hang_is_idle(const struct hang *h, int rank)
{
    return h->ranks[rank].idle;
}

static int alike(const char *const *where, int ranks, const char *one)
{
    int n = 0;
    for (int i = 0; i < ranks; i++)
        n += where[i] && strcmp(where[i], one) == 0;
    return n;
}

void hang_differs(bool *differs, const char *const *where, int ranks)
{
    int all = 0;
    const char *most = NULL; /* the only one that can have more than half (Boyer and Moore 1991) */
    for (int i = 0, lead = 0; i < ranks; i++) {
        if (!where[i])
            continue;
        all++;
        if (lead == 0)
            most = where[i];
        lead += strcmp(where[i], most) == 0 ? 1 : -1;
    }
    bool any = most && alike(where, ranks, most) * 2 > all;
    for (int i = 0; i < ranks; i++)
        differs[i] = any && where[i] && strcmp(where[i], most) != 0;
}
