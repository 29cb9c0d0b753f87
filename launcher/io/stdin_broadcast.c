#include "launcher/io/stdin_broadcast.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "launcher/io/stdin_reader.h"

struct outlet {
    struct stdin_broadcast *all;
    uv_pipe_t pipe; /* the write end */
    int read_end;   /* until the caller takes it; then -1 */
    int writes;     /* number of writes that are not complete */
    bool open;
};

struct stdin_broadcast {
    struct stdin_reader *reader; /* NULL after the end of input */
    struct outlet *outlets;
    int count;
    int handles; /* number of outlets' handles that are not closed yet */
    bool at_end, closed;
};

/* Bytes that were read, until every rank has them. */
struct chunk {
    struct stdin_broadcast *all;
    int users;
    size_t len;
    char bytes[];
};

struct outlet_write {
    uv_write_t req;
    struct outlet *to;
    struct chunk *chunk;
};

static void release(struct chunk *c)
{
    if (--c->users > 0)
        return;
    if (c->all->reader)
        stdin_reader_credit(c->all->reader, c->len);
    free(c);
}

static void free_if_done(struct stdin_broadcast *b)
{
    if (!b->closed || b->handles > 0)
        return;
    free(b->outlets);
    free(b);
}

static void on_outlet_closed(uv_handle_t *h)
{
    struct outlet *o = h->data;
    o->all->handles--;
    free_if_done(o->all);
}

/* Closes an outlet. After the last one, stops reading. */
static void close_outlet(struct outlet *o)
{
    struct stdin_broadcast *b = o->all;
    bool any = false;
    if (!o->open)
        return;
    o->open = false;
    uv_close((uv_handle_t *)&o->pipe, on_outlet_closed);
    for (int i = 0; i < b->count; i++)
        any |= b->outlets[i].open;
    if (!any)
        stdin_reader_close(TAKE(b->reader));
}

static void on_written(uv_write_t *req, int status)
{
    struct outlet_write *w = (struct outlet_write *)req;
    struct outlet *o = w->to;
    o->writes--;
    if (status < 0 || (o->all->at_end && o->writes == 0))
        close_outlet(o);
    release(w->chunk);
    free(w);
}

static void write_chunk(struct outlet *o, struct chunk *c)
{
    struct outlet_write *w = xzalloc(sizeof *w);
    w->to = o;
    w->chunk = c;
    c->users++;
    o->writes++;
    uv_buf_t buf = uv_buf_init(c->bytes, (unsigned)c->len);
    int rc = uv_write(&w->req, (uv_stream_t *)&o->pipe, &buf, 1, on_written);
    if (rc < 0)
        on_written(&w->req, rc);
}

static void on_bytes(void *arg, const char *bytes, size_t len)
{
    struct stdin_broadcast *b = arg;
    b->at_end = len == 0;
    struct chunk *c = xzalloc(sizeof *c + len);
    *c = (struct chunk){.all = b, .users = 1, .len = len};
    memcpy(c->bytes, bytes, len);
    for (int i = 0; i < b->count; i++) {
        struct outlet *o = &b->outlets[i];
        if (b->at_end && o->writes == 0)
            close_outlet(o);
        else if (!b->at_end && o->open)
            write_chunk(o, c);
    }
    release(c);
}

static int open_outlet(struct outlet *o, uv_loop_t *loop, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(e, -errno, "stdin: %s", strerror(errno));
    o->read_end = ends[0];
    uv_pipe_init(loop, &o->pipe, 0);
    o->pipe.data = o;
    o->open = true;
    o->all->handles++;
    int rc = uv_pipe_open(&o->pipe, ends[1]);
    if (rc < 0)
        close(ends[1]);
    return rc < 0 ? err_set(e, rc, "stdin: %s", uv_strerror(rc)) : 0;
}

int stdin_broadcast_open(struct stdin_broadcast **out, uv_loop_t *loop, int fd, int count,
                         struct err *e)
{
    struct stdin_broadcast *b = xzalloc(sizeof *b);
    int rc = 0;
    b->outlets = xcalloc((size_t)count, sizeof *b->outlets);
    b->count = count;
    for (int i = 0; i < count; i++)
        b->outlets[i] = (struct outlet){.all = b, .read_end = -1};
    for (int i = 0; rc == 0 && i < count; i++)
        rc = open_outlet(&b->outlets[i], loop, e);
    if (rc == 0)
        rc = stdin_reader_open(&b->reader, loop, fd, on_bytes, b, e);
    if (rc < 0)
        stdin_broadcast_close(b);
    else
        *out = b;
    return rc;
}

int stdin_broadcast_take(struct stdin_broadcast *b, int i)
{
    return fd_take(&b->outlets[i].read_end);
}

void stdin_broadcast_close(struct stdin_broadcast *b)
{
    if (!b)
        return;
    stdin_reader_close(TAKE(b->reader));
    for (int i = 0; i < b->count; i++) {
        auto_fd(&b->outlets[i].read_end);
        close_outlet(&b->outlets[i]);
    }
    b->closed = true;
    free_if_done(b);
}
