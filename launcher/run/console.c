#include "launcher/run/console.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "launcher/io/async_writer.h"
#include "launcher/io/terminal.h"

enum { NO_SOURCE = -1 };

/* One output stream. If stdout and stderr are the same file, they share a sink, so that a line of
 * one stream is never inside a line of the other. */
struct sink {
    struct async_writer *writer;
    int unfinished; /* source of the partial line that was written last; NO_SOURCE: none */
    bool coloured;
    bool repeats; /* a terminal: people read whole lines. In a file each byte is there once */
};

/* The partial line of one stream of a rank. console_line() gets the whole line again when it is
 * complete. */
struct begun {
    size_t shown; /* number of its bytes that are already shown */
    bool torn; /* the shown bytes are on several lines, since lines of other sources came between */
};

struct console {
    struct console_style style;
    struct sink own[2];
    struct sink *out, *err;
    void (*on_progress)(void *arg);
    void *arg;
    const struct plan *plan;
    struct begun *begun;  /* by source */
    enum console_tag tag; /* never AUTO */
    struct launch *job;   /* the observed job; NULL: no job runs */
    bool (*shows)(void *arg, int rank, enum launch_stream from);
    bool paused; /* the job's output is paused */
};

/* Too much output is unwritten, so that the ranks should pause. */
static bool is_full(const struct console *c)
{
    return async_writer_waiting(c->out->writer) > ASYNC_WRITER_FULL ||
           async_writer_waiting(c->err->writer) > ASYNC_WRITER_FULL;
}

static void on_written(void *arg)
{
    struct console *c = arg;
    if (c->paused && c->job && !is_full(c)) {
        c->paused = false;
        launch_resume_output(c->job);
    }
    c->on_progress(c->arg);
}

int console_open(struct console **out, uv_loop_t *loop, const struct console_style *style,
                 void (*on_progress)(void *arg), void *arg, struct err *e)
{
    AUTO(console) struct console *c = xzalloc(sizeof *c);
    c->style = *style;
    c->on_progress = on_progress;
    c->arg = arg;
    c->own[0].unfinished = c->own[1].unfinished = NO_SOURCE;
    c->out = &c->own[0];
    c->err = async_writer_same(STDOUT_FILENO, STDERR_FILENO) ? &c->own[0] : &c->own[1];
    c->err->coloured = terminal_coloured(STDERR_FILENO);
    c->out->coloured = terminal_coloured(STDOUT_FILENO);
    c->err->repeats = isatty(STDERR_FILENO);
    c->out->repeats = isatty(STDOUT_FILENO);
    int rc = async_writer_open(&c->out->writer, loop, STDOUT_FILENO, on_written, c, e);
    if (rc == 0 && c->err != c->out)
        rc = async_writer_open(&c->err->writer, loop, STDERR_FILENO, on_written, c, e);
    if (rc < 0)
        return rc;
    *out = TAKE(c);
    return 0;
}

void console_close(struct console *c)
{
    if (!c)
        return;
    async_writer_close(c->own[0].writer);
    async_writer_close(c->own[1].writer);
    free(c->begun);
    free(c);
}

void console_plan(struct console *c, const struct plan *p)
{
    c->plan = p;
    free(c->begun);
    c->begun = xcalloc(2 * (size_t)p->world_size, sizeof *c->begun);
    c->tag = c->style.tag;
    if (c->tag == CONSOLE_TAG_AUTO)
        c->tag = p->node_count > 1 ? CONSOLE_TAG_HOST : CONSOLE_TAG_NONE;
}

/* ---- the observed job ----------------------------------------------------------------------- */

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct console *c = arg;
    bool room = !c->shows(c->arg, rank, from) || console_line(c, rank, from, text, len);
    if (!room)
        c->paused = true;
    return room;
}

static void on_partial_line(void *arg, int rank, enum launch_stream from, const char *text,
                            size_t len)
{
    struct console *c = arg;
    if (c->shows(c->arg, rank, from))
        console_partial_line(c, rank, from, text, len);
}

static void on_ended(void *arg, const struct job_end *end)
{
    ((struct console *)arg)->job = NULL;
}

