/* resolve - resolves host names in threads. No caller waits for these threads, so an unresponsive
 * name server blocks nothing. */
#pragma once

#include <netdb.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

struct resolve;

/* The result for names[i]: its addresses, borrowed during the call, or an error `status` of
 * getaddrinfo(). The loop calls this once per name, in any order. */
typedef void resolve_fn(void *arg, int i, int status, const struct addrinfo *found);

/* Starts to resolve `names`, a strv with at least one name, which is copied. The loop calls
 * `found`. */
int resolve_open(struct resolve **out, uv_loop_t *loop, char *const *names, resolve_fn *found,
                 void *arg, struct err *e);
/* Ends the resolution: no call follows. A lookup in progress ends in its thread, and its result is
 * dropped. */
void resolve_close(struct resolve *r);
