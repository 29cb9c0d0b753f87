/* sweep_dir - the directory of a sweep: its file, its event store, its locks and the address of its
 * coordinator.
 *
 *     sweeps/NAME/{sweep.yaml,sweep.db,sweep.db-mark,lock,owner,worker.HOST.lock,worker.HOST.log,coord.sock,endpoint,
 *                  workers.json}    and those of curve_keys.h, listen_endpoint.h, command_mailbox.h
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/store/event_store.h"
#include "hpo/store/sweep_owner.h"

enum { SWEEP_DIR_NAME_MAX = 64 };

/* A key of the store's `meta`. The value is the sentence with which the sweep has ended, or "" if
 * it has not ended. */
#define SWEEP_DIR_META_ENDED "ended"
/* Why the last coordinator left the sweep before its end; "" after the end. While one runs, it is
 * the reason that remains if it is killed. */
#define SWEEP_DIR_META_LEFT "left"

struct sweep_dir {
    char *name;
    char *root; /* the directory of all sweeps, as the user wrote it */
    char *path; /* absolute */
    struct event_store *store;
    struct sweep_owner *owner; /* NULL: opened only for reading */
    bool fresh;                /* this process has created it, and it has no records yet */
    int64_t instance;          /* random, > 0; distinguishes the sweep from one that was here
                                  before. 0: opened only for reading, and written by an older
                                  drover */
    uint64_t seed;             /* as stored */
    char *file;                /* the sweep file's text, as stored */
    json_t *prior;             /* the warm start, as stored: {"from": [directories of other sweeps],
                                  "observations": (warm_start.h)}; NULL: none */
};

struct sweep_dir_opts {
    const char *root;                /* the directory of all sweeps */
    const char *name;                /* must satisfy sweep_dir_name_ok() */
    const char *file;                /* the sweep file's text; NULL: the stored one */
    const uint64_t *seed;            /* NULL: the stored one, or `file_seed` */
    uint64_t file_seed;              /* the seed in the file */
    const json_t *prior;             /* the warm start; NULL: the stored one, or none */
    bool must_exist;                 /* --resume */
    struct sweep_owner_watch *watch; /* sweep_owner_acquire(): do not wait; NULL: wait */
    /* Returns true if a stored file is for the same sweep as `file`, though its text is another
     * one; NULL: never */
    bool (*same)(const void *arg, const char *stored);
    const void *arg;
};

/* Returns true if `name` consists of 1 to SWEEP_DIR_NAME_MAX letters, digits, '.', '_' and '-', and
 * does not begin with '.' or '-'. */
bool sweep_dir_name_ok(const char *name);
/* Returns a valid name that is made from a text, or "sweep" if no valid character is left. Other
 * characters become '-'. The caller frees it. */
char *sweep_dir_slug(const char *text);

/* Returns a command for the sweep to paste: "drover sweep resume NAME", with --dir if it is needed.
 * `command` is "drover sweep resume". The caller frees it. */
char *sweep_dir_command(const char *command, const char *root, const char *name);

/* Returns the first of NAME, NAME-2, NAME-3, … under which no sweep with another file is stored;
 * the caller frees it. Reads `root`, `name`, `file` and `same` of the options. */
char *sweep_dir_unused_name(const struct sweep_dir_opts *opts);

/* Opens and locks the directory, and creates it if necessary. This process is then the sweep's
 * coordinator. On failure, removes what it has created.
 *   -ENOENT  `must_exist` is set, and the sweep does not exist
 *   -EEXIST  another sweep file, seed or warm start is stored there
 *   -EBUSY   another process is its coordinator; the text names it
 *   others   as mkdir(), open() and event_store_open() */
int sweep_dir_open(struct sweep_dir **out, const struct sweep_dir_opts *opts, struct err *e);

/* Returns the absolute path of a sweep's directory, which the caller frees.
 *   -ENOENT  there is no sweep with this name; the hint has the nearest name */
int sweep_dir_find(char **out, const char *root, const char *name, struct err *e);

/* Opens a sweep to read its store and its file. Changes nothing.
 *   -ENOENT  as sweep_dir_find() */
int sweep_dir_read(struct sweep_dir **out, const char *root, const char *name, struct err *e);

void sweep_dir_close(struct sweep_dir *d);
AUTO_DEFINE(sweep_dir, struct sweep_dir *, sweep_dir_close)

/* Returns the process that coordinates the sweep (`held` is true), or the last one that did. */
struct lockfile_owner sweep_dir_owner(const struct sweep_dir *d);

/* Shows other machines that this coordinator runs: to be called about once per second. Fails as
 * sweep_owner_check(); the coordinator must then stop. */
int sweep_dir_beat(const struct sweep_dir *d, struct err *e);

/* Lists the names of the sweeps in `root`, sorted, as a strv. `*out` is NULL if there are none, or
 * if `root` does not exist. Errors are those of opendir(). */
int sweep_dir_list(char ***out, const char *root, struct err *e);

/* Returns 0 if a user's command is for this sweep, or does not say for which one.
 *   -ESTALE  it was for one that was here before */
int sweep_dir_check_command(const struct sweep_dir *d, const json_t *command, struct err *e);

/* Returns the path of this host's file in the directory: PATH/worker.HOST.SUFFIX. The caller frees
 * it. */
char *sweep_dir_host_file(const struct sweep_dir *d, const char *suffix);

/* Returns the ipc:// address of the coordinator, which the caller frees, and writes it to
 * PATH/endpoint. The socket is in the directory or, if its path would be too long, in a private
 * directory of the user, which is created. The address depends only on the directory and the host.
 *   -EPERM  other users have access to the private directory */
int sweep_dir_endpoint(char **out, const struct sweep_dir *d, struct err *e);

/* Writes the roster of workers to PATH/workers.json: [{"id","node","places","slots","gpus"}, …]. */
int sweep_dir_write_workers(const struct sweep_dir *d, const json_t *list, struct err *e);
/* Returns the roster of workers (new reference). It is an empty list if no coordinator is
 * running. */
json_t *sweep_dir_workers(const struct sweep_dir *d);
