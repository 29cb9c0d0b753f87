#include "launcher/top/top_gpus.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "common/clock.h"
#include "launcher/gpu/gpu_sampler.h"

#define NEVER_MS (INT64_C(1) << 40)

struct top_gpus {
    pthread_mutex_t lock; /* of `closed` and `latest` */
    pthread_cond_t wake;
    bool closed; /* the thread frees all of this */
    struct top_gpus_reading latest;
    int interval_ms;
};

void top_gpus_reading_end(struct top_gpus_reading *r)
{
    free(r->samples);
    *r = (struct top_gpus_reading){0};
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* Replaces the latest reading. */
static void publish(struct top_gpus *g, struct top_gpus_reading *r)
{
    pthread_mutex_lock(&g->lock);
    r->number = g->latest.number + 1;
    r->at_ms = clock_ms();
    top_gpus_reading_end(&g->latest);
    g->latest = *r;
    pthread_mutex_unlock(&g->lock);
}

/* Copies an array; NULL if it is empty. */
static struct gpu_sample *copy(const struct gpu_sample *samples, int count)
{
    struct gpu_sample *new = count ? xcalloc((size_t)count, sizeof *new) : NULL;
    for (int i = 0; i < count; i++)
        new[i] = samples[i];
    return new;
}

/* Reads once. Without an answer of the driver, the latest reading stays. Returns false if this
 * machine has no GPUs, which it does not get later. */
static bool read_once(struct top_gpus *g, struct gpu_sampler **s)
{
    static const struct gpu_sampler_opts opts = {.purposes = GPU_SAMPLE | GPU_USE};
    struct top_gpus_reading r = {0};
    const struct gpu_sample *samples;
    struct err e = {0};
    int rc = *s ? 0 : gpu_sampler_open(s, &opts, &e);
    rc = rc < 0 ? rc : gpu_sampler_read(*s, &samples, &r.count, g->interval_ms, &e);
    if (rc == -ETIMEDOUT)
        return true;
    if (rc == 0) {
        r.samples = copy(samples, r.count);
    } else {
        r.count = 0;
        snprintf(r.problem, sizeof r.problem, "%s", e.text);
        gpu_sampler_close(TAKE(*s));
    }
    publish(g, &r);
    return rc != -ENODEV;
}

/* Waits for the next interval. Returns false if top_gpus_close() was called. */
static bool wait_until(struct top_gpus *g, const struct timespec *end)
{
    pthread_mutex_lock(&g->lock);
    while (!g->closed && pthread_cond_timedwait(&g->wake, &g->lock, end) == 0)
        ;
    bool closed = g->closed;
    pthread_mutex_unlock(&g->lock);
    return !closed;
}

static void release(struct top_gpus *g)
{
    pthread_cond_destroy(&g->wake);
    pthread_mutex_destroy(&g->lock);
    top_gpus_reading_end(&g->latest);
    free(g);
}

static void *run(void *arg)
{
    struct top_gpus *g = arg;
    AUTO(gpu_sampler) struct gpu_sampler *s = NULL;
    struct timespec next;
    do {
        next = clock_in_ms(g->interval_ms);
        if (!read_once(g, &s))
            next = clock_in_ms(NEVER_MS);
    } while (wait_until(g, &next));
    release(g);
    return NULL;
}

/* ---- open, close and read ------------------------------------------------------------------- */

struct top_gpus *top_gpus_open(int interval_ms)
{
    struct top_gpus *g = xzalloc(sizeof *g);
    pthread_condattr_t clock;
    pthread_t thread;
    sigset_t all, before;
    g->interval_ms = interval_ms;
    g->latest.at_ms = clock_ms();
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&g->wake, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all); /* the loop handles signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, run, g) == 0 && pthread_detach(thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        return g;
    release(g);
    return NULL;
}

void top_gpus_close(struct top_gpus *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    g->closed = true;
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
}

int64_t top_gpus_number(struct top_gpus *g)
{
    pthread_mutex_lock(&g->lock);
    int64_t number = g->latest.number;
    pthread_mutex_unlock(&g->lock);
    return number;
}

void top_gpus_latest(struct top_gpus *g, struct top_gpus_reading *out)
{
    pthread_mutex_lock(&g->lock);
    *out = g->latest;
    out->samples = copy(g->latest.samples, out->count);
    pthread_mutex_unlock(&g->lock);
}
