/* nccl_task - a call that may block for ever, in a thread of its own with a deadline.
 *
 * NCCL's calls that wait for other ranks have no deadline. A thread that does not return in time is
 * left behind. So a task contains everything that its call reads and writes. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The first member of the caller's struct, which comes from xzalloc(). */
struct nccl_task {
    pthread_mutex_t lock;
    pthread_cond_t returned;
    void (*run)(struct nccl_task *t);
    bool done, abandoned;
};

/* Starts run(t) in a thread; if there is no thread to be had, in the calling one. */
void nccl_task_start(struct nccl_task *t, void (*run)(struct nccl_task *t));

/* Waits until run() has returned. Returns false after timeout_ms. */
bool nccl_task_wait(struct nccl_task *t, int64_t timeout_ms);

/* Frees the task; if run() has not returned yet, its thread does so later. NULL is allowed. */
void nccl_task_free(struct nccl_task *t);
