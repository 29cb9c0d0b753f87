/* hub - the coordinator's end of the wire: a ROUTER socket, the workers that are known, and whose
 * messages count (wire.h). */
#ifndef DROVER_TRANSPORT_SERVER_H
#define DROVER_TRANSPORT_SERVER_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/curve_keys.h"
#include "hpo/transport/peer_table.h"
#include "hpo/transport/wire.h"

struct hub;

struct hub_events {
    /* A worker said something on its present connection. Pings are answered already. */
    void (*heard)(void *arg, const char *worker, const struct wire_msg *m);
    /* What had arrived has been heard, or a bounded part of it. */
    void (*turn)(void *arg);
};

/* Listens on `endpoint`. The events are borrowed. */
int hub_open(struct hub **out, uv_loop_t *loop, const char *endpoint, const struct hub_events *ev,
             void *arg, struct err *e);
/* Listens on a tcp:// address too: with keys only to who has the sweep's, without (NULL) to
 * everybody. Who is refused is logged once, then counted. *bound is the address with its port, to
 * be freed. Once in a hub's life.
 *   -EADDRINUSE, -EADDRNOTAVAIL, -ENODEV, -EINVAL  as zmq_bind() */
int hub_listen(struct hub *h, const char *address, const struct keys *keys, char **bound,
               struct err *e);

/* What was said and not yet sent has half a second to leave. */
void hub_close(struct hub *h);
AUTO_DEFINE(hub, struct hub *, hub_close)

/* Says it to a worker (m->conn is not looked at). To one that is gone nothing is said, and that is
 * no error: it learns all when it says hello.
 *   as wire_encode() */
int hub_say(struct hub *h, const char *worker, const struct wire_msg *m, struct err *e);
/* To every worker that is not lost. */
void hub_say_all(struct hub *h, enum wire_kind kind);

/* From now on it is not listened to until it says hello again. */
void hub_lose(struct hub *h, const char *worker);

/* The id of one that is not lost, and has not been heard for `ms` and three of its pings, or does
 * not read what it is told; NULL: none. Borrowed until the next turn. Looks from *from (0 at first)
 * on, and leaves there where to look for the next. */
const char *hub_silent(const struct hub *h, int64_t ms, size_t *from);

/* We were not listening ourselves: everybody's silence starts anew. */
void hub_forgive(struct hub *h);

/* All that ever said hello; borrowed until the next turn. */
const struct peers *hub_peers(const struct hub *h);

#endif
