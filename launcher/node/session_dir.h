/* workdir - a directory of this process's own, which is gone when the process is.
 *
 * It lies in ${TMPDIR:-/tmp}/drover-UID. Its owner holds a lock on it as long as it lives, so one
 * that a killed process has left can be told, and is removed by the next that makes one. */
#ifndef DROVER_SESSION_DIR_H
#define DROVER_SESSION_DIR_H

#include "common/err.h"
#include "common/mem.h"

struct session_dir;

/* Makes it, with mode 0700, and removes those that nobody owns any more. */
int session_dir_open(struct session_dir **out, struct err *e);
/* Removes it with all that is in it. */
void session_dir_close(struct session_dir *w);
AUTO_DEFINE(session_dir, struct session_dir *, session_dir_close)
/* Borrowed. */
const char *session_dir_path(const struct session_dir *w);

/* Removes those that nobody owns any more. */
void session_dir_remove_stale(void);

/* A job's ranks keep shared memory in `dir` (segments.h): it is removed when the job ends, or else
 * when the directory is removed, by whomever. */
void session_dir_job_begins(const struct session_dir *w, const char *nspace, const char *dir);
void session_dir_job_ends(const struct session_dir *w, const char *nspace);

#endif
