#include "launcher/watch/job_monitor.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "launcher/gpu/gpu_reading.h"
#include "launcher/gpu/gpu_sampler.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/watch/host_sampler.h"

enum {
    PERIOD_MS = 1000,
    START_MS = 20000, /* a driver needs less to start */
    HOST_PERIODS = 5, /* the machine's counters are read less often: /proc/stat is long */
    STALE_MS = 10000  /* a reading of another node, whose agent sends one per second */
};

/* The latest reading of another node's GPUs. */
struct other_node {
    struct gpu_sample *samples;
    int node, count;
    int64_t at_ms;
};

struct job_monitor {
    pthread_mutex_t lock; /* of the fields up to `usage` */
    pthread_cond_t wake, sampled;
    bool closed;   /* the thread frees the monitor */
    bool hurry;    /* it does not wait for the next period … */
    bool has_gpus; /* … and samples them, which can be read, or may be later */
    struct job_monitor_reading latest; /* of this machine */
    struct other_node *others;
    int other_count;
    bool worked;             /* a GPU has, since job_monitor_has_worked() was called */
    struct job_usage *usage; /* NULL: all GPUs, without a job */
    /* of the thread */
    struct host_sampler *host; /* NULL: the machine is not sampled */
    struct gpu_sampler *gpus;  /* NULL: it is opened before the next sample */
    int64_t opened_ms;         /* when it was opened */
    char **uuids, *job_id;
    int interval_ms;
};

/* ---- the thread ----------------------------------------------------------------------------- */

