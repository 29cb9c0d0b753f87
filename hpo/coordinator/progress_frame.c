#include "hpo/coordinator/progress_frame.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "hpo/coordinator/progress_text.h"
#include "launcher/io/terminal_text.h"

enum {
    NARROW = 64,      /* below this number of columns, trials have fewer of them */
    BAR_MIN = 8,      /* cells */
    BAR_MAX = 48,     /* cells */
    BAR_TEXT = 52,    /* cells of the text next to it */
    CURVE_MAX = 60,   /* cells */
    ROWS_CURVE = 11,  /* the least rows for the curve */
    ROWS_LEGENDS = 9, /* the least rows for the trials' heading and the keys */
    ENDED_SHARE = 3,  /* of the rows for trials, ended ones get at least a third */
};

static const char bold[] = "1", dim[] = "2", red[] = "31", green[] = "32", yellow[] = "33";

/* ---- a line --------------------------------------------------------------------------------- */

struct canvas {
    const struct progress_frame *f;
    char **lines;      /* strv */
    int columns, left; /* left: rows */
    json_t *constants; /* parameters that all trials share; NULL */
    struct strbuf line;
    int used; /* cells of the line */
};

/* Appends text to the line. `sgr`: its colour; NULL: none. */
static void put(struct canvas *c, const char *sgr, const char *text)
{
    bool coloured = c->f->colour && sgr && *text;
    if (coloured)
        strbuf_printf(&c->line, "\033[%sm", sgr);
    c->used += terminal_text_add(&c->line, text, c->columns - c->used);
    if (coloured)
        strbuf_puts(&c->line, "\033[m");
}

__attribute__((format(printf, 3, 4))) static void putf(struct canvas *c, const char *sgr,
                                                       const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put(c, sgr, text);
}

static void end_line(struct canvas *c)
{
    AUTO(free) char *line = strbuf_take(&c->line);
    c->used = 0;
    if (c->left == 0)
        return;
    strv_push(&c->lines, TAKE(line));
    c->left--;
}

/* ---- the sweep ------------------------------------------------------------------------------ */

static void put_seconds(struct canvas *c, double s)
{
    AUTO(strbuf) struct strbuf b = {0};
    progress_text_seconds(&b, s);
    put(c, NULL, strbuf_str(&b));
}

static void put_count(struct canvas *c, int n, const char *what)
{
    if (n > 0)
        putf(c, NULL, "  %d %s%s", n, what, plural_s(n));
}

static void add_title(struct canvas *c)
{
    const struct progress_frame *f = c->f;
    put(c, bold, f->name);
    put(c, NULL, "  ");
    put(c, strcmp(f->mode, "running") == 0 ? green : yellow, f->mode);
    put(c, NULL, "  ");
    put_seconds(c, f->seconds);
    put_count(c, f->workers, "worker");
    put_count(c, f->slots, "slot");
    put_count(c, f->gpus, "GPU");
    end_line(c);
}

static int ended_of(const struct scheduler_counts *n)
{
    return n->done + n->pruned + n->failed + n->oom + n->invalid + n->cancelled;
}

static void add_bar(struct canvas *c)
{
    const struct progress_frame *f = c->f;
    int ended = ended_of(&f->counts), wanted = f->counts.total_wanted;
    int cells = c->columns - BAR_TEXT;
    cells = cells < BAR_MIN ? BAR_MIN : cells > BAR_MAX ? BAR_MAX : cells;
    double share = wanted > 0 ? fmin(1, (double)ended / wanted) : 0;
    for (int i = 0; i < cells && wanted > 0; i++) {
        bool full = i < (int)(share * cells);
        put(c, full ? green : dim, c->f->utf8 ? full ? "█" : "░" : full ? "#" : "-");
    }
    if (wanted > 0)
        putf(c, NULL, "  %d %%  ", (int)(share * 100));
    double per_minute = f->seconds > 0 ? 60.0 * f->ended_here / f->seconds : 0;
    putf(c, NULL, "%.3g trials/min", per_minute);
    if (wanted > ended && per_minute > 0) {
        put(c, NULL, "  about ");
        put_seconds(c, fmax(1, ceil((wanted - ended) / per_minute * 60)));
        put(c, NULL, " left");
    }
    end_line(c);
}

