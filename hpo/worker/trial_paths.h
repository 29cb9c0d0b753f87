/* site - where a worker's trials run, and where their files lie on this node.
 *
 * A trial runs in the directory that the sweep was started in, which has to be on this node too.
 * Its own directory lies in the sweep's where that is here and may be written to: that it is the
 * same one, and not another of that name, is seen from the worker.key in it. Else it lies in a
 * directory of this node's, and its checkpoints are of no use to other nodes. */
#ifndef DROVER_TRIAL_PATHS_H
#define DROVER_TRIAL_PATHS_H

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/curve_keys.h"

struct trial_paths;

struct trial_paths_opts {
    const char *wdir; /* to run in; NULL: as the coordinator says */
    const char *dir;  /* of trials' files where the sweep's directory is not here */
    const struct curve_keys
        *keys; /* NULL: the coordinator is on this machine, and so is all it says */
};

/* `run` is a WIRE_RUN's data.
 *   -ENOENT, -EACCES, …  the directory to run in is not here
 *   others               as mkdir() says of `dir` */
int trial_paths_new(struct trial_paths **out, const struct trial_paths_opts *ask, const json_t *run,
                    struct err *e);
void trial_paths_free(struct trial_paths *s);
AUTO_DEFINE(trial_paths, struct trial_paths *, trial_paths_free)

/* Borrowed. */
const char *trial_paths_wdir(const struct trial_paths *s);
/* Stands for the coordinator's sweep directory; NULL: it is that one, or `s` is NULL. */
const char *trial_paths_dir(const struct trial_paths *s);

#endif
