#include "launcher/io/rank_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/strbuf.h"

enum { PIPE_BYTES = 256 << 10 }; /* of one that was full */

struct rank_output {
    uv_pipe_t pipe;
    uv_timer_t silence; /* of a line that has begun */
    int open_handles;
    int file_fd;
    char *scratch;
    char *who;
    struct strbuf held; /* the beginning of a line; all that is left while paused */
    bool fed;           /* by rank_output_feed(): there is no pipe */
    bool roomy;         /* its pipe was made larger */
    bool paused, finishing, at_end, told_end, closed;
    struct rank_output_events ev;
    void *arg;
};

/* ---- lines -------------------------------------------------------------------------------------
 */

/* Delivers the whole lines of `text`, as long as they are wanted; returns the bytes used. A '\r'
 * ends a line too, unless a '\n' follows it; the last byte cannot tell. */
static size_t deliver_lines(struct rank_output *s, const char *text, size_t len)
{
    const char *p = text, *end = text + len, *newline = NULL;
    bool searched = false;
    while (p < end && !s->paused && !s->closed) {
        if (!searched || (newline && newline < p))
            newline = memchr(p, '\n', (size_t)(end - p));
        searched = true;
        const char *stop = newline ? newline : end;
        const char *cr = memchr(p, '\r', (size_t)(stop - p));
        if (cr && cr + 1 < end && cr[1] != '\n')
            stop = cr;
        else if (!newline)
            break;
        s->paused = !s->ev.line(s->arg, p, (size_t)(stop - p));
        p = stop + 1;
    }
    return (size_t)(p - text);
}

/* Delivers from what is held. What is left is less than a line, unless it pauses. */
static void deliver_held(struct rank_output *s)
{
    strbuf_consume(&s->held, deliver_lines(s, strbuf_str(&s->held), s->held.len));
    if (s->held.len >= RANK_OUTPUT_LINE_MAX && !s->paused && !s->closed) {
        s->paused = !s->ev.line(s->arg, s->held.data, s->held.len);
        strbuf_reset(&s->held);
    }
}

static void on_silence(uv_timer_t *t)
{
    struct rank_output *s = t->data;
    if (s->held.len > 0 && !s->paused)
        s->ev.begun(s->arg, s->held.data, s->held.len);
}

static void await_rest(struct rank_output *s)
{
    if (s->ev.begun && s->held.len > 0 && !s->closed)
        uv_timer_start(&s->silence, on_silence, RANK_OUTPUT_SILENCE_MS, 0);
}

/* New bytes: the line that was begun first, then straight from where they were read into. */
static void take(struct rank_output *s, const char *bytes, size_t len)
{
    size_t used = 0;
    if (s->held.len > 0) {
        const char *newline = memchr(bytes, '\n', len);
        bool ends = newline || s->held.data[s->held.len - 1] == '\r' || memchr(bytes, '\r', len);
        used = newline ? (size_t)(newline - bytes) + 1 : len;
        strbuf_add(&s->held, bytes, used);
        if (ends || s->held.len >= RANK_OUTPUT_LINE_MAX)
            deliver_held(s);
    }
    if (s->held.len == 0)
        used += deliver_lines(s, bytes + used, len - used);
    if (used < len && !s->closed) {
        strbuf_add(&s->held, bytes + used, len - used);
        if (s->held.len >= RANK_OUTPUT_LINE_MAX && !s->paused)
            deliver_held(s);
    }
    await_rest(s);
}

/* ---- bytes -------------------------------------------------------------------------------------
 */

static void keep(struct rank_output *s, const char *bytes, size_t len)
{
    while (len > 0 && s->file_fd >= 0) {
        ssize_t n = write(s->file_fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            log_error("the file of %s ends here: %s", s->who, strerror(errno));
            close(fd_take(&s->file_fd));
            return;
        }
        bytes += n;
        len -= (size_t)n;
    }
}

static void got(struct rank_output *s, const char *bytes, size_t len)
{
    keep(s, bytes, len);
    if (s->ev.bytes)
        s->paused = !s->ev.bytes(s->arg, bytes, len);
    else
        take(s, bytes, len);
}

