/* redirect - torchrun's --redirects and --tee: each rank's streams in files of their own.
 *
 *     DIR/RUN_xxxxxx/attempt_0/RANK/stdout.log and stderr.log    as torchrun lays them out
 *
 * A value is 0 none, 1 stdout, 2 stderr, 3 both, for all ranks ("3") or by local rank ("0:1,1:3").
 */
#ifndef DROVER_REDIRECT_H
#define DROVER_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"
#include "launcher/plan/plan.h"

/* Zero-initialised: nothing. */
struct redirect_map {
    int all;     /* for ranks that are not named */
    char *named; /* [local rank]: 1 + the value; 0: not named */
    int count;
};

/* -EINVAL, -ERANGE  it is neither form */
int redirect_parse(struct redirect_map *m, const char *text, struct err *e);
void redirect_map_free(struct redirect_map *m);

struct redirect_spec {
    struct redirect_map redirects, tee; /* files alone; files and the console */
    const char *dir;                    /* NULL: a new one below /tmp */
    const char *run_id;                 /* NULL: "none", as torchrun says */
};

struct redirect;

/* Makes the directory. Gives NULL where nothing is redirected. `s` is borrowed. */
int redirect_open(struct redirect **out, const struct redirect_spec *s, struct err *e);
/* Whose lines will come, and how often the job was started before: makes the files. Of one that
 * cannot be made the log tells, and its lines go to the console. `r` may be NULL. */
void redirect_plan(struct redirect *r, const struct plan *p, int attempt);
/* What was not written so far is. A failure of that is logged. */
void redirect_close(struct redirect *r);
AUTO_DEFINE(redirect, struct redirect *, redirect_close)

/* "DIR/RUN_xxxxxx". Borrowed. */
const char *redirect_dir(const struct redirect *r);

/* A line as launch_events has it, to its file. True where it belongs on the console (too). `r` may
 * be NULL. */
bool redirect_line(struct redirect *r, int rank, enum launch_stream from, const char *text,
                   size_t len);
/* Whether lines of that stream belong on the console. `r` may be NULL. */
bool redirect_shows(const struct redirect *r, int rank, enum launch_stream from);

#endif
