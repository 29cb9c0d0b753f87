/* control - the connection between two processes of a job, such as the launcher and an agent:
 * frames in order, pings, and an end that is always reported.
 *
 * There are two lanes. Bulk frames (output of ranks) keep their order among each other, and the
 * other frames overtake them: a fence or a signal never waits behind output. Nothing is held back
 * here: the agent that sends much output waits for `credit`, so that the queue stays small. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/host_port.h"
#include "common/mem.h"
#include "launcher/remote/control/control_cipher.h"
#include "launcher/remote/control/control_frame.h"

enum {
    CONTROL_PING_MS = 5000,
    CONTROL_SILENT_MS = 15000,    /* then the peer is lost */
    CONTROL_HELLO_MS = 5000,      /* the same before control_authenticate() */
    CONTROL_HELLO_BYTES = 4096,   /* the longest frame before it */
    CONTROL_UNSENT = 64 << 10,    /* bytes that the kernel holds unsent before it takes no more */
    CONTROL_WINDOW_MIN = 4 << 10, /* bytes of a rank that are sent before credit is due */
    CONTROL_WINDOW = 256 << 10,   /* the same at most */
    CONTROL_WINDOWS = 64 << 20    /* sum of the windows of a job with many ranks */
};

struct control;

/* From the loop. Both may call control_close(). */
struct control_events {
    /* A frame, borrowed during the call. Not called for pings. */
    void (*frame)(void *arg, const struct control_frame *f);
    /* The connection was closed, was silent for too long, or received an invalid frame; `why` is
     * such a text: "the connection was closed". No event follows. */
    void (*ended)(void *arg, const char *why);
};

/* Opens a control connection on a connected socket, which it takes over, also on failure. With a
 * token, which both ends need, all frames are encrypted and authenticated (control_cipher.h): every
 * frame comes from a peer with the token. NULL: none, as in a rendezvous. */
int control_open(struct control **out, uv_loop_t *loop, int fd, const char *token,
                 const struct control_events *ev, void *arg, struct err *e);
/* Listens on a free port of `ports`, at all addresses of this machine. Initializes `listener`, also
 * on failure: the caller closes it, and then *held_fd, which keeps the port from other jobs (-1:
 * none). The loop calls `connected` for each connection. */
int control_listen(uv_tcp_t *listener, int *held_fd, uv_loop_t *loop, struct host_port_range ports,
                   uv_connection_cb connected, struct err *e);
int control_listener_port(const uv_tcp_t *listener);
/* Returns a list for control_connect(): the addresses (strv), each with the port. Without an
 * address, this is the loopback device, since on another node that means that node. The caller
 * frees it. */
char *control_address_list(char *const *addresses, int port);
/* Accepts the next connection that waits at `listener`. */
int control_accept(struct control **out, uv_stream_t *listener, const char *token,
                   const struct control_events *ev, void *arg, struct err *e);
/* Closes the connection. No event follows. Queued bytes are lost. Its handles close on the loop's
 * next turn. */
void control_close(struct control *c);
AUTO_DEFINE(control, struct control *, control_close)

/* The peer is authenticated: allows long frames, sends pings at a third of `silent_ms`, and reports
 * the end after `silent_ms` without a frame (> 0, usually CONTROL_SILENT_MS). */
void control_authenticate(struct control *c, int silent_ms);
/* A silent peer is not lost while its machine acknowledges what this end sends: its process is
 * frozen (SIGSTOP, a debugger) and may continue. If it is killed, its machine closes the
 * connection. */
void control_tolerate_frozen(struct control *c);
/* Whether nothing was received for half of `silent_ms`. Pings arrive at a third of it. */
bool control_is_silent(const struct control *c);
/* The peer will be silent: the time starts with its next frame. */
void control_suspend_timeout(struct control *c);

/* Sends a frame. Takes over `head`, an object with "t". A frame above the limits is a bug. */
void control_send(struct control *c, json_t *head, const void *payload, size_t len);
/* The same for a bulk frame. */
void control_send_bulk(struct control *c, json_t *head, const void *payload, size_t len);

/* Returns the window of a rank's output in a job of `ranks` ranks: how many bytes its agent may
 * send that are not credited yet. The bytes that all ranks may have on their way are limited, since
 * the launcher and inner agents of the tree hold them while the job's output is paused. */
size_t control_window(int ranks);

/* The addresses of the peer and of this end, without ports. */
struct control_endpoints {
    char peer[64], own[64];
    bool same_host;
};
int control_endpoints(struct control_endpoints *out, const struct control *c);

/* Connects to the first of "ADDRESS:PORT,[ADDRESS]:PORT,…" that answers. Each address gets a head
 * start of 0.3 s before the next one is tried. Blocks for `limit_ms` at most. The error's text
 * lists every address with its cause. */
int control_connect(int *fd, const char *list, int limit_ms, struct err *e);

/* Compares two tokens, in a time that reveals nothing but their lengths. */
bool control_same_token(const char *a, const char *b);
