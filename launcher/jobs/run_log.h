/* run_log - the log of a run: an SQLite file of this user, runs/ID.db in sqlite_dir(), with mode
 * 0600 in a directory with mode 0700. run_store reads it.
 *
 * Tables, as those of a sweep's store: record(seq, at_ms, kind, rank, data), in the order in which
 * things happened, and meta(key, value). `data` and `value` are JSON. Nothing is forced to the
 * disk: what was committed survives the end of every process, not that of the machine.
 *
 * What is added waits in memory for run_log_commit(). The file has at most 80 bytes per report,
 * and 64 MiB: beyond that every second report goes, the oldest first, and again if need be. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"

enum {
    RUN_LOG_APPLICATION_ID = 0x64726872, /* "drhr": PRAGMA application_id */
    RUN_LOG_FORMAT = 1,                  /* PRAGMA user_version */
    RUN_LOG_NO_RANK = -1
};

struct run_log;

/* Makes no file yet. `id`: of the job; it is copied. */
struct run_log *run_log_new(const char *id);
/* Drops what is not committed. */
void run_log_close(struct run_log *l);
AUTO_DEFINE(run_log, struct run_log *, run_log_close)

/* Adds a record of this moment. Takes over the reference to `data`. `kind` is in static memory. */
void run_log_add(struct run_log *l, const char *kind, int rank, json_t *data);
/* Sets a value of `meta`. Takes over the reference to `value`; NULL: has no effect. */
void run_log_put(struct run_log *l, const char *key, json_t *value);

/* Writes what was added, all or nothing; makes the file and its directories first. With `last`,
 * waits for a reader for up to 1 s; else what a reader delays stays for the next call, which is not
 * a failure. After a failure nothing is kept in memory and nothing may be added any more. -errno as
 * sqlite_dir() and sqlite_open() */
int run_log_commit(struct run_log *l, bool last, struct err *e);

/* The id under which the run is stored: that of the job, or if there is a run of this id already,
 * with the number of this process. Borrowed; known after the first commit. */
const char *run_log_id(const struct run_log *l);
