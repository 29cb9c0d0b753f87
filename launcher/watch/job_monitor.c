#include "launcher/watch/job_monitor.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "launcher/gpu/gpu_sampler.h"
#include "launcher/watch/host_sampler.h"

enum {
    PERIOD_MS = 1000,
    HOST_PERIODS = 5 /* the machine's counters are read less often: /proc/stat is long */
};

struct job_monitor {
    pthread_mutex_t lock; /* of the fields up to `usage` */
    pthread_cond_t wake;
    bool closed; /* the thread frees the monitor */
    struct job_monitor_reading latest;
    struct job_usage *usage;
    /* of the thread */
    struct host_sampler *host; /* NULL: all GPUs, without a job */
    char **uuids;
    int interval_ms;
    bool has_gpus; /* they can be read, or may be later */
};

/* ---- the thread ----------------------------------------------------------------------------- */

/* Waits for the next period. Returns false if job_monitor_close() was called. */
static bool wait_until(struct job_monitor *m, const struct timespec *end)
{
    pthread_mutex_lock(&m->lock);
    while (!m->closed && pthread_cond_timedwait(&m->wake, &m->lock, end) == 0)
        ;
    bool closed = m->closed;
    pthread_mutex_unlock(&m->lock);
    return !closed;
}

static void sample_host(struct job_monitor *m)
{
    struct host_sample h;
    host_sampler_read(m->host, &h);
    double now_s = clock_s();
    pthread_mutex_lock(&m->lock);
    job_usage_add_host(m->usage, now_s, &h);
    pthread_mutex_unlock(&m->lock);
}

static struct gpu_sample *copy(const struct gpu_sample *samples, int count)
{
    struct gpu_sample *new = xcalloc((size_t)count, sizeof *new);
    for (int i = 0; i < count; i++)
        new[i] = samples[i];
    return new;
}

/* Reads the GPUs without the lock, since the driver may be slow. Without an answer in time the
 * latest reading stays. */
static void sample_gpus(struct job_monitor *m, struct gpu_sampler **s)
{
    const struct gpu_sampler_opts opts = {.purposes = m->host ? GPU_SAMPLE : GPU_SAMPLE | GPU_USE,
                                          .uuids = m->uuids};
    const struct gpu_sample *found = NULL;
    struct job_monitor_reading r = {0};
    struct err e = {0};
    int rc = *s ? 0 : gpu_sampler_open(s, &opts, &e);
    rc = rc < 0 ? rc : gpu_sampler_read(*s, &found, &r.count, m->interval_ms, &e);
    if (rc == -ETIMEDOUT)
        return;
    if (rc < 0) {
        gpu_sampler_close(TAKE(*s));
        m->has_gpus = !m->host && rc != -ENODEV;
        r.count = 0;
        snprintf(r.problem, sizeof r.problem, "%s", e.text);
    }
    if (rc < 0 && m->host) {
        log_info("GPUs are not sampled: %s", e.text);
        return;
    }
    r.samples = copy(found, r.count);
    double now_s = clock_s();
    pthread_mutex_lock(&m->lock);
    r.number = m->latest.number + 1;
    r.at_ms = clock_ms();
    free(m->latest.samples);
    m->latest = r;
    if (m->usage)
        job_usage_add(m->usage, now_s, r.samples, r.count);
    pthread_mutex_unlock(&m->lock);
}

static void release(struct job_monitor *m)
{
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    strv_free(m->uuids);
    host_sampler_close(m->host);
    job_usage_free(m->usage);
    free(m->latest.samples);
    free(m);
}

static void *run(void *arg)
{
    struct job_monitor *m = arg;
    AUTO(gpu_sampler) struct gpu_sampler *gpus = NULL;
    int period = 0;
    struct timespec next;
    if (m->host)
        sample_host(m); /* before the driver, which may take seconds to start */
    do {
        next = clock_in_ms(m->interval_ms);
        if (m->has_gpus)
            sample_gpus(m, &gpus);
        if (m->host && period++ % HOST_PERIODS == HOST_PERIODS - 1)
            sample_host(m);
    } while (wait_until(m, &next));
    release(m);
    return NULL;
}

/* ---- open and close ------------------------------------------------------------------------- */

/* Starts a thread that gets no signals, since the loop handles them. */
static struct job_monitor *start(struct job_monitor *m)
{
    pthread_condattr_t clock;
    pthread_t thread;
    sigset_t all, before;
    m->latest.at_ms = clock_ms();
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wake, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, run, m) == 0 && pthread_detach(thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        return m;
    release(m);
    return NULL;
}

struct job_monitor *job_monitor_open(char *const *uuids, const char *cpus,
                                     const struct job_usage *earlier)
{
    struct job_monitor *m = xzalloc(sizeof *m);
    m->uuids = strv_copy(uuids);
    m->has_gpus = strv_len(uuids) > 0;
    m->interval_ms = PERIOD_MS;
    m->host = host_sampler_open(cpus, "");
    m->usage = earlier ? job_usage_copy(earlier) : job_usage_new();
    job_usage_pause(m->usage);
    return start(m);
}

struct job_monitor *job_monitor_open_all(int interval_ms)
{
    struct job_monitor *m = xzalloc(sizeof *m);
    m->has_gpus = true;
    m->interval_ms = interval_ms;
    return start(m);
}

void job_monitor_close(struct job_monitor *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->closed = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
}

/* ---- what the thread has seen --------------------------------------------------------------- */

void job_monitor_latest(struct job_monitor *m, struct job_monitor_reading *out)
{
    *out = (struct job_monitor_reading){0};
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    *out = m->latest;
    out->samples = copy(m->latest.samples, out->count);
    pthread_mutex_unlock(&m->lock);
}

int64_t job_monitor_number(struct job_monitor *m)
{
    pthread_mutex_lock(&m->lock);
    int64_t number = m->latest.number;
    pthread_mutex_unlock(&m->lock);
    return number;
}

struct job_usage *job_monitor_usage(struct job_monitor *m)
{
    if (!m)
        return NULL;
    pthread_mutex_lock(&m->lock);
    struct job_usage *u = job_usage_copy(m->usage);
    pthread_mutex_unlock(&m->lock);
    return u;
}

double job_monitor_idle_s(struct job_monitor *m)
{
    if (!m)
        return 0;
    pthread_mutex_lock(&m->lock);
    double s = job_usage_idle_s(m->usage);
    pthread_mutex_unlock(&m->lock);
    return s;
}
