/* restart - decides if a failed job is restarted, when, and without which hosts.
 *
 * Pure: the results of attempts go in with their duration, decisions come out. */
#ifndef DROVER_RESTART_H
#define DROVER_RESTART_H

#include <stdbool.h>

#include "common/mem.h"
#include "launcher/hosts/hosts.h"

struct restart;
/* restarts_max: number of attempts after the first one; 0: none. */
struct restart *restart_new(int restarts_max);
void restart_free(struct restart *r);
AUTO_DEFINE(restart, struct restart *, restart_free)

/* How an attempt has ended. */
struct restart_attempt {
    int status;   /* of the job; 0: it ended well */
    bool by_user; /* the user stopped it: by a signal, `drover kill`, --timeout or a closed pipe */
    bool not_started; /* its program could not be started, which a restart does not change */
    double seconds;   /* duration */
    const char *host; /* of the first failed rank; NULL: unknown */
};

/* Returns how many milliseconds to wait before the next attempt; -1: there is none. The pause is 1
 * s, then twice the previous one, at most 30 s, and 1 s again after an attempt of five minutes.
 * Records the host of the failure. */
int restart_after(struct restart *r, const struct restart_attempt *end);

/* Returns the number of restarts that restart_after() has granted. */
int restart_count(const struct restart *r);

/* Returns the hosts of `all` without those on which two attempts failed first, as long as the rest
 * has `slots_needed` slots. The host with the most failures is excluded first. `per_node`: slots
 * per host; 0: those of the host, or 1 if the host list has none. The names of excluded hosts are
 * appended to the strv `excluded`. To be freed. */
struct hosts *restart_hosts(const struct restart *r, const struct hosts *all, int slots_needed,
                            int per_node, char ***excluded);

#endif