static void end(struct rank_output *s)
{
    s->at_end = true;
    if (s->paused || s->closed || s->told_end)
        return;
    if (s->held.len > 0)
        (void)s->ev.line(s->arg, s->held.data, s->held.len); /* nothing is left to pause */
    strbuf_reset(&s->held);
    if (s->closed)
        return;
    s->told_end = true;
    s->ev.ended(s->arg);
}

static void on_buffer(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct rank_output *s = h->data;
    *buf = uv_buf_init(s->scratch, RANK_OUTPUT_READ_BYTES);
}

/* A rank that writes much has fewer turns in a larger pipe. A limit may forbid it. */
static void make_room(struct rank_output *s)
{
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&s->pipe, &fd) == 0)
        (void)fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
    s->roomy = true;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct rank_output *s = stream->data;
    if (n == RANK_OUTPUT_READ_BYTES && !s->roomy)
        make_room(s);
    if (n > 0)
        got(s, buf->base, (size_t)n);
    if (s->closed || n == 0)
        return;
    if (n < 0 || s->paused)
        uv_read_stop(stream);
    if (n < 0)
        end(s);
}

/* Reads what is in the pipe now, without the loop. */
static void read_rest(struct rank_output *s)
{
    uv_os_fd_t fd = -1;
    uv_fileno((uv_handle_t *)&s->pipe, &fd);
    while (!s->paused && !s->closed) {
        ssize_t n = read(fd, s->scratch, RANK_OUTPUT_READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            end(s);
            return;
        }
        got(s, s->scratch, (size_t)n);
    }
}

/* ---- from outside ------------------------------------------------------------------------------
 */

int rank_output_open(struct rank_output **out, uv_loop_t *loop,
                     const struct rank_output_source *from, const struct rank_output_events *ev,
                     void *arg, struct err *e)
{
    struct rank_output *s = xzalloc(sizeof *s);
    s->file_fd = from->file_fd;
    s->scratch = from->scratch;
    s->who = xstrdup(from->who);
    s->ev = *ev;
    s->arg = arg;
    uv_pipe_init(loop, &s->pipe, 0);
    uv_timer_init(loop, &s->silence);
    s->pipe.data = s->silence.data = s;
    s->open_handles = 2;
    s->fed = from->fd < 0;
    int rc = s->fed ? 0 : uv_pipe_open(&s->pipe, from->fd);
    if (rc < 0)
        close(from->fd);
    else if (!s->fed)
        rc = uv_read_start((uv_stream_t *)&s->pipe, on_buffer, on_read);
    if (rc < 0) {
        rank_output_close(s);
        return err_set(e, rc, "%s: %s", from->who, uv_strerror(rc));
    }
    *out = s;
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    struct rank_output *s = h->data;
    if (--s->open_handles > 0)
        return;
    strbuf_free(&s->held);
    free(s->who);
    free(s);
}

void rank_output_close(struct rank_output *s)
{
    if (!s)
        return;
    s->closed = true;
    auto_fd(&s->file_fd);
    s->file_fd = -1;
    uv_close((uv_handle_t *)&s->pipe, on_closed);
    uv_close((uv_handle_t *)&s->silence, on_closed);
}

void rank_output_feed(struct rank_output *s, const char *bytes, size_t len)
{
    if (!s->at_end && !s->closed)
        got(s, bytes, len);
}

void rank_output_feed_end(struct rank_output *s)
{
    if (!s->at_end)
        end(s);
}

void rank_output_pause(struct rank_output *s)
{
    if (s->closed || s->told_end)
        return;
    s->paused = true;
    uv_read_stop((uv_stream_t *)&s->pipe);
}

void rank_output_resume(struct rank_output *s)
{
    if (!s->paused || s->closed)
        return;
    s->paused = false;
    deliver_held(s);
    if (s->paused || s->closed)
        return;
    await_rest(s);
    if (s->at_end)
        end(s);
    else if (s->finishing)
        read_rest(s);
    else if (!s->fed)
        uv_read_start((uv_stream_t *)&s->pipe, on_buffer, on_read);
}

void rank_output_finish(struct rank_output *s)
{
    if (s->finishing || s->at_end || s->closed)
        return;
    s->finishing = true;
    if (s->paused)
        return;
    uv_read_stop((uv_stream_t *)&s->pipe);
    read_rest(s);
}
