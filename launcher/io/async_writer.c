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

enum { FLUSH_BYTES = 64 << 10 };

enum mode { MODE_DIRECT, MODE_REOPENED, MODE_SOCKET, MODE_POLLED };

struct async_writer {
    uv_loop_t *loop;
    int fd;
    enum mode mode;
    int reopened_fd; /* MODE_REOPENED */
    struct strbuf queue;
    size_t sent; /* number of the queue's bytes that are written */
    int error;
    bool was_above_low; /* more than ASYNC_WRITER_LOW were queued since the last call of `moved` */
    uv_prepare_t prepare;
    uv_poll_t writable;
    int epoll_fd; /* epoll descriptor that contains the output; -1: not needed so far */
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

static void choose_mode(struct async_writer *w)
{
    struct stat st;
    w->reopened_fd = -1;
    w->mode = MODE_DIRECT;
    if (fstat(w->fd, &st) < 0)
        return;
    if (S_ISSOCK(st.st_mode)) {
        w->mode = MODE_SOCKET;
    } else if (S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(w->fd))) {
        char path[40];
        snprintf(path, sizeof path, "/proc/self/fd/%d", w->fd);
        w->reopened_fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        w->mode = w->reopened_fd >= 0 ? MODE_REOPENED : MODE_POLLED;
    }
}

/* Writes some of the bytes without blocking. Returns their number, or -errno (-EAGAIN: not now). */
static ssize_t write_some(const struct async_writer *w, const char *bytes, size_t len)
{
    ssize_t n = 0;
    switch (w->mode) {
    case MODE_DIRECT:
        n = write(w->fd, bytes, len);
        break;
    case MODE_REOPENED:
        n = write(w->reopened_fd, bytes, len);
        break;
    case MODE_SOCKET:
        n = send(w->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
    case MODE_POLLED:
        if (poll(&(struct pollfd){.fd = w->fd, .events = POLLOUT}, 1, 0) <= 0)
            return -EAGAIN;
        n = write(w->fd, bytes, len < PIPE_BUF ? len : PIPE_BUF);
        break;
    }
    return n < 0 ? -errno : n;
}

static void drop_queue(struct async_writer *w)
{
    strbuf_reset(&w->queue);
    w->sent = 0;
}

static void on_writable(uv_poll_t *p, int status, int events);

/* Makes the loop report when the output is writable. The descriptor itself is not given to libuv,
 * which would make it non-blocking for all programs that share it. */
static void wait_until_writable(struct async_writer *w)
{
    if (w->epoll_fd < 0) {
        struct epoll_event ev = {.events = EPOLLOUT};
        int fd = w->mode == MODE_REOPENED ? w->reopened_fd : w->fd;
        w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (w->epoll_fd < 0 || epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ||
            uv_poll_init(w->loop, &w->writable, w->epoll_fd) < 0) {
            w->error = -EIO;
            drop_queue(w);
            return;
        }
        w->writable.data = w;
        w->open_handles++;
    }
    uv_poll_start(&w->writable, UV_READABLE, on_writable);
}

/* Writes as much as possible without blocking. */
static void flush(struct async_writer *w)
{
    while (w->sent < w->queue.len) {
        ssize_t n = write_some(w, w->queue.data + w->sent, w->queue.len - w->sent);
        if (n == -EINTR)
            continue;
        if (n == -EAGAIN) {
            wait_until_writable(w);
            break;
        }
        if (n < 0) {
            w->error = (int)n;
            drop_queue(w);
            return;
        }
        w->sent += (size_t)n;
    }
    if (w->sent == w->queue.len) {
        drop_queue(w);
    } else if (w->sent > ASYNC_WRITER_FULL / 2) {
        strbuf_consume(&w->queue, w->sent);
        w->sent = 0;
    }
}

/* Calls `moved` if the caller may resume or close. */
static void notify(struct async_writer *w)
{
    size_t waiting = async_writer_waiting(w);
    if (waiting > ASYNC_WRITER_LOW || (waiting > 0 && !w->was_above_low))
        return;
    w->was_above_low = false;
    w->moved(w->arg);
}

static void on_writable(uv_poll_t *p, int status, int events)
{
    struct async_writer *w = p->data;
    flush(w);
    if (w->sent == w->queue.len)
        uv_poll_stop(&w->writable);
    notify(w);
}

static void on_prepare(uv_prepare_t *p)
{
    struct async_writer *w = p->data;
    uv_prepare_stop(p);
    flush(w);
    notify(w);
}

int async_writer_open(struct async_writer **out, uv_loop_t *loop, int fd, void (*moved)(void *arg),
                      void *arg, struct err *e)
{
    if (fcntl(fd, F_GETFD) < 0)
        return err_set(e, -errno, "descriptor %d: %s", fd, strerror(errno));
    struct async_writer *w = xzalloc(sizeof *w);
    w->loop = loop;
    w->fd = fd;
    w->epoll_fd = -1;
    w->moved = moved;
    w->arg = arg;
    choose_mode(w);
    uv_prepare_init(loop, &w->prepare);
    w->prepare.data = w;
    w->open_handles = 1;
    *out = w;
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    struct async_writer *w = h->data;
    if (--w->open_handles > 0)
        return;
    auto_fd(&w->epoll_fd);
    auto_fd(&w->reopened_fd);
    strbuf_free(&w->queue);
    free(w);
}

void async_writer_close(struct async_writer *w)
{
    if (!w)
        return;
    if (w->writable.data)
        uv_close((uv_handle_t *)&w->writable, on_closed);
    uv_close((uv_handle_t *)&w->prepare, on_closed);
}

void async_writer_add(struct async_writer *w, const void *bytes, size_t len)
{
    if (w->error)
        return;
    bool blocked = w->writable.data && uv_is_active((uv_handle_t *)&w->writable);
    strbuf_add(&w->queue, bytes, len);
    size_t waiting = async_writer_waiting(w);
    if (waiting > ASYNC_WRITER_LOW)
        w->was_above_low = true;
    if (blocked)
        return;
    if (waiting >= FLUSH_BYTES)
        flush(w);
    /* This is done even if all bytes are written or writing has failed, since the loop must call
     * `moved`. */
    uv_prepare_start(&w->prepare, on_prepare);
}

size_t async_writer_waiting(const struct async_writer *w)
{
    return w->queue.len - w->sent;
}

int async_writer_error(const struct async_writer *w)
{
    return w->error;
}
