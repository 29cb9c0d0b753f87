#include "collectives/bootstrap/task.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "common/clock.h"

static void destroy(struct task *t)
{
    pthread_cond_destroy(&t->returned);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void task_open(struct task *t)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->returned, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void task_done(struct task *t)
{
    pthread_mutex_lock(&t->lock);
    t->done = true;
    bool abandoned = t->abandoned;
    pthread_cond_signal(&t->returned);
    pthread_mutex_unlock(&t->lock);
    if (abandoned)
        destroy(t);
}

static void *run(void *arg)
{
    struct task *t = arg;
    t->run(t);
    task_done(t);
    return NULL;
}

/* Signals are for the program's own threads. */
void task_start(struct task *t, void (*call)(struct task *t))
{
    pthread_t thread;
    sigset_t all, before;
    task_open(t);
    t->run = call;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, run, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(thread);
    else
        run(t);
}

bool task_wait(struct task *t, int64_t timeout_ms)
{
    struct timespec end = clock_in_ms(timeout_ms > 0 ? timeout_ms : 0);
    pthread_mutex_lock(&t->lock);
    while (!t->done && pthread_cond_timedwait(&t->returned, &t->lock, &end) != ETIMEDOUT)
        ;
    bool done = t->done;
    pthread_mutex_unlock(&t->lock);
    return done;
}

void task_free(struct task *t)
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
