#include "launcher/io/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/strbuf.h"
#include "launcher/io/terminal_text.h"

enum { KEYS_MAX = 64, COLUMNS = 80, ROWS = 24 };

/* The alternate screen without a cursor; and back. */
#define ENTER "\033[?1049h\033[?25l\033[2J"
#define LEAVE "\033[?25h\033[?1049l"

static const struct {
    int fd, tick_ms;
    int idle_ms; /* after this time a frame is due; 0: never */
    int margin;  /* columns and rows that a frame leaves free */
} kinds[] = {
    [TERMINAL_SCREEN] = {.fd = STDOUT_FILENO, .tick_ms = 50},
    /* A full line could wrap, and the cursor is below the block. */
    [TERMINAL_BLOCK] = {.fd = STDERR_FILENO, .tick_ms = 100, .idle_ms = 1000, .margin = 1},
};

static const int watched[] = {SIGWINCH, SIGTSTP, SIGCONT};

struct terminal {
    enum terminal_kind kind;
    int fd;
    const struct terminal_events *ev;
    void *arg;
    uv_timer_t timer;
    uv_signal_t signals[COUNT_OF(watched)];
    int columns, rows;
    bool due, stopped;
    int64_t framed_ms;
    bool entered; /* the alternate screen is shown */
    /* of a block */
    struct strbuf above; /* lines to be printed above it */
    char **lines;        /* strv: those on the terminal; NULL: none */
    int painted_columns; /* when they were painted */
};

/* ---- modes of the terminal of stdin --------------------------------------------------------- */

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/* There is one terminal, so this is the process's. Used by a signal handler, too. */
static struct {
    volatile sig_atomic_t changed; /* the terminal has this process's modes */
    bool known;                    /* `before` is set */
    struct termios before;
    const char *volatile farewell; /* written to stdout at an exit or a crash; NULL: nothing */
    struct sigaction actions[COUNT_OF(crashes)];
} modes;

/* A process in the background would be stopped if it read or changed the terminal. */
static bool in_foreground(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void restore_modes(void)
{
    if (modes.changed && in_foreground())
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &modes.before);
    modes.changed = 0;
}

static void change_modes(void)
{
    struct termios own;
    if (modes.changed || !isatty(STDIN_FILENO) || !in_foreground() ||
        tcgetattr(STDIN_FILENO, &own) < 0)
        return;
    if (!modes.known || (own.c_lflag & ICANON)) /* otherwise they are this process's already */
        modes.before = own;
    modes.known = true;
    own.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: Ctrl-C and Ctrl-Z are signals */
    own.c_cc[VMIN] = 0;                        /* a read returns at once */
    own.c_cc[VTIME] = 0;
    modes.changed = 1;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &own);
}

static void on_exit_or_crash(void)
{
    restore_modes();
    if (modes.farewell)
        (void)file_write_all(STDOUT_FILENO, modes.farewell, strlen(modes.farewell));
    modes.farewell = NULL;
}

static void on_crash(int number)
{
    on_exit_or_crash();
    for (size_t i = 0; i < COUNT_OF(crashes); i++)
        if (crashes[i] == number)
            (void)sigaction(number, &modes.actions[i], NULL);
    (void)raise(number);
}

/* Only an action that is the default is replaced: a sanitizer or a debugger has its own. */
static void watch_exit(void)
{
    static bool registered;
    struct sigaction own = {.sa_handler = on_crash};
    for (size_t i = 0; i < COUNT_OF(crashes); i++)
        if (sigaction(crashes[i], NULL, &modes.actions[i]) == 0 &&
            modes.actions[i].sa_handler == SIG_DFL)
            (void)sigaction(crashes[i], &own, NULL);
    if (!registered)
        (void)atexit(on_exit_or_crash);
    registered = true;
}

static void unwatch_exit(void)
{
    for (size_t i = 0; i < COUNT_OF(crashes); i++)
        (void)sigaction(crashes[i], &modes.actions[i], NULL);
}

/* ---- screen --------------------------------------------------------------------------------- */

/* A terminal that is closed takes no output; the program continues without it. */
static void put(const struct terminal *t, const struct strbuf *b)
{
    (void)file_write_all(t->fd, b->data, b->len);
}

/* Output that the user has stopped (Ctrl-S) would block the end of the program. TCOON alone
 * continues only what TCOOFF has stopped. */