/* Waits for the next period. Returns false if job_monitor_close() was called. */
static bool wait_until(struct job_monitor *m, const struct timespec *end)
{
    pthread_mutex_lock(&m->lock);
    while (!m->closed && !m->hurry && pthread_cond_timedwait(&m->wake, &m->lock, end) == 0)
        ;
    bool closed = m->closed;
    m->hurry = false;
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

/* Adds a reading to what the job has done; with the lock. */
static void account(struct job_monitor *m, double now_s, const struct gpu_sample *samples,
                    int count)
{
    m->latest.number++;
    if (m->usage)
        job_usage_add(m->usage, now_s, samples, count);
    for (int i = 0; i < count; i++)
        m->worked |= gpu_sample_is_active(&samples[i]);
}

/* Agents on this machine do not always descend from this process; their ranks have the variable. */
static bool is_of_job(const void *arg, int pid)
{
    const struct job_monitor *m = arg;
    AUTO(free) char *job = NULL;
    if (process_tree_is_descendant(pid))
        return true;
    return m->job_id && process_tree_env(&job, pid, "DROVER_JOB_ID") == 0 && job &&
           strcmp(job, m->job_id) == 0;
}

static void add_job_memory(const struct job_monitor *m, struct gpu_sample *s)
{
    int64_t bytes = gpu_sample_memory_of(s, is_of_job, m);
    if (bytes >= 0)
        gpu_sample_set(s, GPU_FACT_JOB_MEMORY, bytes);
}

static int open_gpus(struct job_monitor *m, struct err *e)
{
    const struct gpu_sampler_opts opts = {.purposes = m->usage ? GPU_SAMPLE : GPU_SAMPLE | GPU_USE,
                                          .uuids = m->uuids};
    m->opened_ms = clock_ms();
    return gpu_sampler_open(&m->gpus, &opts, e);
}

/* Reads the GPUs without the lock, since the driver may be slow. Without an answer in time the
 * latest reading stays. A process in which NVML does not start is replaced: another thread of this
 * one may have held the lock of the dynamic loader during the fork, and the child waits for it. */
static void sample_gpus(struct job_monitor *m)
{
    const struct gpu_sample *found = NULL;
    struct job_monitor_reading r = {0};
    struct err e = {0};
    int rc = m->gpus ? 0 : open_gpus(m, &e);
    rc = rc < 0 ? rc : gpu_sampler_read(m->gpus, &found, &r.count, m->interval_ms, &e);
    if (rc == -ETIMEDOUT) {
        if (gpu_sampler_init_code(m->gpus) < 0 && clock_ms() - m->opened_ms > START_MS)
            gpu_sampler_close(TAKE(m->gpus));
        return;
    }
    if (rc < 0) {
        gpu_sampler_close(TAKE(m->gpus));
        pthread_mutex_lock(&m->lock);
        m->has_gpus = rc != -ENODEV;
        pthread_cond_broadcast(&m->sampled);
        pthread_mutex_unlock(&m->lock);
        r.count = 0;
        snprintf(r.problem, sizeof r.problem, "%s", e.text);
    }
    if (rc < 0 && m->usage) {
        log_info("GPUs are not sampled: %s", e.text);
        return;
    }
    r.samples = copy(found, r.count);
    for (int i = 0; m->usage && i < r.count; i++)
        add_job_memory(m, &r.samples[i]);
    double now_s = clock_s();
    pthread_mutex_lock(&m->lock);
    r.number = m->latest.number;
    r.at_ms = clock_ms();
    free(m->latest.samples);
    m->latest = r;
    account(m, now_s, r.samples, r.count);
    pthread_cond_broadcast(&m->sampled);
    pthread_mutex_unlock(&m->lock);
}

static void release(struct job_monitor *m)
{
    pthread_cond_destroy(&m->wake);
    pthread_cond_destroy(&m->sampled);
    pthread_mutex_destroy(&m->lock);
    strv_free(m->uuids);
    free(m->job_id);
    host_sampler_close(m->host);
    gpu_sampler_close(m->gpus);
    job_usage_free(m->usage);
    free(m->latest.samples);
    for (int i = 0; i < m->other_count; i++)
        free(m->others[i].samples);
    free(m->others);
    free(m);
}

static void *run(void *arg)
{
    struct job_monitor *m = arg;
    int period = 0;
    struct timespec next;
    if (m->host)
        sample_host(m); /* before the driver, which may take seconds to start */
    do {
        next = clock_in_ms(m->interval_ms);
        if (m->has_gpus)
            sample_gpus(m);
        if (m->host && period++ % HOST_PERIODS == HOST_PERIODS - 1)
            sample_host(m);
    } while (wait_until(m, &next));
    release(m);
    return NULL;
}

/* ---- open and close ------------------------------------------------------------------------- */

/* Starts a thread that gets no signals, since the loop handles them. The process that calls the
 * driver is forked before, by the thread that may load libraries: see sample_gpus(). */
static struct job_monitor *start(struct job_monitor *m)
{
    if (m->has_gpus)
        (void)open_gpus(m, NULL); /* the thread tries again, and says why it cannot */
    pthread_condattr_t clock;
    pthread_t thread;
    sigset_t all, before;
    m->latest.at_ms = clock_ms();
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wake, &clock);
    pthread_cond_init(&m->sampled, &clock);
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

struct job_monitor *job_monitor_open(char *const *uuids, const char *cpus, const char *job_id,
                                     const struct job_usage *earlier)
{
    struct job_monitor *m = xzalloc(sizeof *m);
    m->uuids = strv_copy(uuids);
    m->job_id = job_id ? xstrdup(job_id) : NULL;
    m->has_gpus = strv_len(uuids) > 0;
    m->interval_ms = PERIOD_MS;
    m->host = cpus && !*cpus ? NULL : host_sampler_open(cpus, "");
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

static void add_other(struct job_monitor_reading *to, const struct other_node *n)
{
    to->samples = xrealloc(to->samples, (size_t)(to->count + n->count), sizeof *to->samples);
    to->nodes = xrealloc(to->nodes, (size_t)(to->count + n->count), sizeof *to->nodes);
    for (int i = 0; i < n->count; i++, to->count++) {
        to->samples[to->count] = n->samples[i];
        to->nodes[to->count] = n->node;
    }
}

void job_monitor_latest(struct job_monitor *m, struct job_monitor_reading *out)
{
    *out = (struct job_monitor_reading){0};
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    *out = m->latest;
    out->samples = copy(m->latest.samples, out->count);
    out->nodes = xcalloc((size_t)out->count, sizeof *out->nodes);
    for (int i = 0; i < out->count; i++)
        out->nodes[i] = JOB_MONITOR_HERE;
    for (int i = 0; i < m->other_count; i++)
        if (clock_ms() - m->others[i].at_ms < STALE_MS)
            add_other(out, &m->others[i]);
    pthread_mutex_unlock(&m->lock);
}

bool job_monitor_has_worked(struct job_monitor *m)
{
    if (!m)
        return false;
    pthread_mutex_lock(&m->lock);
    bool worked = m->worked;
    m->worked = false;
    pthread_mutex_unlock(&m->lock);
    return worked;
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

double job_monitor_idle_s(struct job_monitor *m, int gpus)
{
    if (!m)
        return 0;
    pthread_mutex_lock(&m->lock);
    double s = job_usage_idle_s(m->usage, gpus);
    pthread_mutex_unlock(&m->lock);
    return s;
}

void job_monitor_refresh(struct job_monitor *m, int limit_ms)
{
    if (!m)
        return;
    const struct timespec end = clock_in_ms(limit_ms);
    pthread_mutex_lock(&m->lock);
    int64_t number = m->latest.number;
    m->hurry = true;
    pthread_cond_signal(&m->wake);
    while (m->has_gpus && m->latest.number == number &&
           pthread_cond_timedwait(&m->sampled, &m->lock, &end) == 0)
        ;
    pthread_mutex_unlock(&m->lock);
}

/* ---- GPUs of other nodes -------------------------------------------------------------------- */

char *job_monitor_export(struct job_monitor *m, int64_t *number)
{
    AUTO(job_monitor_reading) struct job_monitor_reading r = {0};
    if (!m || job_monitor_number(m) == *number)
        return NULL;
    job_monitor_latest(m, &r);
    *number = r.number;
    return gpu_reading_write(r.samples, r.count);
}

int job_monitor_import(struct job_monitor *m, int node, const char *text, size_t len, struct err *e)
{
    struct other_node new = {.node = node, .at_ms = clock_ms()};
    int i = 0, rc = gpu_reading_read(&new.samples, &new.count, text, len, e);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&m->lock);
    while (i < m->other_count && m->others[i].node != node)
        i++;
    if (i == m->other_count) {
        m->others = xgrow(m->others, (size_t)m->other_count++, sizeof *m->others);
        m->others[i].samples = NULL;
    }
    free(m->others[i].samples);
    m->others[i] = new;
    account(m, clock_s(), new.samples, new.count);
    pthread_mutex_unlock(&m->lock);
    return 0;
}
