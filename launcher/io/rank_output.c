#include "launcher/io/rank_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/strbuf.h"

enum { PIPE_BYTES = 256 << 10 }; /* size of an enlarged pipe */

/* The phases follow one another; some may be left out. */
enum phase {
    READING,
    FINISHING, /* delivers what has arrived, then ends */
    AT_END,    /* nothing more arrives; the end is not reported yet */
    REPORTED,
    CLOSED
};

struct rank_output {
    uv_pipe_t pipe;
    uv_timer_t silence; /* timer for the beginning of an incomplete line */
    int open_handles;
    int file_fd;
    char *scratch;
    char *name;
    struct strbuf held; /* the beginning of a line; while paused, all undelivered bytes */
    uint64_t due_ms;    /* time at which it was first due as a partial line; 0: not yet */
    bool fed;           /* rank_output_feed() provides the bytes; there is no pipe */
    bool enlarged;      /* the pipe's size is PIPE_BYTES */
    enum phase phase;
    bool paused;      /* by the callee */
    bool awaits_turn; /* fed bytes are held for another stream's turn */
    struct rank_output_events ev;
    void *arg;
    bool pty;
    struct rank_output_group *group, own_group;
    struct rank_output *next; /* next stream of the group */
};

/* ---- turns ---------------------------------------------------------------------------------- */

static bool is_blocked(const struct rank_output *s)
{
    return s->paused || (s->group->turn && s->group->turn != s);
}

static void on_turn(uv_timer_t *t);

/* Ends the turn of a stream. The others continue in the loop's next iteration, since this stream
 * may still use the read buffer. */
static void end_turn(struct rank_output *s)
{
    s->group->turn = NULL;
    for (struct rank_output *o = s->group->first; o; o = o->next)
        if (o != s && o->phase != CLOSED)
            uv_timer_start(&o->silence, on_turn, 0, 0);
}

static void on_turn_silence(uv_timer_t *t)
{
    struct rank_output *s = t->data;
    if (s->paused)
        uv_timer_start(t, on_turn_silence, RANK_OUTPUT_TURN_MS, 0);
    else if (s->group->turn == s)
        end_turn(s);
}

static void join_group(struct rank_output *s, struct rank_output_group *g)
{
    s->group = g ? g : &s->own_group;
    s->next = s->group->first;
    s->group->first = s;
}

