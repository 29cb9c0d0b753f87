/* trial_paths - the directories of a worker's trials on this node: where they run, and where their
 * files are.
 *
 * A trial runs in the directory in which the sweep was started, which must exist on this node too.
 * Its own directory is in the sweep's directory if that is on this node and writable. The
 * worker.key in it shows that it is the same directory, and not another one of that name. Otherwise
 * the trial's directory is in a directory of this node, and other nodes cannot use its checkpoints.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/curve_keys.h"

struct trial_paths {
    char *wdir;  /* the working directory */
    char *sweep; /* the directory of the sweep on this node, which has the directories of trials */
    bool moved;  /* `sweep` replaces the coordinator's directory on this node */
};

struct trial_paths_opts {
    const char *wdir; /* working directory of trials; NULL: as the coordinator says */
    const char *dir;  /* for the files of trials, if the sweep's directory is not on this node */
    const struct curve_keys
        *keys; /* NULL: the coordinator is on this node, and its paths are valid */
};

/* `run` is the data of a WIRE_RUN.
 *   -ENOENT, -EACCES, …  the working directory is not on this node
 *   others               as mkdir(), for opts->dir */
int trial_paths_new(struct trial_paths **out, const struct trial_paths_opts *opts,
                    const json_t *run, struct err *e);
void trial_paths_free(struct trial_paths *s);
AUTO_DEFINE(trial_paths, struct trial_paths *, trial_paths_free)
