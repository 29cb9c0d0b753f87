#include "launcher/watch/job_monitor.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

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
    struct gpu_sample *latest;
    int count;
    struct job_usage *usage;
    char **uuids; /* of the thread */
    struct host_sampler *host;
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

/* Reads the GPUs without the lock, since the driver may be slow. Without an answer in time there is
 * no sample. Closes the sampler if there will be none. */
static void sample_gpus(struct job_monitor *m, struct gpu_sampler **s)
{
    int n = 0;
    const struct gpu_sample *found = NULL;
    struct err e = {0};
    int rc = gpu_sampler_read(*s, &found, &n, PERIOD_MS, &e);
    if (rc < 0 && rc != -ETIMEDOUT) {
        log_info("GPUs are not sampled: %s", e.text);
        gpu_sampler_close(TAKE(*s));
    }
    if (rc < 0)
        return;
    struct gpu_sample *samples = xcalloc((size_t)n, sizeof *samples);
    memcpy(samples, found, (size_t)n * sizeof *samples);
    double now_s = clock_s();
    pthread_mutex_lock(&m->lock);
    free(m->latest);
    m->latest = samples;
    m->count = n;
    job_usage_add(m->usage, now_s, samples, n);
    pthread_mutex_unlock(&m->lock);
}

static void release(struct job_monitor *m)
{
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    strv_free(m->uuids);
    host_sampler_close(m->host);
    job_usage_free(m->usage);
    free(m->latest);
    free(m);
}

static void *run(void *arg)
{
    struct job_monitor *m = arg;
    AUTO(gpu_sampler) struct gpu_sampler *gpus = NULL;
    const struct gpu_sampler_opts opts = {.purposes = GPU_SAMPLE, .uuids = m->uuids};
    struct err e = {0};
    int period = 0;
    struct timespec next;
    sample_host(m); /* before the driver, which may take seconds to start */
    if (strv_len(m->uuids) > 0 && gpu_sampler_open(&gpus, &opts, &e) < 0)
        log_info("GPUs are not sampled: %s", e.text);
    do {
        next = clock_in_ms(PERIOD_MS);
        if (gpus)
            sample_gpus(m, &gpus);
        if (period++ % HOST_PERIODS == HOST_PERIODS - 1)
            sample_host(m);
    } while (wait_until(m, &next));
    release(m);
    return NULL;
}

/* ---- open and close ------------------------------------------------------------------------- */

/* Starts a thread that gets no signals, since the loop handles them. */
static bool start_thread(struct job_monitor *m)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, run, m) == 0 && pthread_detach(thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

struct job_monitor *job_monitor_open(char *const *uuids, const char *cpus,
                                     const struct job_usage *earlier)
{
    struct job_monitor *m = xzalloc(sizeof *m);
    pthread_condattr_t clock;
    m->uuids = strv_copy(uuids);
    m->host = host_sampler_open(cpus, "");
    m->usage = earlier ? job_usage_copy(earlier) : job_usage_new();
    job_usage_pause(m->usage);
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wake, &clock);
    pthread_condattr_destroy(&clock);
    if (start_thread(m))
        return m;
    release(m);
    return NULL;
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

int job_monitor_latest(struct job_monitor *m, struct gpu_sample **out)
{
    *out = NULL;
    if (!m)
        return 0;
    pthread_mutex_lock(&m->lock);
    int n = m->count;
    if (n > 0) {
        *out = xcalloc((size_t)n, sizeof **out);
        memcpy(*out, m->latest, (size_t)n * sizeof **out);
    }
    pthread_mutex_unlock(&m->lock);
    return n;
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
