/* hosts - the nodes that a job may use, and how many ranks each takes. A plain value: hostfile.c
 * reads it from files and options, alloc.c from an allocation, seat.c seats ranks on it. */
#ifndef DROVER_HOSTS_H
#define DROVER_HOSTS_H

#include <stdbool.h>

#include "common/mem.h"

struct host {
    char *name;    /* as it was given ("c01", "me@c01"); resolved where it is used */
    int slots;     /* ranks that it takes; 0: not said (one a GPU, else one a core) */
    int max_slots; /* even when oversubscribed; 0: no limit */
    bool here;     /* it is this machine (hostfile_mark_here()) */
};

struct hosts {
    struct host *at;
    int count;
};

/* A host that is there already gets the slots added (mpirun's rule for `-H a,a` and for a name
 * that stands twice in a file). Copies `name`. */
void hosts_add(struct hosts *h, const char *name, int slots, int max_slots);
/* The host of that name; NULL: there is none. Borrowed until the next change. */
struct host *hosts_find(const struct hosts *h, const char *name);
void hosts_free(struct hosts *h);
AUTO_DEFINE(hosts, struct hosts *, hosts_free)

#endif
