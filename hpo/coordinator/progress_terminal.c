#include "hpo/coordinator/progress_terminal.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/strbuf.h"
#include "launcher/io/terminal_modes.h"
#include "launcher/io/terminal_text.h"

enum { FRAME_MS = 100, IDLE_MS = 1000, COLUMNS = 80, ROWS = 24 };

static const int watched[] = {SIGWINCH, SIGTSTP, SIGCONT};

struct progress_terminal {
    const struct progress_terminal_events *ev;
    void *arg;
    uv_timer_t timer;
    uv_signal_t signals[COUNT_OF(watched)];
    struct strbuf above; /* lines to be printed above the block */
    char **lines;        /* strv: the block on the terminal; NULL: none */
    int columns, rows;   /* of the terminal */
    int painted_columns; /* when the block was painted */
    bool due, stopped;
    int64_t framed_ms;
};

/* ---- output --------------------------------------------------------------------------------- */

static bool is_writable(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) == 1;
}

static void read_size(struct progress_terminal *t)
{
    struct winsize size = {0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && size.ws_row > 1;
    t->columns = known ? size.ws_col : COLUMNS;
    t->rows = known ? size.ws_row : ROWS;
}

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
static int rows_of(const struct progress_terminal *t)
{
    int rows = 0;
    for (char **line = t->lines; line && *line; line++) {
        int cells = t->columns < t->painted_columns ? cells_of(*line) : 0;
        rows += cells > t->columns ? (cells - 1) / t->columns + 1 : 1;
    }
    return rows < t->rows ? rows : t->rows - 1;
}

/* Moves the cursor to the first cell of the block. */
static void add_up(const struct progress_terminal *t, struct strbuf *out)
{
    int rows = rows_of(t);
    if (rows > 0)
        strbuf_printf(out, "\033[%dA", rows);
    strbuf_putc(out, '\r');
}

/* Prints the lines that wait over the block, of which nothing is left in their rows. The screen is
 * not cleared from its first cell: terminals that keep what they clear would keep the block. */
static void add_above(struct progress_terminal *t, struct strbuf *out)
{
    for (const char *line = strbuf_str(&t->above); *line; line += strcspn(line, "\n") + 1)
        strbuf_printf(out, "%.*s\033[K\n", (int)strcspn(line, "\n"), line);
    strbuf_reset(&t->above);
}

/* Removes the block, and prints the lines that wait. */
static void wipe(struct progress_terminal *t)
{
    AUTO(strbuf) struct strbuf out = {0};
    if (!t->lines) {
        (void)file_write_all(STDERR_FILENO, t->above.data, t->above.len);
        strbuf_reset(&t->above);
        return;
    }
    add_up(t, &out);
    add_above(t, &out);
    strbuf_puts(&out, "\033[K\n\033[J\033[A");
    strv_free(TAKE(t->lines));
    (void)file_write_all(STDERR_FILENO, out.data, out.len);
}

void progress_terminal_paint(struct progress_terminal *t, char **lines)
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
        (void)file_write_all(STDERR_FILENO, out.data, out.len);
    strv_free(t->lines);
    t->lines = lines;
    t->painted_columns = t->columns;
}

void progress_terminal_print(struct progress_terminal *t, const char *text)
{
    strbuf_puts(&t->above, text);
    if (t->stopped)
        wipe(t);
    else
        t->due = true;
}

static void on_log_line(void *arg, const char *line)
{
    progress_terminal_print(arg, line);
}

/* ---- time, keys and signals ----------------------------------------------------------------- */

static void read_keys(struct progress_terminal *t)
{
    char keys[64];
    if (!t->ev->key)
        return;
    ssize_t n = terminal_modes_read(keys, sizeof keys);
    for (ssize_t i = 0; i < n; i++)
        t->ev->key(t->arg, keys[i]);
}

static void on_timer(uv_timer_t *timer)
{
    struct progress_terminal *t = timer->data;
    int64_t now = clock_ms();
    read_keys(t);
    if ((!t->due && now - t->framed_ms < IDLE_MS) || !is_writable())
        return;
    read_size(t); /* the signal may be late */
    t->due = false;
    t->framed_ms = now;
    t->ev->frame(t->arg);
}

/* Ctrl-Z: stops as without a handler, with the terminal as it was. Continues here. */
static void suspend(uv_signal_t *s)
{
    wipe(s->data);
    terminal_modes_restore();
    uv_signal_stop(s);
    (void)raise(SIGTSTP);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct progress_terminal *t = s->data;
    if (number == SIGTSTP) {
        suspend(s);
        uv_signal_start(s, on_signal, SIGTSTP);
    }
    if (number == SIGCONT)
        terminal_modes_forget();
    t->due = true;
}

/* ---- life ----------------------------------------------------------------------------------- */

bool progress_terminal_usable(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

struct progress_terminal *progress_terminal_open(uv_loop_t *loop,
                                                 const struct progress_terminal_events *ev,
                                                 void *arg)
{
    struct progress_terminal *t = xzalloc(sizeof *t);
    t->ev = ev;
    t->arg = arg;
    t->due = true;
    read_size(t);
    terminal_modes_watch(NULL);
    if (ev->key)
        terminal_modes_change();
    log_set_sink(on_log_line, t);
    uv_timer_init(loop, &t->timer);
    t->timer.data = t;
    uv_timer_start(&t->timer, on_timer, 0, FRAME_MS);
    for (size_t i = 0; i < COUNT_OF(watched); i++) {
        uv_signal_init(loop, &t->signals[i]);
        t->signals[i].data = t;
        uv_signal_start(&t->signals[i], on_signal, watched[i]);
    }
    return t;
}

void progress_terminal_stop(struct progress_terminal *t)
{
    if (!t || t->stopped)
        return;
    t->stopped = true;
    log_set_sink(NULL, NULL);
    wipe(t);
    terminal_modes_unwatch();
    uv_close((uv_handle_t *)&t->timer, NULL);
    for (size_t i = 0; i < COUNT_OF(watched); i++)
        uv_close((uv_handle_t *)&t->signals[i], NULL);
}

void progress_terminal_free(struct progress_terminal *t)
{
    if (!t)
        return;
    strbuf_free(&t->above);
    strv_free(t->lines);
    free(t);
}

void progress_terminal_changed(struct progress_terminal *t)
{
    t->due = true;
}

void progress_terminal_size(const struct progress_terminal *t, int *columns, int *rows)
{
    *columns = t->columns - 1; /* a full line could wrap */
    *rows = t->rows - 1;       /* the cursor is below the block */
}

bool progress_terminal_has_keys(const struct progress_terminal *t)
{
    return terminal_modes_changed() && !t->stopped;
}
