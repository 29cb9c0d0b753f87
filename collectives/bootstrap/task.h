/* task - a call that may block for ever, in a separate thread with a deadline; or an answer that a
 * library's thread delivers.
 *
 * Calls of MPI and NCCL that wait for other ranks have no deadline. A thread that does not return
 * in time is left behind. So a task contains everything that its call reads and writes. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The first member of the caller's struct, which comes from xzalloc(). */
struct task {
    pthread_mutex_t lock;
    pthread_cond_t returned;
    void (*run)(struct task *t);
    bool done, abandoned;
};

/* Starts run(t) in a new thread; if no thread can be created, in the calling thread. */
void task_start(struct task *t, void (*run)(struct task *t));

/* Opens a task without a thread, which is done when task_done() is called, by any thread. */
void task_open(struct task *t);
void task_done(struct task *t);

/* Waits until the task is done. Returns false after timeout_ms. */
bool task_wait(struct task *t, int64_t timeout_ms);

/* Frees the task; one that is not done yet is freed when it is done. NULL is allowed. */
void task_free(struct task *t);