static void leave_screen(struct terminal *t)
{
    if (t->entered) {
        (void)tcflow(t->fd, TCOOFF);
        (void)tcflow(t->fd, TCOON);
        (void)file_write_all(t->fd, LEAVE, sizeof LEAVE - 1);
    }
    t->entered = false;
    modes.farewell = NULL;
}

void terminal_paint_screen(struct terminal *t, const char *text, size_t len)
{
    AUTO(strbuf) struct strbuf out = {0};
    strbuf_puts(&out, t->entered ? "\033[H" : ENTER "\033[H");
    strbuf_add(&out, text, len);
    t->entered = true;
    modes.farewell = LEAVE;
    put(t, &out);
}

/* ---- block ---------------------------------------------------------------------------------- */

/* Returns the number of cells of a line, which has SGR sequences. */
static int cells_of(const char *line)
{
    AUTO(strbuf) struct strbuf plain = {0};
    for (; *line; line++) {
        if (*line == '\033')
            line += strcspn(line, "m");
        else
            strbuf_putc(&plain, *line);
    }
    return terminal_text_cells(strbuf_str(&plain));
}

/* Returns the rows that the block has now: a terminal that became narrower wraps its lines. */
static int rows_of(const struct terminal *t)
{
    int rows = 0;
    for (char **line = t->lines; line && *line; line++) {
        int cells = t->columns < t->painted_columns ? cells_of(*line) : 0;
        rows += cells > t->columns ? (cells - 1) / t->columns + 1 : 1;
    }
    return rows < t->rows ? rows : t->rows - 1;
}

/* Moves the cursor to the first cell of the block. */
static void add_up(const struct terminal *t, struct strbuf *out)
{
    int rows = rows_of(t);
    if (rows > 0)
        strbuf_printf(out, "\033[%dA", rows);
    strbuf_putc(out, '\r');
}

/* Prints the lines that wait over the block, of which nothing is left in their rows. The screen is
 * not cleared from its first cell: terminals that keep what they clear would keep the block. */
static void add_above(struct terminal *t, struct strbuf *out)
{
    for (const char *line = strbuf_str(&t->above); *line; line += strcspn(line, "\n") + 1)
        strbuf_printf(out, "%.*s\033[K\n", (int)strcspn(line, "\n"), line);
    strbuf_reset(&t->above);
}

/* Removes the block, and prints the lines that wait. */
static void wipe_block(struct terminal *t)
{
    AUTO(strbuf) struct strbuf out = {0};
    if (!t->lines) {
        put(t, &t->above);
        strbuf_reset(&t->above);
        return;
    }
    add_up(t, &out);
    add_above(t, &out);
    strbuf_puts(&out, "\033[K\n\033[J\033[A");
    strv_free(TAKE(t->lines));
    put(t, &out);
}

void terminal_paint_block(struct terminal *t, char **lines)
{
    AUTO(strbuf) struct strbuf out = {0};
    bool all = t->above.len > 0 || t->columns != t->painted_columns, changed = all;
    size_t i = 0, old_count = strv_len(t->lines);
    add_up(t, &out);
    add_above(t, &out);
    for (; lines && lines[i]; i++) {
        bool same = !all && i < old_count && strcmp(lines[i], t->lines[i]) == 0;
        changed |= !same;
        if (!same)
            strbuf_printf(&out, "%s\033[K", lines[i]);
        strbuf_putc(&out, '\n');
    }
    if (all || i < old_count)
        strbuf_puts(&out, "\033[J");
    if (changed || i < old_count)
        put(t, &out);
    strv_free(t->lines);
    t->lines = lines;
    t->painted_columns = t->columns;
}

void terminal_print(struct terminal *t, const char *text)
{
    strbuf_puts(&t->above, text);
    t->due = true;
    if (t->stopped)
        wipe_block(t);
}

/* ---- time, keys and signals ----------------------------------------------------------------- */

