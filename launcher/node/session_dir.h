/* workdir - a directory of this process's own, which is gone when the process is.
 *
 * It lies in ${TMPDIR:-/tmp}/drover-UID. Its owner holds a lock on it as long as it lives, so one
 * that a killed process has left can be told, and is removed by the next that makes one. */
#ifndef DROVER_SESSION_DIR_H
#define DROVER_SESSION_DIR_H

#include "common/err.h"
#include "common/mem.h"

struct workdir;

/* Makes it, with mode 0700, and removes those that nobody owns any more. */
int workdir_open(struct workdir **out, struct err *e);
/* Removes it with all that is in it. */
void workdir_close(struct workdir *w);
AUTO_DEFINE(workdir, struct workdir *, workdir_close)
/* Borrowed. */
const char *workdir_path(const struct workdir *w);

/* Removes those that nobody owns any more. */
void workdir_sweep(void);

/* A job's ranks keep shared memory in `dir` (segments.h): it is removed when the job ends, or else
 * when the directory is removed, by whomever. */
void workdir_job_begins(const struct workdir *w, const char *nspace, const char *dir);
void workdir_job_ends(const struct workdir *w, const char *nspace);

#endif
