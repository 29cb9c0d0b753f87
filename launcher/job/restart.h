/* restart - whether a job that has failed is started again, when, and without which hosts.
 *
 * Pure: ends of attempts go in with the time that they took, decisions come out. */
#ifndef DROVER_RESTART_H
#define DROVER_RESTART_H

#include <stdbool.h>

#include "common/mem.h"
#include "launcher/plan/hosts.h"

struct restart;
/* restarts_max: so many after the first attempt; 0: none. */
struct restart *restart_new(int restarts_max);
void restart_free(struct restart *r);
AUTO_DEFINE(restart, struct restart *, restart_free)

/* How an attempt has ended. */
struct restart_attempt {
    int status;    /* the job's; 0: well */
    bool unwanted; /* the user ended it: by a signal, drover kill, a time limit or a closed pipe */
    bool not_started; /* its program could not be started: that does not change by itself */
    double seconds;   /* that it ran */
    const char *host; /* where it failed first; NULL: not known */
};

/* Milliseconds to wait before the next attempt; -1: there is none. The pause is 1 s, then twice the
 * one before, 30 s at most; 1 s again after an attempt that ran for five minutes. Remembers where
 * it failed. */
int restart_after(struct restart *r, const struct restart_attempt *end);

/* Restarts so far: of the attempt that restart_after() has asked for last. */
int restart_count(const struct restart *r);

/* The hosts of `all` without those where two attempts have failed first, as long as what is left
 * has `slots_needed` slots (`per_node` each where that is not 0; hosts that do not say theirs count
 * one): who failed most often is left out first. `left_out` (a strv to which names are added) says
 * who. To be freed. */
struct hosts *restart_hosts(const struct restart *r, const struct hosts *all, int slots_needed,
                            int per_node, char ***left_out);

#endif
