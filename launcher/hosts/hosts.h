/* hosts - host list: the nodes that a job may use and the number of ranks that each may run. A
 * plain value. hostfile.c reads it from files and options, allocation.c from an allocation;
 * rank_map.c maps ranks onto it. */
#ifndef DROVER_HOSTS_H
#define DROVER_HOSTS_H

#include <stdbool.h>

#include "common/mem.h"

struct host {
    char *name;    /* as the user wrote it ("c01", "me@c01"); resolved when it is used */
    int slots;     /* ranks; 0: not given (one per GPU, else one per core) */
    int max_slots; /* limit even if oversubscribed; 0: no limit */
    int port;      /* of its ssh server; 0: not given */
    bool here;     /* this machine (set by hostfile_mark_here()) */
};

struct hosts {
    struct host *at;
    int count;
};

/* Adds a host. If it is listed already, its slots are added up (mpirun's rule for `-H a,a` and for
 * a name that occurs twice in a file). Copies `name`. */
void hosts_add(struct hosts *h, const char *name, int slots, int max_slots);
/* Returns the host with that name, borrowed until the next change; NULL: not listed. */
struct host *hosts_find(const struct hosts *h, const char *name);
void hosts_free(struct hosts *h);
AUTO_DEFINE(hosts, struct hosts *, hosts_free)

#endif
