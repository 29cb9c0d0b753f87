#include "launcher/top/top_gpus.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "common/clock.h"

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
    free(r->usages);
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

/* Reads once. Returns false if this machine has no GPUs, which it does not get later. The sampler
 * stays open, so that gpu_usage() finds NVML initialised. */
static bool read_once(struct top_gpus *g, struct gpu_sampler **s)
{
    struct top_gpus_reading r = {0};
    struct err e = {0};
    int rc = *s ? 0 : gpu_sampler_open(s, NULL, &e);
    if (rc == 0) {
        r.sample_count = gpu_sampler_count(*s);
        r.samples = xcalloc((size_t)r.sample_count, sizeof *r.samples);
        gpu_sampler_read(*s, r.samples);
        (void)gpu_usage(&r.usages, &r.usage_count, NULL); /* without it, no process is shown */
    } else {
        snprintf(r.problem, sizeof r.problem, "%s", e.text);
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

/* Copies an array; NULL if it is empty. */
static void *copy(const void *array, int count, size_t size)
{
    if (count == 0)
        return NULL;
    void *new = xcalloc((size_t)count, size);
    memcpy(new, array, (size_t)count * size);
    return new;
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
    out->samples = copy(g->latest.samples, out->sample_count, sizeof *out->samples);
    out->usages = copy(g->latest.usages, out->usage_count, sizeof *out->usages);
    pthread_mutex_unlock(&g->lock);
}
