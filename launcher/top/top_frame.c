#include "launcher/top/top_frame.h"

#include <limits.h>

#include "launcher/io/terminal_text.h"

enum {
    GAP = 2,       /* cells between two columns */
    FILL_MIN = 12, /* cells of a column that is cut, before others are dropped for it */
    TABLE = 0      /* as the number of columns: no limit */
};

static const char bold[] = "1", dim[] = "2", yellow[] = "33";

static const char *const titles[TOP_SECTIONS] = {"GPUs", "Processes on GPUs", "Jobs and sweeps"};

static const char *const help_lines[] = {
    "q  quit",
    "s  sort the GPUs by index, utilisation, memory or power",
    "j, k, arrow keys  scroll by a line; space, b  by a page",
    "h  show or hide this help",
    "",
    "UTIL is the share of time in which a kernel ran, however small it was.",
    "POWER and SM CLOCK show how much the GPU worked.",
    "THROTTLE: heat, brake (power supply), slowdown (hardware), cap (power limit)",
    "'-' is unknown: MIG instances report no utilisation.",
    "Processes of other containers and other users' namespaces are not visible.",
};

/* ---- columns -------------------------------------------------------------------------------- */

struct layout {
    struct top_column columns[TOP_COLUMNS_MAX];
    int count;
    int widths[TOP_COLUMNS_MAX]; /* 0: dropped */
};

static int cells_of(const char *text)
{
    return terminal_text_cells(text);
}

static int total_width(const struct layout *l, bool least)
{
    int total = 0;
    for (int i = 0; i < l->count; i++) {
        int w = l->widths[i];
        if (least && l->columns[i].fills && w > FILL_MIN)
            w = FILL_MIN;
        total += w ? w + GAP : 0;
    }
    return total ? total - GAP : 0;
}

/* Returns the column that is dropped next, or -1. */
static int next_to_drop(const struct layout *l)
{
    int found = -1, priority = 0;
    for (int i = 0; i < l->count; i++)
        if (l->widths[i] && l->columns[i].priority > priority) {
            found = i;
            priority = l->columns[i].priority;
        }
    return found;
}

