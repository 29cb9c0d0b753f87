/* registry - the jobs of this user that run on this machine: a file for each, which is there as
 * long as the job is.
 *
 * They lie in ${XDG_RUNTIME_DIR}/drover/jobs, or /tmp/drover-UID/drover/jobs where that is not set
 * or cannot be used; who looks, looks into both. The directories are ours alone (0700). A job is
 * its process, pid and start time together: what a killed drover has left is no job, and is
 * removed by whoever sees it. */
#ifndef DROVER_REGISTRY_H
#define DROVER_REGISTRY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"

/* What is known of a job. */
struct registry_job {
    char *id;
    pid_t pid;             /* of its drover */
    uint64_t start;        /* of that process: clock ticks since boot */
    char *command;         /* without secrets */
    char *dir;             /* it was started in */
    int ranks, first_rank; /* first_rank is not 0 where this is a share of a larger job */
    char *nodes;           /* apart by commas */
    char *output_dir;      /* of --output-filename; "": none */
    char *lines;           /* the file of ring.h; need not be there */
    int64_t started_ms;    /* since 1970 */
};

struct registry;

/* Enters a job of this process. `pid`, `start`, `dir`, `lines` and `started_ms` are filled in here.
 * Copies what it needs. */
int registry_enter(struct registry **out, const struct registry_job *job, struct err *e);
/* Removes it, and its lines. */
void registry_leave(struct registry *r);
AUTO_DEFINE(registry, struct registry *, registry_leave)
/* Where its lines go (struct registry_job.lines). Borrowed. */
const char *registry_lines(const struct registry *r);

/* All jobs that run, the oldest first. */
struct registry_list {
    struct registry_job *at;
    size_t count;
};
void registry_read(struct registry_list *out);
void registry_end(struct registry_list *l);

/* The one job whose id, or its part after "drover-", begins with `prefix`. Borrowed.
 *   -ENOENT  there is none; -EEXIST  there are several */
int registry_find(const struct registry_job **out, const struct registry_list *l,
                  const char *prefix, struct err *e);

/* Whether the job's process is still there. */
int registry_is_alive(const struct registry_job *j);

json_t *registry_json(const struct registry_job *j);

#endif
