#include "collectives/backends/nccl/nccl_task.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "common/clock.h"

static void destroy(struct nccl_task *t)
{
    pthread_cond_destroy(&t->returned);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static void *run(void *arg)
{
    struct nccl_task *t = arg;
    t->run(t);
    pthread_mutex_lock(&t->lock);
    t->done = true;
    bool abandoned = t->abandoned;
    pthread_cond_signal(&t->returned);
    pthread_mutex_unlock(&t->lock);
    if (abandoned)
        destroy(t);
    return NULL;
}

/* Signals are for the program's own threads. */
static bool start_thread(struct nccl_task *t)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, run, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(thread);
    return started;
}

void nccl_task_start(struct nccl_task *t, void (*call)(struct nccl_task *t))
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->returned, &monotonic);
    pthread_condattr_destroy(&monotonic);
    t->run = call;
    if (!start_thread(t))
        run(t);
}

bool nccl_task_wait(struct nccl_task *t, int64_t timeout_ms)
{
    struct timespec end = clock_in_ms(timeout_ms > 0 ? timeout_ms : 0);
    pthread_mutex_lock(&t->lock);
    while (!t->done && pthread_cond_timedwait(&t->returned, &t->lock, &end) != ETIMEDOUT)
        ;
    bool done = t->done;
    pthread_mutex_unlock(&t->lock);
    return done;
}

void nccl_task_free(struct nccl_task *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    bool done = t->done;
    t->abandoned = true;
    pthread_mutex_unlock(&t->lock);
    if (done)
        destroy(t);
}
