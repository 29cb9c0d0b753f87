/* share - a worker's node cut into equal parts, one for each trial that runs at once.
 *
 * Pure, but that it reads a topology. */
#ifndef DROVER_SHARE_H
#define DROVER_SHARE_H

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/topo.h"

struct share {
    char *cpus;  /* hwloc list; NULL: no part of its own, trials share all there is */
    char *gpus;  /* "0,2"; NULL: the node has none */
    bool shared; /* CPUs or GPUs are another trial's too */
};

/* What of the node the worker may use, and how it is to be cut. */
struct share_want {
    const char *cpus; /* NULL: all */
    const char *gpus; /* NULL: all */
    int places;       /* > 0 */
    int ranks;        /* of a trial */
};

/* How many trials of `ranks` ranks and `gpus` GPUs (0: one for each rank, where there are any) a
 * node holds at once without sharing; at least 1.
 *   -EINVAL  it has fewer GPUs than one trial needs */
int share_places(int *out, const struct topo *t, int ranks, int gpus, struct err *e);

/* `*out` is an array of w->places shares, to be given to share_free(). Neighbouring cores and GPUs
 * stay together. */
int share_make(struct share **out, const struct topo *t, const struct share_want *w, struct err *e);
void share_free(struct share *shares, int n);

/* The first `n` of a list of GPUs ("4,5,6", 2 -> "4,5"); all where n is 0. To be freed. */
char *share_first_gpus(const char *gpus, int n);

#endif
