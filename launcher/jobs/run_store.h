/* run_store - the logs of this user's runs, as run_log has written them: found, read, removed.
 *
 * A file that is not a log is named in a warning and left out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"

/* A run. `meta` has the values of the file's table, and `state`: "running", "done", "failed",
 * "stopped" (by a signal of the user), or "lost" (its drover was killed). */
struct run_entry {
    char *id, *path;
    int64_t changed_ms, bytes; /* of the file */
    json_t *meta;              /* NULL: not read */
};

struct run_list { /* the last changed one first */
    struct run_entry *at;
    size_t count;
};

/* Lists the files. The caller calls run_store_end() in every case. Without a directory the list is
 * empty.
 *   -EPERM  another user owns the directory or has access to it */
int run_store_list(struct run_list *out, struct err *e);
void run_store_end(struct run_list *l);
/* Reads `meta`, unless that is done. Returns false, after a warning, if the file is not a log. */
bool run_store_read(struct run_entry *r);
/* Returns a text of `meta`; "" if there is none. Borrowed. */
const char *run_store_text(const struct run_entry *r, const char *key);
bool run_store_is(const struct run_entry *r, const char *state);
/* Returns an integer of `meta`. */
int64_t run_store_number(const struct run_entry *r, const char *key, int64_t otherwise);
/* Writes how long it ran, or has run. */
void run_store_duration(char out[24], const struct run_entry *r);
/* Writes why it has ended: what its report calls the cause, else its first sentence. */
void run_store_cause(struct strbuf *b, const struct run_entry *r);

/* Finds the run with this id, the newest one with this name, or the only one whose id, or the part
 * of it after "drover-", begins with `word`. It has been read. Borrowed.
 *   -ENOENT  there is none
 *   -EEXIST  several ids begin so */
int run_store_find(struct run_entry **out, const struct run_list *l, const char *word,
                   struct err *e);

/* Calls `fn` for each row of a query, which has one column of text. Borrowed during the call. */
int run_store_each(const struct run_entry *r, const char *sql,
                   void (*fn)(void *arg, const char *text), void *arg, struct err *e);

/*   -EBUSY  the run has not ended */
int run_store_remove(struct run_entry *r, struct err *e);
/* Removes the runs that are too old ($DROVER_RUNS_MAX_AGE_DAYS, 30 by default), and the oldest ones
 * beyond 1 GiB in total; never one that has not ended. Failures are ignored. */
void run_store_trim(void);
