/* redirect - the ranks' output in files, one per rank and stream: torchrun's --redirects, --tee.
 *
 *     DIR/RUN_xxxxxx/attempt_0/RANK/stdout.log and stderr.log    as torchrun lays them out
 *
 * A value is 0 none, 1 stdout, 2 stderr, 3 both, for all ranks ("3") or by local rank ("0:1,1:3").
 */
#ifndef DROVER_REDIRECT_H
#define DROVER_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"
#include "launcher/plan/plan.h"

/* Which streams of which ranks. Zero-initialised: none. */
struct redirect_map {
    int all;     /* for ranks that are not named */
    char *named; /* [local rank]: 1 + the value; 0: not named */
    int count;
};

/* Reads a value of --redirects or --tee.
 *   -EINVAL, -ERANGE  neither form */
int redirect_parse(struct redirect_map *m, const char *text, struct err *e);
void redirect_map_free(struct redirect_map *m);

struct redirect_spec {
    struct redirect_map redirects, tee; /* only to files; to files and the console */
    const char *dir;                    /* NULL: a new directory in /tmp */
    const char *run_id;                 /* NULL: "none", torchrun's default */
};

struct redirect;

/* Creates the directory. `*out` stays NULL if nothing is redirected. `s` is borrowed. */
int redirect_open(struct redirect **out, const struct redirect_spec *s, struct err *e);
/* Creates the files of an attempt (0 is the first) and observes its job. If a file cannot be
 * created, an error is logged and its lines go to the console. `r` may be NULL. */
void redirect_attach(struct redirect *r, uv_loop_t *loop, struct launch *job, int attempt);
/* Only creates the files. redirect_attach() does this. */
void redirect_plan(struct redirect *r, const struct plan *p, int attempt);
/* Writes what is buffered; a failure is logged. A handle closes in the loop's next iteration. */
void redirect_close(struct redirect *r);
AUTO_DEFINE(redirect, struct redirect *, redirect_close)

/* "DIR/RUN_xxxxxx". Borrowed. */
const char *redirect_dir(const struct redirect *r);

/* Writes a line, as launch_events has it, to its file, if it has one. After a failed write, which
 * is logged, the stream's lines go to the console. */
void redirect_line(struct redirect *r, int rank, enum launch_stream from, const char *text,
                   size_t len);
/* Writes the part of an incomplete line (launch_events.partial_line) that is not written yet. */
void redirect_partial_line(struct redirect *r, int rank, enum launch_stream from, const char *text,
                           size_t len);
/* Writes what is buffered. redirect_attach() does this before the loop waits. */
void redirect_flush(struct redirect *r);
/* Returns true if lines of that stream belong on the console. `r` may be NULL. */
bool redirect_shows(const struct redirect *r, int rank, enum launch_stream from);

#endif
