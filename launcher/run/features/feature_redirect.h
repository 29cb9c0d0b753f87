/* feature_redirect - writes the ranks' output to files, one per rank and stream: torchrun's
 * --redirects and --tee.
 *
 *     DIR/RUN_xxxxxx/attempt_0/RANK/stdout.log and stderr.log    as torchrun names them
 *
 * A value selects streams: 0 none, 1 stdout, 2 stderr, 3 both. It is given for all ranks ("3") or
 * by local rank ("0:1,1:3"). If a file cannot be written, an error is logged, and the lines of its
 * stream go to the console. */
#pragma once

#include "launcher/run/features/feature.h"

/* Reads a value of --redirects or --tee.
 *   -EINVAL, -ERANGE  the text has neither form */
int feature_redirect_parse(struct feature_redirect_map *m, const char *text, struct err *e);
void feature_redirect_map_free(struct feature_redirect_map *m);

/* The state of the row. */
struct feature_redirect;

/* Creates the files of an attempt, and closes those of the last one. */
void feature_redirect_plan(struct feature_redirect *r, const struct plan *p, int attempt);
/* Returns the path "DIR/RUN_xxxxxx". Borrowed. */
const char *feature_redirect_dir(const struct feature_redirect *r);
/* Writes what is buffered. This also happens before the loop waits. */
void feature_redirect_flush(struct feature_redirect *r);
