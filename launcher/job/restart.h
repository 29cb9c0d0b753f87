/* restart - decides if a failed job is restarted, when, without which hosts, and which nodes take
 * part in an attempt of a job that has more nodes than it needs.
 *
 * Pure. The caller passes the results of attempts with their duration. */
#pragma once

#include <stdbool.h>

#include "common/mem.h"
#include "launcher/plan/hosts.h"

struct restart;
/* `restarts_max` is the number of attempts after the first one; it may be 0. If `always` is true,
 * the cause of a failure decides nothing. */
struct restart *restart_new(int restarts_max, bool always);
void restart_free(struct restart *r);
AUTO_DEFINE(restart, struct restart *, restart_free)

/* How an attempt has ended. */
struct restart_attempt {
    int status;   /* exit status of the job; 0: the job succeeded */
    bool by_user; /* the user stopped it: by a signal, `drover kill`, --timeout or a closed pipe */
    bool not_started;  /* its program could not be started; a restart would not help */
    double seconds;    /* duration */
    const char *host;  /* host of the rank that is the cause; NULL: unknown */
    const char *cause; /* first_cause_signature(): equal for equal failures; NULL: unknown */
    bool hopeless;     /* the same failure would come again */
    bool by_host;      /* the host is the cause: another one may succeed */
};

/* Returns the number of milliseconds to wait before the next attempt, or -1 if no attempt follows.
 * The first attempt follows at once, unless the failure is hopeless; then come 1, 2, 4 … 30 s.
 * After an attempt of five minutes or more this begins again. Also records the host of the failure.
 * No attempt follows if the failure is hopeless, or if it is the same as that of the attempt before
 * (by_host: on the same host), and this one has not got further: it took less than five minutes,
 * and at most half as long again as the one before and 10 s. */
int restart_after(struct restart *r, const struct restart_attempt *end);

enum restart_refusal {
    RESTART_NOT_REFUSED, /* a restart was granted, or none was left or wanted */
    RESTART_HOPELESS,
    RESTART_SAME_AGAIN
};

/* Returns why the cause of a failure forbade the restart that was left. */
enum restart_refusal restart_refusal(const struct restart *r);

/* Returns the number of restarts that restart_after() has granted. */
int restart_count(const struct restart *r);

/* Returns true if two or more attempts have failed on the host. */
bool restart_is_bad_host(const struct restart *r, const char *host);

/* Returns `all` without the hosts that have failed in two or more attempts, or that were the cause
 * of a failure themselves. The caller frees the
 * result. The host with the most failures is excluded first. A host is excluded only if the
 * remaining hosts have `slots_needed` slots. `per_node` is the number of slots per host; 0 means
 * the slots in the host list, or 1 if the list has none. The names of the excluded hosts are
 * appended to the strv `excluded`. */
struct hosts *restart_hosts(const struct restart *r, const struct hosts *all, int slots_needed,
                            int per_node, char ***excluded);

/* What is known of a node, in the order of the host list. */
struct restart_node {
    bool out;   /* it cannot take part: it does not answer, a check would break the job, … */
    int faults; /* failed checks and failed attempts; a node with fewer is preferred */
};

/* Sets `chosen` for up to `max` nodes: those with the fewest faults, and of equal ones the first.
 * Returns the number of chosen nodes. If it is less than `min`, no node is chosen, and the result
 * is the number of nodes that could take part. */
int restart_choose_nodes(bool *chosen, const struct restart_node *nodes, int count, int min,
                         int max);
