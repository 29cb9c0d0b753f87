/* trial_dir - the directory of a trial: its parameters, and per lease its output and checkpoints.
 *
 *     trials/000017/params.json
 *     trials/000017/LEASE/{stdout,stderr,ckpt/,config.yaml}    config.yaml: for W&B's library
 *     trials/000017/LEASE/wandb-stand-in    its program has imported drover's stand-in for W&B's
 *
 * stderr is created with its first line. A lease starts from a copy of the last complete checkpoint
 * directory of the leases before it, so that another copy of the trial that still runs on a lost
 * node cannot damage it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* Returns sweep_dir/trials/000017; to be freed. */
char *trial_dir_path(const char *sweep_dir, int trial);

struct trial_dir_opts {
    const char *root; /* a trial_dir_path() */
    int64_t lease;
    const char *params; /* text of root/params.json */
    const char *config; /* text of root/LEASE/config.yaml */
};

/* Makes the directory of the lease. *resumed: the trial had a lease before. *from is the last lease
 * with a complete checkpoint directory, for trial_dir_copy(); 0: there is none, and an empty ckpt/
 * was made. -errno  as mkdir(), open() and write() */
int trial_dir_make(const struct trial_dir_opts *opts, bool *resumed, int64_t *from, struct err *e);
/* Makes ckpt/ as a copy of that of lease `from`, complete or not at all. May take long: do not call
 * it on the loop's thread. -errno  as open(), read() and write() */
int trial_dir_copy(const struct trial_dir_opts *opts, int64_t from, struct err *e);
