#include "hpo/cmd/worker_display.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "common/utf8.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/worker/run_result.h"
#include "launcher/io/terminal.h"
#include "launcher/io/terminal_text.h"

struct running {
    int trial;
    int64_t since_ms;
};

struct worker_display {
    const char *endpoint;
    double patience_s;
    bool colour;
    struct terminal *terminal; /* NULL: stdout or stderr is not a terminal */
    char *sweep;               /* NULL: the worker has not joined */
    int slots, ended;
    struct running *running; /* in the order of their starts */
    size_t count;
};

/* ---- lines ---------------------------------------------------------------------------------- */

/* Ends and prints a line. `b` may contain text of trials. */
static void print(const struct worker_display *d, const struct strbuf *b)
{
    AUTO(strbuf) struct strbuf line = {0};
    strbuf_puts(&line, "drover worker: ");
    utf8_add_line(&line, strbuf_str(b));
    strbuf_putc(&line, '\n');
    if (d->terminal) {
        terminal_print(d->terminal, strbuf_str(&line));
    } else {
        fputs(strbuf_str(&line), stdout);
        fflush(stdout); /* at once in a pipe, too */
    }
}

static void on_waiting(struct worker_display *d)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "no coordinator answers at %s; trying for ", d->endpoint);
    progress_text_seconds(&b, d->patience_s);
    strbuf_puts(&b, " (--patience)");
    print(d, &b);
}

static void on_joined(struct worker_display *d, const struct worker_notice *n)
{
    AUTO(strbuf) struct strbuf b = {0};
    free(d->sweep);
    d->sweep = xstrdup(n->sweep ? n->sweep : "");
    d->slots = n->slots;
    strbuf_printf(&b, "joined sweep %s at %s with %d slot%s", d->sweep, d->endpoint, d->slots,
                  plural_s(d->slots));
    print(d, &b);
}

static void on_started(struct worker_display *d, const struct worker_notice *n)
{
    AUTO(strbuf) struct strbuf b = {0};
    d->running = xgrow(d->running, d->count, sizeof *d->running);
    d->running[d->count++] = (struct running){n->trial, clock_ms()};
    strbuf_printf(&b, "started trial %d", n->trial);
    print(d, &b);
}

static void on_ended(struct worker_display *d, const struct worker_notice *n)
{
    AUTO(strbuf) struct strbuf b = {0};
    size_t i = 0;
    while (d->running[i].trial != n->trial)
        i++;
    strbuf_printf(&b, "trial %d ended after ", n->trial);
    progress_text_seconds(&b, (double)(clock_ms() - d->running[i].since_ms) / 1000);
    strbuf_puts(&b, ": ");
    run_result_text(&b, n->result);
    memmove(&d->running[i], &d->running[i + 1], (--d->count - i) * sizeof *d->running);
    d->ended++;
    print(d, &b);
}

/* ---- the block ------------------------------------------------------------------------------ */

static void add_line(char ***lines, const struct strbuf *text, int columns, const char *sgr)
{
    struct strbuf line = {0};
    strbuf_puts(&line, sgr);
    (void)terminal_text_add(&line, strbuf_str(text), columns);
    strbuf_puts(&line, *sgr ? "\033[m" : "");
    strv_push(lines, strbuf_take(&line));
}

static void on_frame(void *arg)
{
    struct worker_display *d = arg;
    AUTO(strbuf) struct strbuf b = {0};
    char **lines = NULL;
    int columns, rows;
    int64_t now = clock_ms();
    terminal_size(d->terminal, &columns, &rows);
    if (d->sweep)
        strbuf_printf(&b, "%s  %zu of %d slot%s  %d ended", d->sweep, d->count, d->slots,
                      plural_s(d->slots), d->ended);
    else
        strbuf_printf(&b, "connecting to %s", d->endpoint);
    add_line(&lines, &b, columns, d->colour ? "\033[1m" : "");
    for (size_t i = 0; i < d->count && (int)i + 1 < rows; i++) {
        strbuf_reset(&b);
        if ((int)i + 2 == rows && i + 1 < d->count) {
            strbuf_printf(&b, "  %zu more trial%s running", d->count - i,
                          d->count - i == 1 ? " is" : "s are");
        } else {
            strbuf_printf(&b, "  trial %d  ", d->running[i].trial);
            progress_text_seconds(&b, (double)(now - d->running[i].since_ms) / 1000);
        }
        add_line(&lines, &b, columns, "");
    }
    terminal_paint_block(d->terminal, lines);
}

/* ---- life ----------------------------------------------------------------------------------- */

void worker_display_notice(void *arg, const struct worker_notice *n)
{
    static const struct terminal_events events = {.frame = on_frame};
    struct worker_display *d = arg;
    switch (n->kind) {
    case WORKER_NOTICE_OPENED:
        if (terminal_usable(TERMINAL_BLOCK) && isatty(STDOUT_FILENO))
            d->terminal = terminal_open(n->loop, TERMINAL_BLOCK, &events, d);
        break;
    case WORKER_NOTICE_WAITING:
        on_waiting(d);
        break;
    case WORKER_NOTICE_JOINED:
        on_joined(d, n);
        break;
    case WORKER_NOTICE_STARTED:
        on_started(d, n);
        break;
    case WORKER_NOTICE_ENDED:
        on_ended(d, n);
        break;
    case WORKER_NOTICE_CLOSING:
        terminal_stop(d->terminal);
        break;
    }
}

struct worker_display *worker_display_open(const char *endpoint, double patience_s, bool colour)
{
    struct worker_display *d = xzalloc(sizeof *d);
    d->endpoint = endpoint;
    d->patience_s = patience_s;
    d->colour = colour;
    return d;
}

void worker_display_close(struct worker_display *d)
{
    if (!d)
        return;
    terminal_free(d->terminal);
    free(d->sweep);
    free(d->running);
    free(d);
}