static void leave_group(struct rank_output *s)
{
    struct rank_output **at = &s->group->first;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    if (s->group->turn == s)
        end_turn(s);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Delivers the complete lines of `text` until the stream is blocked or closed. Returns the number
 * of bytes used. A '\r' also ends a line, unless a '\n' follows. If the '\r' is the last byte, this
 * is not known yet. */
static size_t deliver_lines(struct rank_output *s, const char *text, size_t len)
{
    const char *p = text, *end = text + len, *newline = NULL;
    bool searched = false;
    while (p < end && !is_blocked(s) && s->phase != CLOSED) {
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
        s->due_ms = 0;
        p = stop + 1;
        if (s->group->turn == s)
            end_turn(s);
    }
    return (size_t)(p - text);
}

/* Delivers lines from the held bytes. Unless the stream is blocked, only an incomplete line
 * remains. */
static void deliver_held(struct rank_output *s)
{
    strbuf_consume(&s->held, deliver_lines(s, strbuf_str(&s->held), s->held.len));
    if (s->held.len >= RANK_OUTPUT_LINE_MAX && !is_blocked(s) && s->phase != CLOSED) {
        s->group->turn = s;
        s->paused = !s->ev.line(s->arg, s->held.data, s->held.len);
        strbuf_reset(&s->held);
    }
}

/* Returns true if a partial line should wait for its end, since other streams write: their lines
 * would tear it. */
static bool should_wait(const struct rank_output *s, uint64_t now_ms)
{
    return s->group->turn != s && now_ms - s->group->delivered_ms < RANK_OUTPUT_SILENCE_MS &&
           now_ms - s->due_ms < RANK_OUTPUT_TURN_MS;
}

static void start_silence_timer(struct rank_output *s);

static void on_silence(uv_timer_t *t)
{
    struct rank_output *s = t->data;
    if (s->ev.partial_line && s->held.len > 0 && !is_blocked(s)) {
        uint64_t now_ms = uv_now(t->loop);
        s->due_ms = s->due_ms ? s->due_ms : now_ms;
        if (should_wait(s, now_ms)) {
            start_silence_timer(s);
            return;
        }
        s->ev.partial_line(s->arg, s->held.data, s->held.len);
        s->due_ms = 0;
    }
    if (s->group->turn == s)
        uv_timer_start(t, on_turn_silence, RANK_OUTPUT_TURN_MS - RANK_OUTPUT_SILENCE_MS, 0);
}

/* The loop calls timers before it reads. If it was held up, the rest of the line may be readable:
 * decides after the next reads. */
static void on_silence_due(uv_timer_t *t)
{
    uv_timer_start(t, on_silence, 1, 0);
}

static void start_silence_timer(struct rank_output *s)
{
    if (s->phase != CLOSED && ((s->ev.partial_line && s->held.len > 0) || s->group->turn == s))
        uv_timer_start(&s->silence, on_silence_due, RANK_OUTPUT_SILENCE_MS - 1, 0);
}

/* Splits new bytes: first completes the held line, then delivers lines directly from the read
 * buffer. */
static void split_lines(struct rank_output *s, const char *bytes, size_t len)
{
    size_t used = 0;
    s->group->delivered_ms = uv_now(s->silence.loop);
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
    if (used < len && s->phase != CLOSED) {
        strbuf_add(&s->held, bytes + used, len - used);
        if (s->held.len >= RANK_OUTPUT_LINE_MAX && !is_blocked(s))
            deliver_held(s);
    }
    start_silence_timer(s);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static void write_file(struct rank_output *s, const char *bytes, size_t len)
{
    int rc = s->file_fd >= 0 ? file_write_all(s->file_fd, bytes, len) : 0;
    if (rc == 0)
        return;
    log_error("%s: the output file is incomplete: %s", s->name, strerror(-rc));
    close(fd_take(&s->file_fd));
}

static void deliver(struct rank_output *s, const char *bytes, size_t len)
{
    write_file(s, bytes, len);
    if (s->ev.bytes)
        s->paused = !s->ev.bytes(s->arg, bytes, len);
    else
        split_lines(s, bytes, len);
}

static void end_stream(struct rank_output *s)
{
    if (s->phase < AT_END)
        s->phase = AT_END;
    if (is_blocked(s) || s->phase > AT_END)
        return;
    if (s->held.len > 0) /* a pause has no effect, since no output follows */
        (void)s->ev.line(s->arg, s->held.data, s->held.len);
    strbuf_reset(&s->held);
    if (s->phase == CLOSED)
        return;
    s->phase = REPORTED;
    s->ev.ended(s->arg);
}

/* A read failed or is at the end, which a pty reports as EIO. */
static void end_reading(struct rank_output *s, int error)
{
    if (error != 0 && error != UV_EOF && !(s->pty && error == UV_EIO))
        log_error("%s: the output is incomplete: %s", s->name, strerror(-error));
    end_stream(s);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct rank_output *s = h->data;
    *buf = uv_buf_init(s->scratch, RANK_OUTPUT_READ_BYTES);
}

/* Enlarges the pipe, which needs fewer reads if a rank writes much. A limit may forbid this. */
static void enlarge_pipe(struct rank_output *s)
{
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&s->pipe, &fd) == 0)
        (void)fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
    s->enlarged = true;
}

/* Reads until the read buffer is full, since a read from a pty returns at most 4 KiB. Returns the
 * number of bytes in the buffer. */
static size_t read_more(struct rank_output *s, size_t have)
{
    uv_os_fd_t fd = -1;
    uv_fileno((uv_handle_t *)&s->pipe, &fd);
    ssize_t n = 1;
    while (n > 0 && have < RANK_OUTPUT_READ_BYTES) {
        n = read(fd, s->scratch + have, RANK_OUTPUT_READ_BYTES - have);
        have += n > 0 ? (size_t)n : 0;
    }
    return have; /* libuv's next read sees an error or the end again */
}

/* Delivers bytes after those of the other stream (`before`). The other stream uses the same read
 * buffer, so the bytes are copied first. */
static void deliver_after_other(struct rank_output *s, const char *bytes, size_t len)
{
    AUTO(strbuf) struct strbuf copy = {0};
    strbuf_add(&copy, bytes, len);
    s->ev.before(s->arg);
    if (s->phase != CLOSED)
        deliver(s, copy.data, copy.len);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct rank_output *s = stream->data;
    if (n > 0 && s->pty)
        n = (ssize_t)read_more(s, (size_t)n);
    else if (n == RANK_OUTPUT_READ_BYTES && !s->enlarged)
        enlarge_pipe(s);
    if (n > 0 && s->ev.before)
        deliver_after_other(s, buf->base, (size_t)n);
    else if (n > 0)
        deliver(s, buf->base, (size_t)n);
    if (s->phase == CLOSED || n == 0)
        return;
    if (n < 0 || is_blocked(s))
        uv_read_stop(stream);
    if (n < 0)
        end_reading(s, (int)n);
}

