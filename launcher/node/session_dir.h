/* session_dir - session directory: a private directory of this process that is removed when the
 * process ends.
 *
 * It is in the private directory of ${TMPDIR:-/tmp} (private_dir.h). Its owner holds a lock on it
 * until it exits. So the directory of a killed process is recognised, and the next process that
 * creates a session directory removes it. */
#pragma once

#include "common/err.h"
#include "common/mem.h"

struct session_dir;

/* Creates a session directory with mode 0700 and removes stale ones. */
int session_dir_open(struct session_dir **out, struct err *e);
/* Does the same, but only chooses the path. session_dir_make() creates the directory, unless it
 * exists: most jobs do not need it, and a directory that is made and removed costs a twentieth of
 * the start and end of a small one. */
int session_dir_reserve(struct session_dir **out, struct err *e);
int session_dir_make(struct session_dir *s, struct err *e);
/* Removes the directory and its contents. */
void session_dir_close(struct session_dir *s);
AUTO_DEFINE(session_dir, struct session_dir *, session_dir_close)
/* Returns the path of the directory. Borrowed. */
const char *session_dir_path(const struct session_dir *s);

/* Returns a path next to the session directories that no other process uses: KIND-PID-RANDOM. The
 * caller frees it. */
int session_dir_beside(char **out, const char *kind, struct err *e);

/* Removes stale session directories, whose owner has ended, and files of the kind
 * SESSION_DIR_ERROR that are a day old. */
void session_dir_remove_stale(void);

#define SESSION_DIR_ERROR "error"

/* Registers that the ranks of a job keep shared memory in `dir` (session_dir_remove_shm()).
 * session_dir_job_ends() removes the memory. If the owner is killed before, the process that
 * removes the session directory does. */
void session_dir_job_begins(const struct session_dir *s, const char *nspace, const char *dir);
void session_dir_job_ends(const struct session_dir *s, const char *nspace);

/* Removes the shared memory of ranks of Open MPI 4 in `dir` that neither the ranks nor the PMIx
 * server could remove: files of this user that are named after the namespace. They are
 * "vader_segment.HOST.UID.JOB.RANK", "osc_sm.HOST.JOB...", "osc_rdma.HOST.JOB...", where JOB is a
 * hash of the namespace (as observed with 4.1.4). Only the PMIx server removes files of other
 * versions. Does nothing if the directory cannot be read. */
void session_dir_remove_shm(const char *dir, const char *nspace);
