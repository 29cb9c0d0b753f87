#include "launcher/history/gpu_load.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "common/clock.h"
#include "launcher/gpu/gpu.h"

enum { PERIOD_MS = 1000 };

struct gpu_load {
    pthread_mutex_t lock; /* of all fields below */
    pthread_cond_t wake;
    bool closed; /* the thread frees it */
    double sum;  /* of `count` utilisations in percent */
    int count;
    char **uuids; /* constant */
};

static bool is_of_job(const struct gpu_load *g, const char *uuid)
{
    for (char **u = g->uuids; *u; u++)
        if (strcmp(*u, uuid) == 0)
            return true;
    return false;
}

static void sample(struct gpu_load *g)
{
    AUTO(free) struct gpu_usage *usage = NULL;
    int n = 0;
    if (gpu_usage(&usage, &n, NULL) < 0)
        return; /* the job has found its GPUs; a sample is missing */
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < n; i++) {
        if (usage[i].busy_percent < 0 || !is_of_job(g, usage[i].uuid))
            continue;
        g->sum += usage[i].busy_percent;
        g->count++;
    }
    pthread_mutex_unlock(&g->lock);
}

/* Waits for a period. Returns false if gpu_load_close() was called. */
static bool wait_period(struct gpu_load *g)
{
    struct timespec end = clock_in_ms(PERIOD_MS);
    pthread_mutex_lock(&g->lock);
    while (!g->closed && pthread_cond_timedwait(&g->wake, &g->lock, &end) == 0)
        ;
    bool closed = g->closed;
    pthread_mutex_unlock(&g->lock);
    return !closed;
}

static void release(struct gpu_load *g)
{
    pthread_cond_destroy(&g->wake);
    pthread_mutex_destroy(&g->lock);
    strv_free(g->uuids);
    free(g);
}

static void *run(void *arg)
{
    struct gpu_load *g = arg;
    while (wait_period(g))
        sample(g);
    release(g);
    return NULL;
}

/* Starts a thread that gets no signals, since the loop handles them. */
static bool start_thread(struct gpu_load *g)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, run, g) == 0 && pthread_detach(thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

struct gpu_load *gpu_load_open(char *const *uuids)
{
    if (strv_len(uuids) == 0)
        return NULL;
    struct gpu_load *g = xzalloc(sizeof *g);
    pthread_condattr_t clock;
    g->uuids = strv_copy(uuids);
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&g->wake, &clock);
    pthread_condattr_destroy(&clock);
    if (start_thread(g))
        return g;
    release(g);
    return NULL;
}

void gpu_load_close(struct gpu_load *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    g->closed = true;
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
}

double gpu_load_mean(struct gpu_load *g)
{
    if (!g)
        return -1;
    pthread_mutex_lock(&g->lock);
    double mean = g->count > 0 ? g->sum / g->count / 100 : -1;
    pthread_mutex_unlock(&g->lock);
    return mean;
}
