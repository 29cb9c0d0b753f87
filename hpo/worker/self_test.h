/* self_test - checks that this worker can start trials again: makes a trial's directory, writes a
 * file to the disk, and starts a job of a trial's ranks that does nothing.
 *
 * The files are written in a thread. Everything else runs on the loop's thread. */
#pragma once

#include <stdbool.h>

#include "common/mem.h"
#include "hpo/worker/lease_context.h"

struct self_test;

/* `cause`: the first check that failed; NULL: all passed. Borrowed during the call. */
typedef void self_test_done_fn(void *arg, const char *cause);

/* Borrows the context. */
struct self_test *self_test_new(const struct lease_context *c, self_test_done_fn *done, void *arg);
/* Not while it runs. */
void self_test_free(struct self_test *t);
AUTO_DEFINE(self_test, struct self_test *, self_test_free)

/* Starts the test; `done` follows. Has no effect while it runs. */
void self_test_start(struct self_test *t);
bool self_test_is_running(const struct self_test *t);