static void lay_out(struct layout *l, const struct top_view *v, enum top_section section,
                    int columns)
{
    *l = (struct layout){0};
    l->count = top_model_columns(l->columns, section);
    for (int i = v->several_nodes ? 0 : 1; i < l->count; i++) {
        int title = cells_of(l->columns[i].title), least = l->columns[i].least;
        l->widths[i] = title > least ? title : least;
    }
    for (int r = 0; r < v->count; r++)
        for (int i = 0; v->rows[r].section == section && i < l->count; i++) {
            int w = l->widths[i] ? cells_of(v->rows[r].cells[i]) : 0;
            l->widths[i] = w > l->widths[i] ? w : l->widths[i];
        }
    if (columns == TABLE)
        return;
    for (int drop; total_width(l, true) > columns && (drop = next_to_drop(l)) >= 0;)
        l->widths[drop] = 0;
    for (int i = 0; i < l->count; i++)
        if (l->widths[i] && l->columns[i].fills && total_width(l, false) > columns)
            l->widths[i] -= total_width(l, false) - columns;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static void add_spaces(struct strbuf *b, int n)
{
    for (int i = 0; i < n; i++)
        strbuf_putc(b, ' ');
}

/* Appends a cell, cut to its width, without spaces at the end of the line. */
static void add_cell(struct strbuf *b, int *wanted, const char *text, int width, bool right)
{
    AUTO(strbuf) struct strbuf cell = {0};
    int used = terminal_text_add(&cell, text, width);
    add_spaces(b, *wanted + (right ? width - used : 0));
    strbuf_puts(b, strbuf_str(&cell));
    *wanted = GAP + (right ? 0 : width - used);
}

/* A screen without its first and last line. */
struct body {
    char **lines;     /* strv */
    const char **sgr; /* how each is shown on a terminal with colours; NULL: plain */
};

/* Takes the text. */
static void push(struct body *b, const char *sgr, char *text)
{
    size_t n = strv_len(b->lines);
    b->sgr = xgrow(b->sgr, n, sizeof *b->sgr);
    b->sgr[n] = sgr;
    strv_push(&b->lines, text);
}

static void body_end(struct body *b)
{
    strv_free(b->lines);
    free(b->sgr);
}

AUTO_DEFINE_STRUCT(body, struct body, body_end)

/* Adds a line of cells; NULL: the titles. */
static void add_cells(struct body *lines, const struct layout *l, char *const *cells)
{
    AUTO(strbuf) struct strbuf b = {0};
    int wanted = 0; /* spaces before the next cell */
    for (int i = 0; i < l->count; i++)
        if (l->widths[i])
            add_cell(&b, &wanted, cells ? cells[i] : l->columns[i].title, l->widths[i],
                     l->columns[i].right);
    push(lines, cells ? NULL : dim, strbuf_take(&b));
}

static bool has_rows(const struct top_view *v, enum top_section section)
{
    for (int r = 0; r < v->count; r++)
        if (v->rows[r].section == section)
            return true;
    return false;
}

static void add_section(struct body *lines, const struct top_view *v, enum top_section section,
                        int columns)
{
    struct layout l;
    if (!has_rows(v, section)) {
        push(lines, dim, xasprintf("%s: none", titles[section]));
        return;
    }
    lay_out(&l, v, section, columns);
    add_cells(lines, &l, NULL);
    for (int r = 0; r < v->count; r++)
        if (v->rows[r].section == section)
            add_cells(lines, &l, v->rows[r].cells);
}

static struct body body_of(const struct top_view *v, int columns, bool help)
{
    struct body b = {0};
    if (help) {
        for (size_t i = 0; i < COUNT_OF(help_lines); i++)
            push(&b, NULL, xstrdup(help_lines[i]));
        return b;
    }
    for (char **note = v->notes; note && *note; note++)
        push(&b, yellow, xstrdup(*note));
    for (int s = 0; s < TOP_SECTIONS; s++) {
        if (b.lines)
            push(&b, NULL, xstrdup(""));
        add_section(&b, v, (enum top_section)s, columns);
    }
    return b;
}

/* Appends exactly `columns` cells: the beginning of the text, and the end of `right` of it. `sgr`:
 * its colour; NULL: none. */
static void add_line(struct strbuf *out, const char *sgr, const char *text, const char *right,
                     int columns)
{
    if (sgr)
        strbuf_printf(out, "\033[%sm", sgr);
    int room = columns - cells_of(right) - (*right ? GAP : 0);
    bool both = *right && room > 0;
    int used = terminal_text_add(out, text, both ? room : columns);
    if (both) {
        add_spaces(out, columns - used - cells_of(right));
        strbuf_puts(out, right);
    } else {
        add_spaces(out, columns - used);
    }
    if (sgr)
        strbuf_puts(out, "\033[m");
}

void top_frame(struct strbuf *out, const struct top_view *v, int columns, int rows,
               struct top_state *state)
{
    AUTO(body) struct body body = body_of(v, columns, state->help);
    AUTO(free) char *title = xasprintf("drover top  %s", v->summary);
    AUTO(free) char *sort = xasprintf("sort: %s", top_model_sort_names[state->sort]);
    int count = (int)strv_len(body.lines), shown = rows > 2 ? rows - 2 : 0;
    int last = count > shown ? count - shown : 0;
    state->offset = state->offset > last ? last : state->offset;
    AUTO(free)
    char *position =
        last ? xasprintf("lines %d-%d of %d", state->offset + 1, state->offset + shown, count)
             : xstrdup("");
    add_line(out, state->colour ? bold : NULL, title, sort, columns);
    for (int i = 0; i < shown; i++) {
        int at = state->offset + i;
        strbuf_putc(out, '\n');
        add_line(out, state->colour && at < count ? body.sgr[at] : NULL,
                 at < count ? body.lines[at] : "", "", columns);
    }
    if (rows < 2)
        return;
    strbuf_putc(out, '\n');
    add_line(out,
             !state->colour   ? NULL
             : state->message ? yellow
                              : dim,
             state->message ? state->message : "q quit  s sort  j/k scroll  h help", position,
             columns);
}

void top_frame_table(struct strbuf *out, const struct top_view *v)
{
    AUTO(body) struct body body = body_of(v, TABLE, false);
    for (char **line = body.lines; line && *line; line++) {
        terminal_text_add(out, *line, INT_MAX);
        strbuf_putc(out, '\n');
    }
}

/* ---- keys ----------------------------------------------------------------------------------- */

size_t top_frame_key(struct top_state *state, const char *keys, size_t len, int rows)
{
    int page = rows > 3 ? rows - 3 : 1;
    bool arrow = len >= 3 && keys[0] == '\033' && (keys[1] == '[' || keys[1] == 'O');
    char key = arrow && keys[2] == 'A' ? 'k' : arrow && keys[2] == 'B' ? 'j' : keys[0];
    int lines = key == 'j' ? 1 : key == 'k' ? -1 : key == ' ' ? page : key == 'b' ? -page : 0;
    state->message = NULL;
    state->quit |= key == 'q';
    state->sort = (state->sort + (key == 's')) % TOP_SORTS;
    if (key == 'h' || key == '?') {
        state->help = !state->help;
        state->offset = 0;
    }
    state->offset = state->offset + lines < 0 ? 0 : state->offset + lines;
    return arrow ? 3 : 1;
}