static void add_counts(struct canvas *c)
{
    AUTO(strbuf) struct strbuf b = {0};
    progress_text_counts(&b, &c->f->counts);
    put(c, NULL, strbuf_str(&b));
    end_line(c);
}

static void put_params(struct canvas *c, const json_t *params)
{
    AUTO(strbuf) struct strbuf b = {0};
    progress_text_params(&b, params, c->constants);
    put(c, NULL, strbuf_str(&b));
}

static void add_best(struct canvas *c)
{
    const struct progress_frame *f = c->f;
    if (f->best < 0)
        return;
    put(c, bold, "best");
    putf(c, NULL, "  trial %d  ", f->best);
    put(c, NULL, f->metric ? f->metric : "value");
    putf(c, bold, " %.6g", f->best_value);
    put(c, NULL, "  ");
    put_params(c, f->best_params);
    end_line(c);
}

/* The best value so far over the trials, from the lowest to the highest of its values. */
static void add_curve(struct canvas *c)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
    const struct progress_frame *f = c->f;
    size_t n = f->curve_count, cells = (size_t)(c->columns / 2);
    if (n < 2)
        return;
    cells = cells > CURVE_MAX ? CURVE_MAX : cells;
    cells = cells > n ? n : cells;
    /* The curve is monotonic: its ends are its extremes. */
    double low = fmin(f->curve[0], f->curve[n - 1]), high = fmax(f->curve[0], f->curve[n - 1]);
    put(c, NULL, "      ");
    for (size_t i = 0; i < cells; i++) {
        double v = f->curve[(i + 1) * n / cells - 1];
        /* Halves: the difference of finite values may be infinite. */
        double share = high > low ? (v / 2 - low / 2) / (high / 2 - low / 2) : 0;
        size_t level = (size_t)(fmin(fmax(share, 0), 1) * (COUNT_OF(blocks) - 1) + 0.5);
        put(c, green, (f->utf8 ? blocks : ascii)[level]);
    }
    putf(c, NULL, "  %.4g to %.4g", f->curve[0], f->curve[n - 1]);
    end_line(c);
}

/* ---- the trials ----------------------------------------------------------------------------- */

static const char *colour_of(const char *state)
{
    static const struct {
        const char *state, *sgr;
    } colours[] = {
        {"done", green}, {"pruned", yellow}, {"failed", red}, {"oom", red}, {"invalid", red},
    };
    for (size_t i = 0; i < COUNT_OF(colours); i++)
        if (strcmp(colours[i].state, state) == 0)
            return colours[i].sgr;
    return NULL;
}

/* "12.3", "4:05" or "1:02:03". */
static void put_time(struct canvas *c, double seconds)
{
    char text[32] = "";
    long s = isnan(seconds) ? 0 : (long)fmin(seconds, 1e9);
    if (seconds < 60)
        snprintf(text, sizeof text, "%.1f s", seconds);
    else if (seconds < 3600)
        snprintf(text, sizeof text, "%ld:%02ld", s / 60, s % 60);
    else if (!isnan(seconds))
        snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    putf(c, NULL, "  %9s", text);
}

/* A number in `cells` cells; NAN: spaces. */
static void put_number(struct canvas *c, const char *sgr, int cells, int digits, double v)
{
    char text[32] = "";
    if (!isnan(v))
        snprintf(text, sizeof text, "%.*g", digits, v);
    putf(c, sgr, "  %*s", cells, text);
}

static void add_heading(struct canvas *c)
{
    if (c->columns < NARROW)
        putf(c, dim, "%5s  %-9s  %9s  %9s", "trial", "state", "value", "time");
    else
        putf(c, dim, "%6s  %-9s  %7s  %5s  %11s  %9s", "trial", "state", "step", "share", "value",
             "time");
    end_line(c);
}

