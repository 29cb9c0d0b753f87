/* trialdir - the directory of a trial: its parameters, and for each lease its output and
 * checkpoints.
 *
 *     trials/000017/params.json
 *     trials/000017/LEASE/{stdout,stderr,ckpt/,config.yaml}    config.yaml: for W&B's library
 *
 * stderr is there from its first line on. A lease starts from a copy of the last whole checkpoint
 * directory of those before it, so that a copy of the trial that still runs somewhere cannot spoil
 * it. */
#ifndef DROVER_TRIAL_DIR_H
#define DROVER_TRIAL_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* sweep_dir/trials/000017; to be freed. */
char *trial_dir_path(const char *sweep_dir, int trial);

struct trial_dir_opts {
    const char *root; /* a trial_dir_path() */
    int64_t lease;
    const char *params; /* text of root/params.json */
    const char *config; /* text of root/LEASE/config.yaml */
};

/* Makes all that is asked for. *resumed tells whether the trial had a lease before; *from is the
 * last one that has a whole checkpoint directory, of which trial_dir_copy() is to make a copy. 0:
 * there is none, and ckpt/ is there, empty. */
int trial_dir_make(const struct trial_dir_opts *ask, bool *resumed, int64_t *from, struct err *e);
/* Makes ckpt/, complete or not at all. Reads and writes as much as the checkpoint holds: not for
 * the loop's thread. */
int trial_dir_copy(const struct trial_dir_opts *ask, int64_t from, struct err *e);

#endif
