#include "launcher/io/stdin_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

struct stdin_reader {
    int fd;
    uv_poll_t poll;
    uv_idle_t idle;
    bool watched; /* `poll` watches the descriptor; otherwise `idle` reads it */
    bool at_end;
    int open_handles;
    size_t uncredited; /* bytes that are read and not credited */
    void (*bytes)(void *arg, const char *bytes, size_t len);
    void *arg;
};

static void on_poll(uv_poll_t *p, int status, int events);
static void on_idle(uv_idle_t *i);

/* Starts or stops reading, depending on the window. */
static void update_watch(struct stdin_reader *s)
{
    bool wanted = !s->at_end && s->uncredited < STDIN_READER_WINDOW;
    if (s->watched && wanted)
        uv_poll_start(&s->poll, UV_READABLE, on_poll);
    else if (s->watched)
        uv_poll_stop(&s->poll);
    else if (wanted)
        uv_idle_start(&s->idle, on_idle);
    else
        uv_idle_stop(&s->idle);
}

static void read_some(struct stdin_reader *s)
{
    char bytes[STDIN_READER_WINDOW / 4];
    ssize_t n = read(s->fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    s->at_end = n <= 0;
    s->uncredited += n > 0 ? (size_t)n : 0;
    update_watch(s);
    s->bytes(s->arg, bytes, n > 0 ? (size_t)n : 0);
}

static void on_poll(uv_poll_t *p, int status, int events)
{
    read_some(p->data);
}

static void on_idle(uv_idle_t *i)
{
    read_some(i->data);
}

int stdin_reader_open(struct stdin_reader **out, uv_loop_t *loop, int fd,
                      void (*bytes)(void *arg, const char *bytes, size_t len), void *arg,
                      struct err *e)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return err_set(e, -errno, "stdin: %s", strerror(errno));
    struct stdin_reader *s = xzalloc(sizeof *s);
    s->fd = own;
    s->bytes = bytes;
    s->arg = arg;
    uv_idle_init(loop, &s->idle);
    s->idle.data = s->poll.data = s;
    int flags = fcntl(own, F_GETFL);
    s->watched = uv_poll_init(loop, &s->poll, own) == 0; /* this fails for a file */
    if (flags >= 0)
        (void)fcntl(own, F_SETFL, flags); /* libuv has set O_NONBLOCK for all programs that share
                                             it */
    s->open_handles = 1 + s->watched;
    update_watch(s);
    *out = s;
    return 0;
}

void stdin_reader_credit(struct stdin_reader *s, size_t len)
{
    s->uncredited -= len < s->uncredited ? len : s->uncredited;
    update_watch(s);
}

static void on_closed(uv_handle_t *h)
{
    struct stdin_reader *s = h->data;
    if (--s->open_handles > 0)
        return;
    close(s->fd);
    free(s);
}

void stdin_reader_close(struct stdin_reader *s)
{
    if (!s)
        return;
    if (s->watched)
        uv_close((uv_handle_t *)&s->poll, on_closed);
    uv_close((uv_handle_t *)&s->idle, on_closed);
}
