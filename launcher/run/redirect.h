/* redirect - writes the ranks' output to files, one per rank and stream: torchrun's --redirects and
 * --tee.
 *
 *     DIR/RUN_xxxxxx/attempt_0/RANK/stdout.log and stderr.log    as torchrun names them
 *
 * A value selects streams: 0 none, 1 stdout, 2 stderr, 3 both. It is given for all ranks ("3") or
 * by local rank ("0:1,1:3"). */
#ifndef DROVER_REDIRECT_H
#define DROVER_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"
#include "launcher/plan/plan.h"

/* The selected streams of each rank. If zero-initialised, no stream is selected. */
struct redirect_map {
    int all;     /* value for the ranks that are not named */
    char *named; /* [local rank]: 1 + the value; 0: not named */
    int count;
};

/* Reads a value of --redirects or --tee.
 *   -EINVAL, -ERANGE  the text has neither form */
int redirect_parse(struct redirect_map *m, const char *text, struct err *e);
void redirect_map_free(struct redirect_map *m);

struct redirect_spec {
    struct redirect_map redirects, tee; /* redirects: only to files; tee: also to the console */
    const char *dir;                    /* NULL: a new directory in /tmp */
    const char *run_id;                 /* NULL: "none", torchrun's default */
};

struct redirect;

/* Creates the directory. Leaves `*out` unchanged if no stream is redirected. `s` is borrowed. */
int redirect_open(struct redirect **out, const struct redirect_spec *s, struct err *e);
/* Creates the files of an attempt and observes its job. The first attempt is 0. If a file cannot be
 * created, logs an error, and the lines of its stream go to the console. `r` may be NULL. */
void redirect_attach(struct redirect *r, uv_loop_t *loop, struct launch *job, int attempt);
/* Creates the files of an attempt. redirect_attach() also does this. */
void redirect_plan(struct redirect *r, const struct plan *p, int attempt);
/* Writes what is buffered and closes the files. Logs a failure. A handle closes in the loop's next
 * iteration. */
void redirect_close(struct redirect *r);
AUTO_DEFINE(redirect, struct redirect *, redirect_close)

/* Returns the path "DIR/RUN_xxxxxx". Borrowed. */
const char *redirect_dir(const struct redirect *r);

/* Writes a line to the file of its stream, if there is one. The arguments are those of
 * launch_events.line. If a write fails, logs the error, and the stream's further lines go to the
 * console. */
void redirect_line(struct redirect *r, int rank, enum launch_stream from, const char *text,
                   size_t len);
/* Writes those bytes of an incomplete line (launch_events.partial_line) that are not in the file
 * yet. */
void redirect_partial_line(struct redirect *r, int rank, enum launch_stream from, const char *text,
                           size_t len);
/* Writes what is buffered. After redirect_attach(), this happens automatically before the loop
 * waits. */
void redirect_flush(struct redirect *r);
/* Returns true if the lines of this stream also go to the console. `r` may be NULL. */
bool redirect_shows(const struct redirect *r, int rank, enum launch_stream from);

#endif
