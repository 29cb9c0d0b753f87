#include "launcher/io/tty_stdin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { INPUT_MAX = 4096 /* the longest line of a terminal */, RETRY_MS = 100 };

struct tty_stdin {
    int tty_fd; /* opened again, so that O_NONBLOCK does not affect other programs */
    uv_poll_t input;
    uv_pipe_t to_rank;
    uv_timer_t retry; /* next check, while in the background or while no rank waits for input */
    uv_write_t write;
    char buf[INPUT_MAX];
    int open_handles;
    bool closed;
    bool (*wanted)(void *arg);
    void *arg;
};

static void on_input(uv_poll_t *p, int status, int events);

static bool in_foreground(const struct tty_stdin *f)
{
    return tcgetpgrp(f->tty_fd) == getpgrp();
}

static void on_retry(uv_timer_t *t)
{
    struct tty_stdin *f = t->data;
    uv_timer_stop(t);
    uv_poll_start(&f->input, UV_READABLE, on_input);
}

static void on_written(uv_write_t *w, int status)
{
    struct tty_stdin *f = w->data;
    if (status == 0 && !f->closed)
        uv_poll_start(&f->input, UV_READABLE, on_input);
}

static void on_closed(uv_handle_t *h)
{
    struct tty_stdin *f = h->data;
    if (--f->open_handles > 0)
        return;
    close(f->tty_fd);
    free(f);
}

/* Passes the user's end of file on to the rank. */
static void close_pipe(struct tty_stdin *f)
{
    if (!uv_is_closing((uv_handle_t *)&f->to_rank))
        uv_close((uv_handle_t *)&f->to_rank, on_closed);
}

static void on_input(uv_poll_t *p, int status, int events)
{
    struct tty_stdin *f = p->data;
    uv_poll_stop(p);
    if (!in_foreground(f) || !f->wanted(f->arg)) {
        uv_timer_start(&f->retry, on_retry, RETRY_MS, 0);
        return;
    }
    ssize_t n = read(f->tty_fd, f->buf, sizeof f->buf);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        uv_poll_start(p, UV_READABLE, on_input);
        return;
    }
    if (n <= 0) {
        close_pipe(f);
        return;
    }
    uv_buf_t buf = uv_buf_init(f->buf, (unsigned)n);
    if (uv_write(&f->write, (uv_stream_t *)&f->to_rank, &buf, 1, on_written) < 0)
        close_pipe(f);
}

int tty_stdin_open(struct tty_stdin **out, int *read_fd, uv_loop_t *loop, int tty_fd,
                   bool (*wanted)(void *arg), void *arg, struct err *e)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", tty_fd);
    AUTO(fd) int tty = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int ends[2];
    if (tty < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return err_set(e, -errno, "stdin: %s", strerror(errno));
    struct tty_stdin *f = xzalloc(sizeof *f);
    f->tty_fd = fd_take(&tty);
    f->wanted = wanted;
    f->arg = arg;
    f->open_handles = 3;
    f->input.data = f->to_rank.data = f->retry.data = f->write.data = f;
    uv_pipe_init(loop, &f->to_rank, 0);
    uv_pipe_open(&f->to_rank, ends[1]);
    uv_timer_init(loop, &f->retry);
    uv_poll_init(loop, &f->input, f->tty_fd);
    uv_poll_start(&f->input, UV_READABLE, on_input);
    *read_fd = ends[0];
    *out = f;
    return 0;
}

void tty_stdin_close(struct tty_stdin *f)
{
    if (!f)
        return;
    f->closed = true;
    close_pipe(f);
    uv_close((uv_handle_t *)&f->input, on_closed);
    uv_close((uv_handle_t *)&f->retry, on_closed);
}
