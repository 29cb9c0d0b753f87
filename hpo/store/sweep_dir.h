/* sweepdir - the directory of a sweep and what lies in it: the file it was made from, its store,
 * its locks, where its coordinator listens.
 *
 *     sweeps/NAME/{sweep.yaml,sweep.db,lock,worker.HOST.lock,worker.HOST.log,coord.sock,endpoint,
 *                  workers.json}    and those of keys.h, listen.h and desk.h
 */
#ifndef DROVER_SWEEP_DIR_H
#define DROVER_SWEEP_DIR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/store/event_store.h"
#include "hpo/store/lockfile.h"

enum { SWEEP_DIR_NAME_MAX = 64 };

struct sweep_dir {
    char *name;
    char *path; /* absolute */
    struct event_store *store;
    int lock;      /* held; -1 where it was opened to read */
    bool fresh;    /* nothing has happened in it yet */
    uint64_t seed; /* of the sweep, as stored */
    char *file;    /* the sweep file's text, as stored */
    json_t *prior; /* what it learnt from other sweeps before its start, as stored:
                      {"from": [their directories], "observations": (prior.h)}; NULL: nothing */
};

/* What to open. */
struct sweep_dir_opts {
    const char *root;     /* the directory of all sweeps */
    const char *name;     /* sweep_dir_name_ok() */
    const char *file;     /* the sweep file's text; NULL: the stored one */
    const uint64_t *seed; /* NULL: the stored one, or `file_seed` */
    uint64_t file_seed;   /* what the file says */
    const json_t *prior;  /* likewise; NULL: the stored one, or none */
    bool must_exist;      /* --resume */
};

/* Letters, digits, '.', '_' and '-', not first a '.' or '-', at most SWEEP_DIR_NAME_MAX. */
bool sweep_dir_name_ok(const char *name);
/* The text as such a name: other characters become '-'. "sweep" where nothing is left. To be freed.
 */
char *sweep_dir_slug(const char *text);

/* Makes what is not there yet and locks it: this process is now the sweep's coordinator.
 *   -ENOENT  must_exist, and it does not
 *   -EEXIST  another sweep file, seed or prior is stored there
 *   -EBUSY   another process coordinates it; the text names it
 *   others   as mkdir(), open() and event_store_open() say
 * Where the directory did not exist before and this fails, what it made is removed again. */
int sweep_dir_open(struct sweep_dir **out, const struct sweep_dir_opts *ask, struct err *e);

/* Its directory, absolute: to be freed.
 *   -ENOENT  there is no sweep of that name; the text lists the nearest */
int sweep_dir_find(char **out, const char *root, const char *name, struct err *e);

/* To read: its store and its file. Changes nothing.
 *   -ENOENT  as sweep_dir_find() */
int sweep_dir_read(struct sweep_dir **out, const char *root, const char *name, struct err *e);

void sweep_dir_close(struct sweep_dir *d);
AUTO_DEFINE(sweep_dir, struct sweep_dir *, sweep_dir_close)

/* Who coordinates it now (`held`), or did last. */
struct lockfile_owner sweep_dir_owner(const struct sweep_dir *d);

/* The names of the sweeps below `root`, sorted: a strv, NULL where there are none.
 *   as opendir() says; a root that does not exist has none */
int sweep_dir_list(char ***out, const char *root, struct err *e);

/* A file of the sweep's for this host: PATH/worker.HOST.SUFFIX. To be freed. */
char *sweep_dir_host_file(const struct sweep_dir *d, const char *suffix);

/* Where its coordinator listens: an ipc:// address in the directory, or, where that path is too
 * long for a socket, in a private directory of the user's, which is made. Always the same for one
 * directory on one host. Written to PATH/endpoint.
 *   -EPERM  the private directory is not the user's own */
int sweep_dir_endpoint(char **out, const struct sweep_dir *d, struct err *e);

/* Who works for it now, in PATH/workers.json: a list of {"id","node","places","slots","gpus"}. */
int sweep_dir_write_workers(const struct sweep_dir *d, const json_t *list, struct err *e);
/* The same (new reference); an empty list where no coordinator works on it. */
json_t *sweep_dir_workers(const struct sweep_dir *d);

#endif
