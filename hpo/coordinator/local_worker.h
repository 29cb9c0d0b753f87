/* local_worker - the coordinator's own worker on this host: a process in its own session. It
 * outlives a coordinator that is killed, and the next coordinator reattaches to it.
 *
 * The worker holds a lock file with its pid and id. If the lock is held, the coordinator waits for
 * that worker; otherwise it starts one. It notices the worker's exit at once (pidfd) and starts it
 * again, with a longer delay each time the worker exits without having connected. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

struct local_worker;

struct local_worker_opts {
    const char *endpoint;
    const char *lock, *leftovers, *log; /* its files */
    int slots;                          /* at most; fewer if not as many fit */
    char *const *args;                  /* a strv: further options of the worker; NULL: none */
};

struct local_worker_events {
    /* The worker of this id has exited; its guardian ends what is left of its trials. */
    void (*exited)(void *arg, const char *id);
    /* It cannot be kept running; no other event follows. `e` has the cause and its last log
     * line. */
    void (*failed)(void *arg, const struct err *e);
    /* It has exited after local_worker_release(). */
    void (*released)(void *arg);
};

/* Borrows the options and the events. Starts nothing. */
struct local_worker *local_worker_new(uv_loop_t *loop, const struct local_worker_opts *opts,
                                      const struct local_worker_events *ev, void *arg);
/* The worker continues to run. The handles close on the loop's next turn, which frees `w`. */
void local_worker_free(struct local_worker *w);

/* Attaches to the worker that runs, or starts one. First reports a worker that exited while no
 * coordinator ran. */
void local_worker_start(struct local_worker *w);
/* Attaches to the worker that runs, if there is one, so that it can be told to end. */
void local_worker_reattach(struct local_worker *w);
/* The worker of this id has connected: its next exit counts as the first. */
void local_worker_hello(struct local_worker *w, const char *id);
/* Returns true if it was started, and its process has not connected or is started again. */
bool local_worker_is_awaited(const struct local_worker *w);
/* Returns, once, a text that says which process this coordinator waits for: one that holds the
 * lock and has not connected for some seconds. The caller frees it. NULL: there is none. */
char *local_worker_take_notice(struct local_worker *w);
/* The worker was told to end and is not started again. `released` follows: at once if none runs,
 * and soon if it does not connect: then it ends by itself, later. */
void local_worker_release(struct local_worker *w);
/* SIGKILL; its guardian ends its trials. */
void local_worker_kill(struct local_worker *w);
