/* sweep_hosts - the nodes on which a sweep starts workers: from a host file, -H, or the allocation
 * that drover runs in. */
#ifndef DROVER_SWEEP_HOSTS_H
#define DROVER_SWEEP_HOSTS_H

#include <stdbool.h>

#include "common/err.h"
#include "hpo/coordinator/remote_workers.h"
#include "launcher/run/run_options.h"

struct sweep_hosts {
    struct run_options run;           /* owns the hosts of `fleet` */
    char **argv;                      /* strv: a command line of `drover run` */
    struct remote_workers_opts fleet; /* without hosts: only this node */
    int local_slots;                  /* slots of this node; 0: none, -1: as many as fit */
};

/* `options`: those of `drover run` that name nodes (strv, or NULL); `ranks`: per trial. Call
 * sweep_hosts_free() in every case. Errors as run_options_parse(). */
int sweep_hosts_find(struct sweep_hosts *w, char *const *options, int ranks, struct err *e);
void sweep_hosts_free(struct sweep_hosts *w);
static inline void auto_sweep_hosts(struct sweep_hosts *w)
{
    sweep_hosts_free(w);
}

#endif
