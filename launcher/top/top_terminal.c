#include "launcher/top/top_terminal.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/strbuf.h"
#include "launcher/io/terminal_modes.h"

enum { TICK_MS = 50, KEYS_MAX = 64, COLUMNS = 80, ROWS = 24 };

/* The alternate screen without a cursor; and back. */
#define ENTER "\033[?1049h\033[?25l\033[2J"
#define LEAVE "\033[?25h\033[?1049l"

static const int watched[] = {SIGWINCH, SIGTSTP, SIGCONT};

struct top_terminal {
    const struct top_terminal_events *ev;
    void *arg;
    uv_timer_t timer;
    uv_signal_t signals[COUNT_OF(watched)];
    int columns, rows;
    bool due, entered; /* entered: the alternate screen is shown */
};

/* ---- output --------------------------------------------------------------------------------- */

static bool can_paint(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return tcgetpgrp(STDOUT_FILENO) == getpgrp() && poll(&p, 1, 0) == 1;
}

/* Returns true if the size has changed. */
static bool read_size(struct top_terminal *t)
{
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
    int columns = known ? size.ws_col : COLUMNS, rows = known ? size.ws_row : ROWS;
    bool changed = columns != t->columns || rows != t->rows;
    t->columns = columns;
    t->rows = rows;
    return changed;
}

/* Output that the user has stopped (Ctrl-S) would block the end of the program. TCOON alone
 * continues only what TCOOFF has stopped. */
static void leave(struct top_terminal *t)
{
    if (t->entered) {
        (void)tcflow(STDOUT_FILENO, TCOOFF);
        (void)tcflow(STDOUT_FILENO, TCOON);
        (void)file_write_all(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
    }
    t->entered = false;
    terminal_modes_unwatch();
}

void top_terminal_paint(struct top_terminal *t, const char *text, size_t len)
{
    AUTO(strbuf) struct strbuf out = {0};
    if (!t->entered) {
        strbuf_puts(&out, ENTER);
        terminal_modes_watch(LEAVE);
    }
    t->entered = true;
    strbuf_puts(&out, "\033[H");
    strbuf_add(&out, text, len);
    (void)file_write_all(STDOUT_FILENO, out.data, out.len);
}

static void on_log_line(void *arg, const char *line)
{
    struct top_terminal *t = arg;
    t->ev->message(t->arg, line);
    t->due = true;
}

/* ---- keys, time and signals ----------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct top_terminal *t = timer->data;
    char keys[KEYS_MAX];
    ssize_t n = terminal_modes_read(keys, sizeof keys);
    if (n > 0)
        t->ev->keys(t->arg, keys, (size_t)n);
    t->due |= n > 0 || read_size(t); /* SIGWINCH may be late */
    if (!t->due || !can_paint())
        return;
    t->due = false;
    t->ev->frame(t->arg);
}

/* Ctrl-Z: stops as without a handler, with the terminal as it was. Continues here. */
static void suspend(uv_signal_t *s)
{
    leave(s->data);
    uv_signal_stop(s);
    (void)raise(SIGTSTP);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct top_terminal *t = s->data;
    if (number == SIGTSTP) {
        suspend(s);
        uv_signal_start(s, on_signal, SIGTSTP);
    }
    if (number == SIGCONT) { /* the shell has set its own modes, and its own screen */
        terminal_modes_forget();
        t->entered = false;
    }
    t->due = true;
}

/* ---- life ----------------------------------------------------------------------------------- */

bool top_terminal_usable(void)
{
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

struct top_terminal *top_terminal_open(uv_loop_t *loop, const struct top_terminal_events *ev,
                                       void *arg)
{
    struct top_terminal *t = xzalloc(sizeof *t);
    t->ev = ev;
    t->arg = arg;
    t->due = true;
    read_size(t);
    log_set_sink(on_log_line, t);
    uv_timer_init(loop, &t->timer);
    t->timer.data = t;
    uv_timer_start(&t->timer, on_timer, 0, TICK_MS);
    for (size_t i = 0; i < COUNT_OF(watched); i++) {
        uv_signal_init(loop, &t->signals[i]);
        t->signals[i].data = t;
        uv_signal_start(&t->signals[i], on_signal, watched[i]);
    }
    return t;
}

void top_terminal_stop(struct top_terminal *t)
{
    log_set_sink(NULL, NULL);
    leave(t);
    uv_close((uv_handle_t *)&t->timer, NULL);
    for (size_t i = 0; i < COUNT_OF(watched); i++)
        uv_close((uv_handle_t *)&t->signals[i], NULL);
}

void top_terminal_free(struct top_terminal *t)
{
    free(t);
}

void top_terminal_changed(struct top_terminal *t)
{
    t->due = true;
}

void top_terminal_size(const struct top_terminal *t, int *columns, int *rows)
{
    *columns = t->columns;
    *rows = t->rows;
}
