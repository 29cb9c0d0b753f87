#include "launcher/io/async_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/strbuf.h"

enum { WRITE_AT_ONCE = 64 << 10 };

enum way { WAY_DIRECT, WAY_OWN, WAY_SOCKET, WAY_CAREFUL };

struct async_writer {
    uv_loop_t *loop;
    int fd;
    enum way way;
    int own_fd; /* WAY_OWN */
    struct strbuf queue;
    size_t sent; /* of the queue's bytes */
    int error;
    bool was_above; /* more than ASYNC_WRITER_LOW waited since `moved` was called last */
    uv_prepare_t before_waiting;
    uv_poll_t room;
    int room_fd; /* an epoll set with the descriptor in it; -1: not needed so far */
    int open_handles;
    void (*moved)(void *arg);
    void *arg;
};

bool async_writer_same(int fd_a, int fd_b)
{
    struct stat a, b;
    return fstat(fd_a, &a) == 0 && fstat(fd_b, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino && a.st_rdev == b.st_rdev;
}

static void choose_way(struct async_writer *o)
{
    struct stat st;
    o->own_fd = -1;
    o->way = WAY_DIRECT;
    if (fstat(o->fd, &st) < 0)
        return;
    if (S_ISSOCK(st.st_mode)) {
        o->way = WAY_SOCKET;
    } else if (S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(o->fd))) {
        char path[40];
        snprintf(path, sizeof path, "/proc/self/fd/%d", o->fd);
        o->own_fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        o->way = o->own_fd >= 0 ? WAY_OWN : WAY_CAREFUL;
    }
}

/* Writes some of it without waiting. Bytes, or -errno (-EAGAIN: not now). */
static ssize_t write_some(const struct async_writer *o, const char *bytes, size_t len)
{
    ssize_t n = 0;
    switch (o->way) {
    case WAY_DIRECT:
        n = write(o->fd, bytes, len);
        break;
    case WAY_OWN:
        n = write(o->own_fd, bytes, len);
        break;
    case WAY_SOCKET:
        n = send(o->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
    case WAY_CAREFUL:
        if (poll(&(struct pollfd){.fd = o->fd, .events = POLLOUT}, 1, 0) <= 0)
            return -EAGAIN;
        n = write(o->fd, bytes, len < PIPE_BUF ? len : PIPE_BUF);
        break;
    }
    return n < 0 ? -errno : n;
}

static void forget_queue(struct async_writer *o)
{
    strbuf_reset(&o->queue);
    o->sent = 0;
}

static void on_room(uv_poll_t *p, int status, int events);

/* Asks the loop to say when there is room. The descriptor itself is not given to libuv, which
 * would make it non-blocking for all that share it. */
static void await_room(struct async_writer *o)
{
    if (o->room_fd < 0) {
        struct epoll_event ev = {.events = EPOLLOUT};
        int fd = o->way == WAY_OWN ? o->own_fd : o->fd;
        o->room_fd = epoll_create1(EPOLL_CLOEXEC);
        if (o->room_fd < 0 || epoll_ctl(o->room_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ||
            uv_poll_init(o->loop, &o->room, o->room_fd) < 0) {
            o->error = -EIO;
            forget_queue(o);
            return;
        }
        o->room.data = o;
        o->open_handles++;
    }
    uv_poll_start(&o->room, UV_READABLE, on_room);
}

/* Writes what can be written now. */
static void flush(struct async_writer *o)
{
    while (o->sent < o->queue.len) {
        ssize_t n = write_some(o, o->queue.data + o->sent, o->queue.len - o->sent);
        if (n == -EINTR)
            continue;
        if (n == -EAGAIN) {
            await_room(o);
            break;
        }
        if (n < 0) {
            o->error = (int)n;
            forget_queue(o);
            return;
        }
        o->sent += (size_t)n;
    }
    if (o->sent == o->queue.len) {
        forget_queue(o);
    } else if (o->sent > ASYNC_WRITER_FULL / 2) {
        strbuf_consume(&o->queue, o->sent);
        o->sent = 0;
    }
}

/* Tells when that means something to the one who writes. */
static void tell(struct async_writer *o)
{
    size_t waiting = async_writer_waiting(o);
    if (waiting > ASYNC_WRITER_LOW || (waiting > 0 && !o->was_above))
        return;
    o->was_above = false;
    o->moved(o->arg);
}

static void on_room(uv_poll_t *p, int status, int events)
{
    struct async_writer *o = p->data;
    flush(o);
    if (o->sent == o->queue.len)
        uv_poll_stop(&o->room);
    tell(o);
}

static void on_before_waiting(uv_prepare_t *p)
{
    struct async_writer *o = p->data;
    uv_prepare_stop(p);
    flush(o);
    tell(o);
}

int async_writer_open(struct async_writer **out, uv_loop_t *loop, int fd, void (*moved)(void *arg),
                      void *arg, struct err *e)
{
    if (fcntl(fd, F_GETFD) < 0)
        return err_set(e, -errno, "descriptor %d: %s", fd, strerror(errno));
    struct async_writer *o = xzalloc(sizeof *o);
    o->loop = loop;
    o->fd = fd;
    o->room_fd = -1;
    o->moved = moved;
    o->arg = arg;
    choose_way(o);
    uv_prepare_init(loop, &o->before_waiting);
    o->before_waiting.data = o;
    o->open_handles = 1;
    *out = o;
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    struct async_writer *o = h->data;
    if (--o->open_handles > 0)
        return;
    auto_fd(&o->room_fd);
    auto_fd(&o->own_fd);
    strbuf_free(&o->queue);
    free(o);
}

void async_writer_close(struct async_writer *o)
{
    if (!o)
        return;
    if (o->room.data)
        uv_close((uv_handle_t *)&o->room, on_closed);
    uv_close((uv_handle_t *)&o->before_waiting, on_closed);
}

void async_writer_add(struct async_writer *o, const void *bytes, size_t len)
{
    if (o->error)
        return;
    bool blocked = o->room.data && uv_is_active((uv_handle_t *)&o->room);
    strbuf_add(&o->queue, bytes, len);
    size_t waiting = async_writer_waiting(o);
    if (waiting > ASYNC_WRITER_LOW)
        o->was_above = true;
    if (blocked)
        return;
    if (waiting >= WRITE_AT_ONCE)
        flush(o);
    /* Also when all is written or has failed: that is told from the loop. */
    uv_prepare_start(&o->before_waiting, on_before_waiting);
}

size_t async_writer_waiting(const struct async_writer *o)
{
    return o->queue.len - o->sent;
}

int async_writer_error(const struct async_writer *o)
{
    return o->error;
}
