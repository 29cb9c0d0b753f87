/* serve_sweeps - the sweeps of a directory, each read once and then kept up to date. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "hpo/reader/sweep_reader.h"
#include "serve/data/serve_columns.h"

enum {
    SERVE_SWEEPS_OPEN_MAX = 16,       /* sweeps in memory at once */
    SERVE_SWEEPS_FRESH_MS = 450,      /* a sweep that was read this lately is not read again */
    SERVE_SWEEPS_KEPT_MAX = 4,        /* answers per sweep that are kept */
    SERVE_SWEEPS_KEPT_BYTES = 1 << 18 /* a larger answer is not kept: few viewers ask for it */
};

struct serve_sweeps;

/* An answer that is the same for all viewers until the sweep is read again. */
struct serve_kept {
    int64_t since;      /* the columns' first record; SERVE_KEPT_OVERVIEW */
    struct strbuf body; /* empty: none */
};
enum { SERVE_KEPT_OVERVIEW = -1 };

struct serve_sweep {
    struct sweep_reader *reader;
    struct serve_columns *columns;
    int64_t epoch;      /* identifies the store: a sweep that is started anew has another one */
    json_t *importance; /* the last result; NULL: none */
    int64_t importance_seq, importance_ms; /* its last record; when it was computed */
    struct serve_kept kept[SERVE_SWEEPS_KEPT_MAX];
    size_t kept_next; /* index of the entry that the next answer replaces */
};

/* `root`: the directory of all sweeps. `chosen`: the sweep that the page shows first; NULL:
 * none. */
struct serve_sweeps *serve_sweeps_new(const char *root, const char *chosen);
void serve_sweeps_free(struct serve_sweeps *s);
AUTO_DEFINE(serve_sweeps, struct serve_sweeps *, serve_sweeps_free)

const char *serve_sweeps_root(const struct serve_sweeps *s);

/* Returns a sweep with all that was stored SERVE_SWEEPS_FRESH_MS ago or later, so that viewers who
 * ask at the same time get the same answers. It is borrowed until the next call.
 * A sweep that was not asked for in the last minute is closed.
 *   -ENOENT  there is no sweep with this name
 *   -EBUSY   SERVE_SWEEPS_OPEN_MAX others are in use; others as sweep_reader_open() */
int serve_sweeps_get(struct serve_sweep **out, struct serve_sweeps *s, const char *name,
                     struct err *e);

/* A command has changed the sweep: the next call of serve_sweeps_get() reads it. */
void serve_sweeps_changed(struct serve_sweeps *s, const char *name);

/* Appends the kept answer for `since`. Returns false if there is none. */
bool serve_sweep_add_kept(struct strbuf *out, const struct serve_sweep *s, int64_t since);
/* Keeps a copy of an answer until the sweep is read again, if it is not too large. */
void serve_sweep_keep(struct serve_sweep *s, int64_t since, const struct strbuf *body);

/* Returns {"root", "chosen", "sweeps": [{"name", "state"?, "trials"?, "best"?, "maximize"?,
 * "method"?, "error"?}, …]} (new reference). A sweep that was not yet read has a name only; each
 * call reads some of them. */
json_t *serve_sweeps_list(struct serve_sweeps *s, struct err *e);