/* Reads what the pipe or pty contains now, without the loop. */
static void drain_pipe(struct rank_output *s)
{
    uv_os_fd_t fd = -1;
    uv_fileno((uv_handle_t *)&s->pipe, &fd);
    while (!is_blocked(s) && s->phase != CLOSED) {
        ssize_t n = read(fd, s->scratch, RANK_OUTPUT_READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            end_reading(s, n < 0 ? -errno : 0);
            return;
        }
        deliver(s, s->scratch, (size_t)n);
    }
}

/* ---- interface ------------------------------------------------------------------------------ */

int rank_output_open(struct rank_output **out, uv_loop_t *loop,
                     const struct rank_output_source *from, const struct rank_output_events *ev,
                     void *arg, struct err *e)
{
    struct rank_output *s = xzalloc(sizeof *s);
    s->file_fd = from->file_fd;
    s->scratch = from->scratch;
    s->name = xstrdup(from->name);
    s->ev = *ev;
    s->arg = arg;
    s->pty = from->pty;
    join_group(s, from->group);
    uv_pipe_init(loop, &s->pipe, 0);
    uv_timer_init(loop, &s->silence);
    s->pipe.data = s->silence.data = s;
    s->open_handles = 2;
    s->fed = from->fd < 0;
    int rc = s->fed ? 0 : uv_pipe_open(&s->pipe, from->fd);
    if (rc < 0)
        close(from->fd);
    else if (!s->fed)
        rc = uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read);
    if (rc < 0) {
        rank_output_close(s);
        return err_set(e, rc, "%s: %s", from->name, uv_strerror(rc));
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
    free(s->name);
    free(s);
}

void rank_output_close(struct rank_output *s)
{
    if (!s)
        return;
    s->phase = CLOSED;
    leave_group(s);
    auto_fd(&s->file_fd);
    s->file_fd = -1;
    uv_close((uv_handle_t *)&s->pipe, on_closed);
    uv_close((uv_handle_t *)&s->silence, on_closed);
}

bool rank_output_feed(struct rank_output *s, const char *bytes, size_t len)
{
    if (s->phase < AT_END)
        deliver(s, bytes, len);
    s->awaits_turn = s->group->turn && s->group->turn != s;
    return !s->awaits_turn;
}

void rank_output_feed_end(struct rank_output *s)
{
    if (s->phase < AT_END)
        end_stream(s);
}

void rank_output_poll(struct rank_output *s)
{
    size_t n = is_blocked(s) || s->phase >= AT_END ? 0 : read_more(s, 0);
    if (n > 0)
        deliver(s, s->scratch, n);
    if (s->phase != CLOSED && is_blocked(s))
        uv_read_stop((uv_stream_t *)&s->pipe);
}

void rank_output_pause(struct rank_output *s)
{
    if (s->phase >= REPORTED)
        return;
    s->paused = true;
    uv_read_stop((uv_stream_t *)&s->pipe);
}

/* Continues a stream if it is no longer blocked. */
static void continue_stream(struct rank_output *s)
{
    if (is_blocked(s) || s->phase >= REPORTED)
        return;
    deliver_held(s);
    if (is_blocked(s) || s->phase == CLOSED)
        return;
    start_silence_timer(s);
    if (s->awaits_turn) {
        s->awaits_turn = false;
        s->ev.turn(s->arg);
    }
    if (s->phase == AT_END)
        end_stream(s);
    else if (s->phase == FINISHING)
        drain_pipe(s);
    else if (s->phase == READING && !s->fed)
        uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read);
}

static void on_turn(uv_timer_t *t)
{
    continue_stream(t->data);
}

void rank_output_resume(struct rank_output *s)
{
    if (!s->paused)
        return;
    s->paused = false;
    continue_stream(s);
}

void rank_output_finish(struct rank_output *s)
{
    if (s->phase >= FINISHING)
        return;
    s->phase = FINISHING;
    if (is_blocked(s))
        return;
    uv_read_stop((uv_stream_t *)&s->pipe);
    drain_pipe(s);
}
