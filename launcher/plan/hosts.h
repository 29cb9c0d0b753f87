/* hosts - host list: the nodes that a job may use, and the number of ranks that each node may run.
 * A plain value. hostfile.c reads it from files and options, allocation.c from an allocation;
 * rank_map.c maps ranks onto it. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"

struct host {
    char *name;    /* as the user wrote it ("c01", "me@c01"); resolved when it is used */
    int slots;     /* number of ranks; 0: not given (one per GPU, else one per core) */
    int max_slots; /* limit even if oversubscribed; 0: no limit */
    int port;      /* port of its ssh server; 0: not given */
    bool here;     /* this machine (set by hostfile_mark_here()) */
};

struct hosts {
    struct host *at;
    int count;
    int room; /* number of hosts that fit into `at` */
};

/* Limits of a list. */
enum {
    HOSTS_MAX = 16384,       /* hosts */
    HOSTS_NAME_MAX = 128,    /* characters of a name, with its user */
    HOSTS_SLOTS_MAX = 65536, /* slots of a host */
};

/* Adds a host; copies `name`. If the host is listed already, adds the slots to its slots. This is
 * mpirun's rule for `-H a,a`, and for a name that occurs twice in a file. */
void hosts_add(struct hosts *h, const char *name, int slots, int max_slots);
/* Returns 0 if `name` can be the name of a host or of a user. Names are passed on the command lines
 * of mpirun and ssh, so they must not contain shell characters or begin with a dash.
 *   -EINVAL  it cannot */
int hosts_check_name(const char *name, struct err *e);
/* Does what hosts_add() does, with a name from a file, an option or the environment.
 *   -EINVAL  the name is not valid
 *   -E2BIG   the list has HOSTS_MAX other hosts, or the host would have too many slots */
int hosts_try_add(struct hosts *h, const char *name, int slots, int max_slots, struct err *e);
/* Returns the host with this name, or NULL if it is not listed. Borrowed until the next change. */
struct host *hosts_find(const struct hosts *h, const char *name);
/* Returns the hosts whose entry in `chosen` is true; NULL chooses all. The caller frees the
 * result. */
struct hosts *hosts_select(const struct hosts *h, const bool *chosen);
void hosts_free(struct hosts *h);
AUTO_DEFINE(hosts, struct hosts *, hosts_free)
