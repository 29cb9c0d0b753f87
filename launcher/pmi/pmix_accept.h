/* pmix_accept - accepts connections for libpmix's server: only those of this user, and only after
 * their greeting has arrived and is valid (pmix_greeting.h).
 *
 * libpmix reads the greeting of a connection with blocking calls, on the thread that serves all
 * ranks, and believes the user that the greeting names. So a port scanner, or a process of another
 * user, could stop a job or join it. This module prevents that: such connections wait or are
 * closed. */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

#include "common/err.h"
#include "common/mem.h"

struct pmix_accept;

/* Opens the acceptor. A connection without a greeting is closed after `limit_ms`. */
int pmix_accept_open(struct pmix_accept **out, int limit_ms, struct err *e);
/* Closes the acceptor and the connections that wait. */
void pmix_accept_close(struct pmix_accept *a);
AUTO_DEFINE(pmix_accept, struct pmix_accept *, pmix_accept_close)

/* Returns the next connection whose greeting has arrived, like accept(2). While connections exist
 * but none has sent its greeting, waits. If further connections wait when it returns, makes the
 * listener readable again. Returns -1 with EAGAIN if no connection waits, or if pmix_accept_stop()
 * was called. `arg` is a struct pmix_accept. Only one thread may call this at a time. */
int pmix_accept_next(void *arg, int listener, struct sockaddr *address, socklen_t *len);

/* Makes pmix_accept_next() return immediately from now on. Any thread may call this. */
void pmix_accept_stop(struct pmix_accept *a);
