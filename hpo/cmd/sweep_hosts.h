/* cmd_where - the nodes on which a sweep starts workers itself: those of a host file, of -H, or of
 * the allocation that we are in. */
#ifndef DROVER_SWEEP_HOSTS_H
#define DROVER_SWEEP_HOSTS_H

#include <stdbool.h>

#include "common/err.h"
#include "hpo/coordinator/remote_workers.h"
#include "launcher/run/run_options.h"

struct sweep_hosts {
    struct run_options run; /* owns what `fleet` points to */
    char **line;
    struct remote_workers_opts fleet; /* without hosts: all is here */
    int here; /* trials at once on this machine; 0: none, -1: as many as fit */
};

/* `words`: the options of `drover run` that say where (strv, or NULL); `ranks`: of a trial. To be
 * ended with sweep_hosts_free() in every case. Errors as run_options_parse(). */
int sweep_hosts_find(struct sweep_hosts *w, char *const *words, int ranks, struct err *e);
void sweep_hosts_free(struct sweep_hosts *w);
static inline void auto_where(struct sweep_hosts *w)
{
    sweep_hosts_free(w);
}

#endif
