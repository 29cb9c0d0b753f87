/* limits - the limits on processes, threads and open files. Explains which limit made a call fail,
 * and checks before a start that the limits are high enough. `root` is a prefix of /proc and /sys:
 * "" except in tests. */
#pragma once

#include "common/err.h"

/* Explains an error that a limit causes: EAGAIN of fork() or pthread_create(), EMFILE or ENFILE.
 * Appends the limit and its present value to the text, and sets a hint that says how to raise it.
 * If several limits on processes apply, names the lowest one. Does not change any other error.
 * Returns e->code (-EIO if e is NULL). */
int limits_explain(struct err *e, const char *root);

/* Checks that this process may open `count` more files, and some for short use.
 *   -EMFILE  it may not. The text begins with `what`, the thing that needs the files ("2 ranks") */
int limits_require_files(int count, const char *what, struct err *e);

/* Checks that `count` threads can be started, by starting them. Some libraries abort the process if
 * they cannot start a thread.
 *   -EAGAIN  they cannot. The text begins with `what`, the thing that needs the threads */
int limits_require_threads(int count, const char *what, struct err *e);