/* Returns true if the size has changed. */
static bool read_size(struct terminal *t)
{
    struct winsize size = {0};
    bool known = ioctl(t->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && size.ws_row > 1;
    int columns = known ? size.ws_col : COLUMNS, rows = known ? size.ws_row : ROWS;
    bool changed = columns != t->columns || rows != t->rows;
    t->columns = columns;
    t->rows = rows;
    return changed;
}

static bool can_paint(const struct terminal *t)
{
    struct pollfd p = {.fd = t->fd, .events = POLLOUT};
    bool shown = t->kind == TERMINAL_BLOCK || tcgetpgrp(t->fd) == getpgrp();
    return shown && poll(&p, 1, 0) == 1;
}

/* Returns true if a key was pressed. */
static bool read_keys(struct terminal *t)
{
    char keys[KEYS_MAX];
    if (!t->ev->keys)
        return false;
    change_modes(); /* this process may be in the foreground again */
    ssize_t n = modes.changed && in_foreground() ? read(STDIN_FILENO, keys, sizeof keys) : 0;
    if (n > 0)
        t->ev->keys(t->arg, keys, (size_t)n);
    return n > 0;
}

static void on_timer(uv_timer_t *timer)
{
    struct terminal *t = timer->data;
    int64_t now = clock_ms();
    int idle_ms = kinds[t->kind].idle_ms;
    t->due |= read_keys(t);
    t->due |= read_size(t); /* SIGWINCH may be late */
    t->due |= idle_ms > 0 && now - t->framed_ms >= idle_ms;
    if (t->stopped || !t->due || !can_paint(t))
        return;
    t->due = false;
    t->framed_ms = now;
    t->ev->frame(t->arg);
}

static void on_log_line(void *arg, const char *line)
{
    struct terminal *t = arg;
    if (t->kind == TERMINAL_BLOCK)
        terminal_print(t, line);
    else
        t->ev->message(t->arg, line);
    t->due = true;
}

/* The terminal is as it was. */
static void leave(struct terminal *t)
{
    if (t->kind == TERMINAL_BLOCK)
        wipe_block(t);
    else
        leave_screen(t);
    restore_modes();
}

/* Ctrl-Z stops as without a handler, and continues here. Before SIGCONT comes, the shell has set
 * its own modes, and its own screen. */
static void on_signal(uv_signal_t *s, int number)
{
    struct terminal *t = s->data;
    if (number == SIGTSTP) {
        leave(t);
        uv_signal_stop(s);
        (void)raise(SIGTSTP);
        uv_signal_start(s, on_signal, SIGTSTP);
    }
    if (number == SIGCONT) {
        modes.changed = 0;
        t->entered = false;
    }
    t->due = true;
}

/* ---- life ----------------------------------------------------------------------------------- */

bool terminal_coloured(int fd)
{
    const char *no = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE"), *term = getenv("TERM");
    if (no && *no)
        return false;
    if (force && *force && strcmp(force, "0") != 0)
        return true;
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool terminal_usable(enum terminal_kind kind)
{
    const char *term = getenv("TERM");
    return isatty(kinds[kind].fd) && term && *term && strcmp(term, "dumb") != 0;
}

struct terminal *terminal_open(uv_loop_t *loop, enum terminal_kind kind,
                               const struct terminal_events *ev, void *arg)
{
    struct terminal *t = xzalloc(sizeof *t);
    t->kind = kind;
    t->fd = kinds[kind].fd;
    t->ev = ev;
    t->arg = arg;
    t->due = true;
    read_size(t);
    watch_exit();
    log_set_sink(on_log_line, t);
    uv_timer_init(loop, &t->timer);
    t->timer.data = t;
    uv_timer_start(&t->timer, on_timer, 0, (uint64_t)kinds[kind].tick_ms);
    for (size_t i = 0; i < COUNT_OF(watched); i++) {
        uv_signal_init(loop, &t->signals[i]);
        t->signals[i].data = t;
        uv_signal_start(&t->signals[i], on_signal, watched[i]);
    }
    return t;
}

void terminal_stop(struct terminal *t)
{
    if (!t || t->stopped)
        return;
    t->stopped = true;
    log_set_sink(NULL, NULL);
    leave(t);
    unwatch_exit();
    uv_close((uv_handle_t *)&t->timer, NULL);
    for (size_t i = 0; i < COUNT_OF(watched); i++)
        uv_close((uv_handle_t *)&t->signals[i], NULL);
}

void terminal_free(struct terminal *t)
{
    if (!t)
        return;
    strbuf_free(&t->above);
    strv_free(t->lines);
    free(t);
}

void terminal_changed(struct terminal *t)
{
    t->due = true;
}

void terminal_size(const struct terminal *t, int *columns, int *rows)
{
    *columns = t->columns - kinds[t->kind].margin;
    *rows = t->rows - kinds[t->kind].margin;
}

bool terminal_has_keys(const struct terminal *t)
{
    return modes.changed && !t->stopped;
}
