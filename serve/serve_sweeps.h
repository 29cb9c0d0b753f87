/* serve_sweeps - the sweeps of a directory, each read once and then kept up to date. */
#ifndef DROVER_SERVE_SWEEPS_H
#define DROVER_SERVE_SWEEPS_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/reader/sweep_reader.h"
#include "serve/serve_columns.h"

enum { SERVE_SWEEPS_OPEN_MAX = 16 }; /* sweeps in memory at once */

struct serve_sweeps;

struct serve_sweep {
    struct sweep_reader *reader;
    struct serve_columns *columns;
    int64_t epoch;      /* identifies the store: a sweep that is started anew has another one */
    json_t *importance; /* the last result; NULL: none */
    int64_t importance_seq, importance_ms; /* the last record that it knows; when it was computed */
};

/* `root`: the directory of all sweeps. `chosen`: the sweep that the page shows first; NULL: none.
 */
struct serve_sweeps *serve_sweeps_new(const char *root, const char *chosen);
void serve_sweeps_free(struct serve_sweeps *s);
AUTO_DEFINE(serve_sweeps, struct serve_sweeps *, serve_sweeps_free)

const char *serve_sweeps_root(const struct serve_sweeps *s);

/* Returns a sweep with all that is stored now. It is borrowed until the next call.
 * A sweep that was not asked for in the last minute is closed.
 *   -ENOENT  there is no sweep with this name
 *   -EBUSY   SERVE_SWEEPS_OPEN_MAX others are in use; others as sweep_reader_open() */
int serve_sweeps_get(struct serve_sweep **out, struct serve_sweeps *s, const char *name,
                     struct err *e);

/* Returns {"root", "chosen", "sweeps": [{"name", "state"?, "trials"?, "best"?, "maximize"?,
 * "method"?, "error"?}, …]} (new reference). A sweep that was not yet read has a name only; each
 * call reads some of them. */
json_t *serve_sweeps_list(struct serve_sweeps *s, struct err *e);

#endif