void console_attach(struct console *c, struct launch *job,
                    bool (*shows)(void *arg, int rank, enum launch_stream from))
{
    static const struct launch_events events = {
        .line = on_line, .partial_line = on_partial_line, .ended = on_ended};
    console_plan(c, launch_plan(job));
    c->job = job;
    c->shows = shows;
    c->paused = false;
    launch_observe(job, &events, c);
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int add_tag(char *mark, size_t size, const struct console *c, int i, const char *stream)
{
    const struct plan_rank *r = &c->plan->ranks[i];
    int rank = c->plan->first_rank + i;
    switch (c->tag) {
    case CONSOLE_TAG_HOST:
        return snprintf(mark, size, "%s:%d| ", c->plan->nodes[r->node].name, rank);
    case CONSOLE_TAG_RANK:
        return snprintf(mark, size, "[%d] ", rank);
    case CONSOLE_TAG_MPIRUN:
        return snprintf(mark, size, "[1,%d]<%s>:", rank, stream);
    case CONSOLE_TAG_TORCH:
        return snprintf(mark, size, "[%s%d]:", c->style.role ? c->style.role : "default",
                        r->local_rank);
    case CONSOLE_TAG_AUTO:
    case CONSOLE_TAG_NONE:
        break;
    }
    return c->style.timestamp ? snprintf(mark, size, "<%s>:", stream) : 0;
}

/* Writes the mark in front of a line: the time as mpirun writes it ("Tue Nov 21 12:00:00 2023"),
 * then the tag. Each rank has its own colour. */
static void add_mark(const struct console *c, struct sink *s, int rank, enum launch_stream from)
{
    char time_text[40] = "", tag[320]; /* a host name has at most 253 characters */
    if (c->style.timestamp) {
        time_t now = time(NULL);
        struct tm local;
        size_t n = strftime(time_text, sizeof time_text, "%a %b %e %H:%M:%S %Y",
                            localtime_r(&now, &local));
        async_writer_add(s->writer, time_text, n);
    }
    int n = add_tag(tag, sizeof tag, c, rank, from == LAUNCH_STDOUT ? "stdout" : "stderr");
    if (n <= 0)
        return;
    char colour[16];
    int on = s->coloured ? snprintf(colour, sizeof colour, "\033[3%dm", 1 + rank % 6) : 0;
    async_writer_add(s->writer, colour, (size_t)on);
    async_writer_add(s->writer, tag, (size_t)n < sizeof tag ? (size_t)n : sizeof tag - 1);
    async_writer_add(s->writer, "\033[0m", on ? 4 : 0);
}

static struct sink *sink_of(struct console *c, enum launch_stream from)
{
    return from == LAUNCH_STDOUT || c->style.merge ? c->out : c->err;
}

static void end_line(struct sink *s)
{
    log_status(NULL);
    if (s->unfinished != NO_SOURCE)
        async_writer_add(s->writer, "\n", 1);
    s->unfinished = NO_SOURCE;
}

/* Writes a part of a line. The tag precedes the part, unless the part continues the text that was
 * written last. */
static void add_text(struct console *c, int rank, enum launch_stream from, const char *text,
                     size_t len)
{
    struct sink *s = sink_of(c, from);
    int source = 2 * rank + (from == LAUNCH_STDERR);
    if (s->unfinished != source) {
        end_line(s);
        add_mark(c, s, rank, from);
        s->unfinished = source;
    }
    async_writer_add(s->writer, text, len);
}

/* Returns true if nothing of the line is left to show: other text came after its last byte, so a
 * newline is there. */
static bool is_shown(const struct sink *s, const struct begun *b, const char *text, size_t len)
{
    size_t needed = s->repeats || text[len] != '\r' ? len : len + 1;
    return b->shown > 0 && b->shown >= needed && !(s->repeats && b->torn);
}

bool console_line(struct console *c, int rank, enum launch_stream from, const char *text,
                  size_t len)
{
    struct sink *s = sink_of(c, from);
    int source = 2 * rank + (from == LAUNCH_STDERR);
    struct begun *b = &c->begun[source];
    size_t all = text[len] ? len + 1 : len; /* includes the byte that ended the line */
    bool continues = s->unfinished == source && !(s->repeats && b->torn);
    if (continues || !is_shown(s, b, text, len)) {
        size_t skipped = continues || !s->repeats ? b->shown : 0;
        if (!continues && s->unfinished == source)
            end_line(s);
        add_text(c, rank, from, text + skipped, all - skipped);
    }
    if (text[len] && s->unfinished == source)
        s->unfinished = NO_SOURCE;
    *b = (struct begun){0};
    return !is_full(c);
}

void console_partial_line(struct console *c, int rank, enum launch_stream from, const char *text,
                          size_t len)
{
    int source = 2 * rank + (from == LAUNCH_STDERR);
    struct begun *b = &c->begun[source];
    if (is_full(c) || len <= b->shown)
        return;
    b->torn |= b->shown > 0 && sink_of(c, from)->unfinished != source;
    add_text(c, rank, from, text + b->shown, len - b->shown);
    b->shown = len;
}

void console_print(struct console *c, const char *text)
{
    if (console_error(c) == -EPIPE)
        return;
    end_line(c->err);
    async_writer_add(c->err->writer, text, strlen(text));
}

bool console_waiting(const struct console *c)
{
    return async_writer_waiting(c->out->writer) > 0 || async_writer_waiting(c->err->writer) > 0;
}

int console_error(const struct console *c)
{
    int error = async_writer_error(c->out->writer);
    return error ? error : async_writer_error(c->err->writer);
}
