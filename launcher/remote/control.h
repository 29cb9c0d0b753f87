/* control - a connection between the launcher and one far `drover rank`: frames in order, signs of
 * life, and an end that is always told.
 *
 * Nothing is held back here: who sends much waits for `took` (engine_remote.h), so what is queued
 * stays small and a signal never stands behind output. */
#ifndef DROVER_CONTROL_H
#define DROVER_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/remote/control_frame.h"

enum {
    CONTROL_PING_MS = 5000,
    CONTROL_SILENT_MS = 15000,  /* then the other side is lost */
    CONTROL_HELLO_MS = 5000,    /* the same until control_authenticate() */
    CONTROL_HELLO_BYTES = 4096, /* the longest frame until then */
    CONTROL_WINDOW = 256 << 10  /* bytes of one stream on their way that nobody has taken yet */
};

struct control;

/* From the loop. control_close() may be called from either. */
struct control_events {
    /* Borrowed during the call. Pings are not told. */
    void (*frame)(void *arg, const struct control_frame *f);
    /* Closed, silent for too long, or not understood: "the connection was closed". The last. */
    void (*ended)(void *arg, const char *why);
};

/* Takes over a connected socket, also on failure. */
int control_open(struct control **out, uv_loop_t *loop, int fd, const struct control_events *ev,
                 void *arg, struct err *e);
/* The next one that waits at `listener`. */
int control_accept(struct control **out, uv_stream_t *listener, const struct control_events *ev,
                   void *arg, struct err *e);
/* No event follows. What was sent and is not yet on its way is lost. Its handles close on the
 * loop's next turn. */
void control_close(struct control *c);
AUTO_DEFINE(control, struct control *, control_close)

/* The other side is ours: long frames, pings, and silence only after `silent_ms` (> 0; as usual
 * CONTROL_SILENT_MS; a ping each third of it). */
void control_authenticate(struct control *c, int silent_ms);
/* Whether nothing has come for half the time after which it is lost; pings come each third. */
bool control_is_silent(const struct control *c);
/* The other side said that it will be silent: counts from its next word. */
void control_suspend_timeout(struct control *c);

/* Takes over `head`, an object with "t". A frame above the limits is a mistake of ours. */
void control_send(struct control *c, json_t *head, const void *payload, size_t len);

/* The other side's address and ours, without the port. */
struct control_endpoints {
    char peer[64], own[64];
    bool same_host;
};
int control_endpoints(struct control_endpoints *out, const struct control *c);

/* A connected socket to the first of "ADDRESS:PORT,[ADDRESS]:PORT,…" that answers: each gets a
 * head start of 0.3 s before the next, all together `limit_ms`. Waits meanwhile. The text has every
 * address with why not. */
int control_connect(int *fd, const char *list, int limit_ms, struct err *e);

/* Whether both are the same secret; in a time that tells nothing but their lengths. */
bool control_same_token(const char *a, const char *b);

#endif
