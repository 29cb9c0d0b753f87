#include "launcher/run/console.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "launcher/io/async_writer.h"

enum { NOBODY = -1 };

/* Where lines go. Both streams' sinks are one where stdout and stderr are the same file, so that
 * their lines never cut each other. */
struct sink {
    struct async_writer *outlet;
    bool terminal;
    int unfinished; /* the source whose line has no end so far; NOBODY: none */
    bool coloured;
    size_t shown; /* bytes of that line that will come again, since it had only begun */
};

struct console {
    struct console_style style;
    struct sink own[2];
    struct sink *out, *err;
    const struct plan *plan;
    enum console_tag tag; /* never AUTO */
};

bool console_coloured(int fd)
{
    const char *no = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE"), *term = getenv("TERM");
    if (no && *no)
        return false;
    if (force && *force && strcmp(force, "0") != 0)
        return true;
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

int console_open(struct console **out, uv_loop_t *loop, const struct console_style *style,
                 void (*moved)(void *arg), void *arg, struct err *e)
{
    AUTO(console) struct console *c = xzalloc(sizeof *c);
    c->style = *style;
    c->own[0].unfinished = c->own[1].unfinished = NOBODY;
    c->out = &c->own[0];
    c->err = async_writer_same(STDOUT_FILENO, STDERR_FILENO) ? &c->own[0] : &c->own[1];
    c->err->coloured = console_coloured(STDERR_FILENO);
    c->out->coloured = console_coloured(STDOUT_FILENO);
    int rc = async_writer_open(&c->out->outlet, loop, STDOUT_FILENO, moved, arg, e);
    if (rc == 0 && c->err != c->out)
        rc = async_writer_open(&c->err->outlet, loop, STDERR_FILENO, moved, arg, e);
    if (rc < 0)
        return rc;
    c->out->terminal = isatty(STDOUT_FILENO);
    c->err->terminal = isatty(STDERR_FILENO);
    *out = TAKE(c);
    return 0;
}

void console_close(struct console *c)
{
    if (!c)
        return;
    async_writer_close(c->own[0].outlet);
    async_writer_close(c->own[1].outlet);
    free(c);
}

void console_plan(struct console *c, const struct plan *p)
{
    c->plan = p;
    c->tag = c->style.tag;
    if (c->tag == CONSOLE_TAG_AUTO)
        c->tag = p->node_count > 1 ? CONSOLE_TAG_HOST : CONSOLE_TAG_NONE;
}

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

/* The time as mpirun writes it ("Tue Nov 21 12:00:00 2023"), then the tag, in a colour for each
 * rank. */
static void add_mark(const struct console *c, struct sink *s, int rank, enum launch_stream from)
{
    char time_text[40] = "", tag[320]; /* a host's name has 253 letters at most */
    if (c->style.timestamp) {
        time_t now = time(NULL);
        struct tm local;
        size_t n = strftime(time_text, sizeof time_text, "%a %b %e %H:%M:%S %Y",
                            localtime_r(&now, &local));
        async_writer_add(s->outlet, time_text, n);
    }
    int n = add_tag(tag, sizeof tag, c, rank, from == LAUNCH_STDOUT ? "stdout" : "stderr");
    if (n <= 0)
        return;
    char colour[16];
    int on = s->coloured ? snprintf(colour, sizeof colour, "\033[3%dm", 1 + rank % 6) : 0;
    async_writer_add(s->outlet, colour, (size_t)on);
    async_writer_add(s->outlet, tag, (size_t)n < sizeof tag ? (size_t)n : sizeof tag - 1);
    async_writer_add(s->outlet, "\033[0m", on ? 4 : 0);
}

static struct sink *sink_of(struct console *c, enum launch_stream from)
{
    return from == LAUNCH_STDOUT || c->style.merge ? c->out : c->err;
}

/* Ends what another has left unfinished. */
static void end_line(struct sink *s)
{
    if (s->unfinished != NOBODY)
        async_writer_add(s->outlet, "\n", 1);
    s->unfinished = NOBODY;
    s->shown = 0;
}

/* What is new in the `len` bytes of a line, after its mark. */
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
    async_writer_add(s->outlet, text + s->shown, len - s->shown);
}

bool console_line(struct console *c, int rank, enum launch_stream from, const char *text,
                  size_t len)
{
    struct sink *s = sink_of(c, from);
    add_text(c, rank, from, text, text[len] ? len + 1 : len); /* what ends it stands behind it */
    s->shown = 0;
    if (text[len])
        s->unfinished = NOBODY;
    return !console_full(c);
}

void console_partial_line(struct console *c, int rank, enum launch_stream from, const char *text,
                          size_t len, bool alone)
{
    struct sink *s = sink_of(c, from);
    bool shared = !alone || c->out == c->err || c->style.merge;
    if ((shared && !s->terminal) || console_full(c))
        return;
    add_text(c, rank, from, text, len);
    s->shown = len;
}

void console_print(struct console *c, const char *text)
{
    end_line(c->err);
    async_writer_add(c->err->outlet, text, strlen(text));
}

bool console_full(const struct console *c)
{
    return async_writer_waiting(c->out->outlet) > ASYNC_WRITER_FULL ||
           async_writer_waiting(c->err->outlet) > ASYNC_WRITER_FULL;
}

bool console_waiting(const struct console *c)
{
    return async_writer_waiting(c->out->outlet) > 0 || async_writer_waiting(c->err->outlet) > 0;
}

int console_error(const struct console *c)
{
    int error = async_writer_error(c->out->outlet);
    return error ? error : async_writer_error(c->err->outlet);
}
