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

enum { SWEEPDIR_NAME_MAX = 64 };

struct sweepdir {
    char *name;
    char *path; /* absolute */
    struct store *store;
    int lock;      /* held; -1 where it was opened to read */
    bool fresh;    /* nothing has happened in it yet */
    uint64_t seed; /* of the sweep, as stored */
    char *file;    /* the sweep file's text, as stored */
    json_t *prior; /* what it learnt from other sweeps before its start, as stored:
                      {"from": [their directories], "observations": (prior.h)}; NULL: nothing */
};

/* What to open. */
struct sweepdir_ask {
    const char *root;     /* the directory of all sweeps */
    const char *name;     /* sweepdir_name_ok() */
    const char *file;     /* the sweep file's text; NULL: the stored one */
    const uint64_t *seed; /* NULL: the stored one, or `file_seed` */
    uint64_t file_seed;   /* what the file says */
    const json_t *prior;  /* likewise; NULL: the stored one, or none */
    bool must_exist;      /* --resume */
};

/* Letters, digits, '.', '_' and '-', not first a '.' or '-', at most SWEEPDIR_NAME_MAX. */
bool sweepdir_name_ok(const char *name);
/* The text as such a name: other characters become '-'. "sweep" where nothing is left. To be freed.
 */
char *sweepdir_slug(const char *text);

/* Makes what is not there yet and locks it: this process is now the sweep's coordinator.
 *   -ENOENT  must_exist, and it does not
 *   -EEXIST  another sweep file, seed or prior is stored there
 *   -EBUSY   another process coordinates it; the text names it
 *   others   as mkdir(), open() and store_open() say
 * Where the directory did not exist before and this fails, what it made is removed again. */
int sweepdir_open(struct sweepdir **out, const struct sweepdir_ask *ask, struct err *e);

/* Its directory, absolute: to be freed.
 *   -ENOENT  there is no sweep of that name; the text lists the nearest */
int sweepdir_find(char **out, const char *root, const char *name, struct err *e);

/* To read: its store and its file. Changes nothing.
 *   -ENOENT  as sweepdir_find() */
int sweepdir_read(struct sweepdir **out, const char *root, const char *name, struct err *e);

void sweepdir_close(struct sweepdir *d);
AUTO_DEFINE(sweepdir, struct sweepdir *, sweepdir_close)

/* Who coordinates it now (`held`), or did last. */
struct lockfile_owner sweepdir_owner(const struct sweepdir *d);

/* The names of the sweeps below `root`, sorted: a strv, NULL where there are none.
 *   as opendir() says; a root that does not exist has none */
int sweepdir_list(char ***out, const char *root, struct err *e);

/* A file of the sweep's for this host: PATH/worker.HOST.SUFFIX. To be freed. */
char *sweepdir_host_file(const struct sweepdir *d, const char *suffix);

/* Where its coordinator listens: an ipc:// address in the directory, or, where that path is too
 * long for a socket, in a private directory of the user's, which is made. Always the same for one
 * directory on one host. Written to PATH/endpoint.
 *   -EPERM  the private directory is not the user's own */
int sweepdir_endpoint(char **out, const struct sweepdir *d, struct err *e);

/* Who works for it now, in PATH/workers.json: a list of {"id","node","places","slots","gpus"}. */
int sweepdir_put_workers(const struct sweepdir *d, const json_t *list, struct err *e);
/* The same (new reference); an empty list where no coordinator works on it. */
json_t *sweepdir_workers(const struct sweepdir *d);

#endif
