/* exchange_alone - the exchange of a job with one node: the instances of the launcher and of the
 * node, which give each other their messages at once. Pure. */
#pragma once

#include "launcher/tree/exchange.h"

struct exchange_alone;

/* `deliver` as in exchange_events, but it must not call exchange_alone_submit(). `rank_nodes` is 0
 * for each of the `ranks` ranks; it must outlive the object. */
struct exchange_alone *exchange_alone_new(const int *rank_nodes, int ranks,
                                          void (*deliver)(void *arg,
                                                          const struct exchange_message *m),
                                          void *arg);
void exchange_alone_free(struct exchange_alone *x);
AUTO_DEFINE(exchange_alone, struct exchange_alone *, exchange_alone_free)

/* Does what exchange_submit() does. Afterwards a lookup may wait: see exchange_alone_expire().
 *   -EBADMSG  a request about a name is refused, and nothing follows */
int exchange_alone_submit(struct exchange_alone *x, const struct exchange_message *m,
                          int64_t now_ms, struct err *e);
/* Does what exchange_expire() does. */
int64_t exchange_alone_expire(struct exchange_alone *x, int64_t now_ms);