static void add_trial(struct canvas *c, const struct progress_frame_trial *t)
{
    bool narrow = c->columns < NARROW, best = t->id == c->f->best;
    putf(c, NULL, "%*d  ", narrow ? 5 : 6, t->id);
    putf(c, colour_of(t->state), "%-9s", t->state);
    if (!narrow) {
        put_number(c, NULL, 7, 6, t->step);
        if (isnan(t->share))
            put(c, NULL, "       ");
        else
            putf(c, NULL, "  %3d %%", (int)(fmin(t->share, 1) * 100));
    }
    put_number(c, best ? bold : NULL, narrow ? 9 : 11, narrow ? 4 : 6, t->value);
    put_time(c, t->seconds);
    put(c, NULL, "  ");
    if (t->reason) {
        put(c, colour_of(t->state), t->reason);
        put(c, NULL, "  ");
    }
    put_params(c, t->params);
    end_line(c);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Adds the running trials, then the ended ones, in `room` rows. If not all fit, the running trials
 * get two thirds. */
static void add_trials(struct canvas *c, size_t room)
{
    const struct progress_frame *f = c->f;
    size_t free_rows = room - least(room, f->running_total), third = room / ENDED_SHARE;
    size_t ended = least(f->ended_count, third > free_rows ? third : free_rows);
    size_t running = least(f->running_total, room - ended), shown = running;
    if (running < f->running_total || f->running_count < running)
        shown = least(f->running_count, running > 0 ? running - 1 : 0);
    for (size_t i = 0; i < shown; i++)
        add_trial(c, &f->running[i]);
    if (shown < running) {
        size_t more = f->running_total - shown;
        putf(c, dim, "%6s  %zu more trial%s", "", more,
             more == 1 ? " is running" : "s are running");
        end_line(c);
    }
    for (size_t i = 0; i < ended; i++)
        add_trial(c, &f->ended[i]);
}

/* ---- the keys ------------------------------------------------------------------------------- */

static void add_help(struct canvas *c)
{
    static const char *const texts[] = {
        "q  start no new trials, and end when the running ones have ended",
        "Q  like Ctrl-C: running trials return to the queue; again: kill them",
        "p  start no new trials until p is pressed again; running trials continue",
        "?  show or hide this help",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        put(c, NULL, texts[i]);
        end_line(c);
    }
}

static void add_keys(struct canvas *c)
{
    bool paused = strcmp(c->f->mode, "paused") == 0;
    putf(c, dim, "q stop   Q stop now   p %s   ? help", paused ? "resume" : "pause");
    end_line(c);
}

/* What never varies says nothing about a trial: it is last, where the columns may end. */
static json_t *find_constants(const struct progress_frame *f)
{
    json_t *constants = NULL;
    for (size_t i = 0; i < f->running_count; i++)
        progress_text_constants(&constants, f->running[i].params);
    for (size_t i = 0; i < f->ended_count; i++)
        progress_text_constants(&constants, f->ended[i].params);
    return constants;
}

char **progress_frame_lines(const struct progress_frame *f, int columns, int rows)
{
    AUTO(json) json_t *constants = find_constants(f);
    struct canvas c = {.f = f, .columns = columns, .left = rows, .constants = constants};
    bool legends = rows >= ROWS_LEGENDS;
    bool keys = legends && f->keys;
    c.left -= keys;
    add_title(&c);
    add_bar(&c);
    add_counts(&c);
    add_best(&c);
    if (rows >= ROWS_CURVE)
        add_curve(&c);
    if (f->help) {
        add_help(&c);
    } else {
        if (legends && f->running_total + f->ended_count > 0)
            add_heading(&c);
        add_trials(&c, (size_t)c.left);
    }
    c.left += keys;
    if (keys)
        add_keys(&c);
    strbuf_free(&c.line);
    return c.lines;
}
