#include "hpo/transport/zmq_uv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/mem.h"

int zmq_uv_failed(const char *what, struct err *e)
{
    int code = errno;
    return err_set(e, code < ZMQ_HAUSNUMERO ? -code : -EIO, "%s: %s", what, zmq_strerror(code));
}

int zmq_uv_set(void *zmq_socket, const struct zmq_uv_option *list, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++)
        if (zmq_setsockopt(zmq_socket, list[i].option, &list[i].value, sizeof(int)) < 0)
            return zmq_uv_failed("socket", e);
    return 0;
}

int zmq_uv_monitor(void **out, void *zmq, void *watched, const char *name, int events,
                   struct err *e)
{
    *out = zmq_socket(zmq, ZMQ_PAIR);
    return !*out || zmq_socket_monitor(watched, name, events) < 0 || zmq_connect(*out, name) < 0
               ? zmq_uv_failed("socket monitor", e)
               : 0;
}

/* An event has two frames: its number and value, then the socket's address. */
bool zmq_uv_event(void *monitor, uint16_t *event, uint32_t *value)
{
    unsigned char head[sizeof *event + sizeof *value];
    char address[256];
    if (zmq_recv(monitor, head, sizeof head, ZMQ_DONTWAIT) < 0)
        return false;
    (void)zmq_recv(monitor, address, sizeof address, 0); /* arrives with the first frame */
    memcpy(event, head, sizeof *event);
    memcpy(value, head + sizeof *event, sizeof *value);
    return true;
}

/* In each iteration of the loop, `before` polls the socket. If the socket is readable, `before`
 * starts `busy`, which prevents the loop from sleeping. `poll` wakes the loop when ZMQ_FD changes.
 * `after` calls `ready`. libzmqutil of flux-core does the same, and libev's manual recommends this
 * pattern for foreign libraries. */
struct zmq_uv {
    uv_prepare_t before;
    uv_check_t after;
    uv_idle_t busy;
    uv_poll_t poll;
    void *socket;
    zmq_uv_ready_fn *ready;
    void *arg;
    int open_handles;
};

static bool readable(const struct zmq_uv *z)
{
    int events = 0;
    size_t len = sizeof events;
    /* after the end of its context, zmq_getsockopt() fails: nothing to read */
    return zmq_getsockopt(z->socket, ZMQ_EVENTS, &events, &len) == 0 && (events & ZMQ_POLLIN);
}

static void on_busy(uv_idle_t *h)
{
}

static void on_poll(uv_poll_t *h, int status, int events)
{
}

static void on_before(uv_prepare_t *h)
{
    struct zmq_uv *z = h->data;
    if (readable(z))
        uv_idle_start(&z->busy, on_busy);
}

static void on_after(uv_check_t *h)
{
    struct zmq_uv *z = h->data;
    uv_idle_stop(&z->busy);
    if (readable(z))
        z->ready(z, z->arg); /* may close z */
}

int zmq_uv_open(struct zmq_uv **out, uv_loop_t *loop, void *zmq_socket, zmq_uv_ready_fn *ready,
                void *arg, struct err *e)
{
    int fd = -1;
    size_t len = sizeof fd;
    if (zmq_getsockopt(zmq_socket, ZMQ_FD, &fd, &len) < 0)
        return err_set(e, -errno, "ZeroMQ socket: %s", zmq_strerror(errno));
    AUTO(free) struct zmq_uv *z = xzalloc(sizeof *z);
    int rc = uv_poll_init(loop, &z->poll, fd);
    if (rc < 0)
        return err_set(e, rc, "ZeroMQ socket in the loop: %s", uv_strerror(rc));
    z->socket = zmq_socket;
    z->ready = ready;
    z->arg = arg;
    uv_prepare_init(loop, &z->before);
    uv_check_init(loop, &z->after);
    uv_idle_init(loop, &z->busy);
    z->before.data = z->after.data = z->busy.data = z->poll.data = z;
    z->open_handles = 4;
    uv_prepare_start(&z->before, on_before);
    uv_check_start(&z->after, on_after);
    rc = uv_poll_start(&z->poll, UV_READABLE, on_poll);
    struct zmq_uv *opened = TAKE(z);
    if (rc < 0) {
        zmq_uv_close(opened);
        return err_set(e, rc, "ZeroMQ socket in the loop: %s", uv_strerror(rc));
    }
    *out = opened;
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    struct zmq_uv *z = h->data;
    if (--z->open_handles == 0)
        free(z);
}

void zmq_uv_close(struct zmq_uv *z)
{
    if (!z)
        return;
    uv_close((uv_handle_t *)&z->before, on_closed);
    uv_close((uv_handle_t *)&z->after, on_closed);
    uv_close((uv_handle_t *)&z->busy, on_closed);
    uv_close((uv_handle_t *)&z->poll, on_closed);
}
