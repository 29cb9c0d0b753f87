/* local - the coordinator's own worker on this host: a process in a session of its own, which
 * outlives a coordinator that is killed and is taken over by the next one.
 *
 * The worker holds a lock file with its pid and id. Where the lock is held, that worker is waited
 * for; where it is not, one is started. Its end is seen at once (pidfd) and it is started again,
 * later each time it ends without having done anything. */
#ifndef DROVER_LOCAL_WORKER_H
#define DROVER_LOCAL_WORKER_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

struct local_worker;

struct local_worker_opts {
    const char *endpoint;
    const char *lock, *left, *log; /* its files */
    int slots;                     /* at most; fewer if not as many fit */
};

struct local_worker_events {
    /* The worker of this id has ended; its guardian ends what is left of its trials. */
    void (*gone)(void *arg, const char *id);
    /* It cannot be kept running; no other event follows. `e` says why, with its last line. */
    void (*failed)(void *arg, const struct err *e);
    /* It has ended after local_worker_release(). */
    void (*released)(void *arg);
};

/* Borrows the configuration and the events. Starts nothing. */
struct local_worker *local_worker_new(uv_loop_t *loop, const struct local_worker_opts *c,
                                      const struct local_worker_events *ev, void *arg);
/* Leaves the worker as it is. Its handles close on the loop's next turn, which frees it. */
void local_worker_free(struct local_worker *l);

/* Takes over the one that runs, or starts one. First tells of one that ended unseen (gone). */
void local_worker_start(struct local_worker *l);
/* Takes over the one that runs, if any: to be told to end. */
void local_worker_reattach(struct local_worker *l);
/* The worker of this id is at work: its next end counts as the first. */
void local_worker_hello(struct local_worker *l, const char *id);
/* The worker was told to end: it is not started again. `released` follows, at once where none runs.
 */
void local_worker_release(struct local_worker *l);
/* SIGKILL; its guardian ends its trials. */
void local_worker_kill(struct local_worker *l);

#endif
