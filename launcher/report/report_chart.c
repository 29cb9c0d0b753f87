#include "launcher/report/report_chart.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/byte_size.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/report/report_text.h"

enum {
    WIDTH = 720,
    HEIGHT = 260,
    LEFT = 64,
    RIGHT = 14,
    TOP = 20,
    BOTTOM = 42,
    CELL = 4, /* pixels of a cell of the density */
    LEVELS = 5,
    TICKS = 6,
    NAME_BYTES = 18,
    BAR_HEIGHT = 20,
    BAR_LEFT = 170,
    CATEGORIES_SHOWN = 12
};

struct report_chart {
    struct strbuf svg;
    struct report_axis x, y;
};

/* ---- scales --------------------------------------------------------------------------------- */

static double share(const struct report_axis *a, double v)
{
    double s = a->log ? log(v / a->lo) / log(a->hi / a->lo) : (v - a->lo) / (a->hi - a->lo);
    return s < 0 ? 0 : s > 1 ? 1 : s; /* NAN stays */
}

static double px(const struct report_chart *c, double v)
{
    return LEFT + share(&c->x, v) * (WIDTH - LEFT - RIGHT);
}

static double py(const struct report_chart *c, double v)
{
    return HEIGHT - BOTTOM - share(&c->y, v) * (HEIGHT - TOP - BOTTOM);
}

/* The step of about TICKS round numbers: 1, 2 or 5 times a power of ten. */
static double round_step(double span)
{
    double raw = span / TICKS, power = pow(10, floor(log10(raw))), m = raw / power;
    return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

/* Sets the positions of the ticks and returns their number. */
static size_t ticks_of(double out[4 * TICKS], const struct report_axis *a)
{
    size_t n = 0, most = (size_t)4 * TICKS;
    if (a->categories) {
        size_t every = (size_t)(a->hi - a->lo) / CATEGORIES_SHOWN + 1;
        for (size_t i = 0; a->categories[i] && n < most; i += every)
            out[n++] = (double)i;
    } else if (a->log && a->hi / a->lo >= 8) {
        double base = a->bytes ? 2 : 10, from = ceil(log(a->lo) / log(base) - 1e-9);
        double to = floor(log(a->hi) / log(base) + 1e-9), every = ceil((to - from + 1) / TICKS);
        for (double p = from; p <= to && n < most; p += every)
            out[n++] = pow(base, p);
    } else {
        double step = round_step(a->hi - a->lo);
        for (double v = ceil(a->lo / step - 1e-9) * step; v <= a->hi + step * 1e-9 && n < most;
             v += step)
            out[n++] = fabs(v) < step * 1e-9 ? 0 : v;
    }
    return n;
}

static void add_text(struct strbuf *b, double x, double y, const char *anchor, const char *text)
{
    AUTO(strbuf) struct strbuf cut = {0};
    size_t len = strlen(text), end = len > NAME_BYTES ? NAME_BYTES - 2 : len;
    while (end < len && ((unsigned char)text[end] & 0xc0) == 0x80)
        end++; /* not within a character */
    strbuf_add(&cut, text, end);
    strbuf_puts(&cut, end < len ? "…" : "");
    strbuf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    report_text_html(b, strbuf_str(&cut));
    strbuf_puts(b, "</text>");
}

static void add_tick(struct strbuf *b, const struct report_axis *a, double v, double x, double y,
                     const char *anchor)
{
    char text[32];
    if (a->categories) {
        add_text(b, x, y, anchor, a->categories[(size_t)v]);
        return;
    }
    if (a->bytes)
        byte_size_format(text, sizeof text, (uint64_t)v);
    else
        snprintf(text, sizeof text, fabs(v) < 1e7 && v == floor(v) ? "%.0f" : "%.4g", v);
    add_text(b, x, y, anchor, text);
}

static void begin_svg(struct strbuf *b, const char *label, int height)
{
    strbuf_printf(b,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
                  "aria-label=\"",
                  WIDTH, height);
    report_text_html(b, label);
    strbuf_puts(b, "\">");
}

struct report_chart *report_chart_new(const char *label, struct report_axis x, struct report_axis y)
{
    struct report_chart *c = xzalloc(sizeof *c);
    double at[4 * TICKS];
    c->x = x;
    c->y = y;
    struct strbuf *b = &c->svg;
    begin_svg(b, label, HEIGHT);
    for (size_t i = 0, n = ticks_of(at, &c->y); i < n; i++) {
        double p = py(c, at[i]);
        strbuf_printf(b, "<path class=\"rule\" d=\"M%d %.1fH%d\"/>", LEFT, p, WIDTH - RIGHT);
        add_tick(b, &c->y, at[i], LEFT - 6, p + 4, "end");
    }
    for (size_t i = 0, n = ticks_of(at, &c->x); i < n; i++) {
        double p = px(c, at[i]);
        strbuf_printf(b, "<path class=\"tick\" d=\"M%.1f %dv5\"/>", p, HEIGHT - BOTTOM);
        add_tick(b, &c->x, at[i], p, HEIGHT - BOTTOM + 18, "middle");
    }
    strbuf_printf(b, "<path class=\"tick\" d=\"M%d %dH%d\"/>", LEFT, HEIGHT - BOTTOM,
                  WIDTH - RIGHT);
    add_text(b, WIDTH - RIGHT, HEIGHT - 8, "end", x.name);
    add_text(b, 4, 12, "start", y.name);
    return c;
}

/* ---- marks ---------------------------------------------------------------------------------- */

/* One path of dots: a line of length 0 with round ends is a dot. */
static void add_dots(struct report_chart *c, const double *x, const double *y, size_t n)
{
    strbuf_puts(&c->svg, "<path class=\"dots\" d=\"");
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]) && isfinite(y[i]))
            strbuf_printf(&c->svg, "M%.1f %.1fh0", px(c, x[i]), py(c, y[i]));
    strbuf_puts(&c->svg, "\"/>");
}

/* The level of a cell by the logarithm of its count; -1: it is empty. */
static int level_of(uint32_t count, uint32_t most)
{
    double of = most > 1 ? log(count) / log(most) : 1;
    return count ? (int)fmin(LEVELS - 1, of * LEVELS) : -1;
}

/* The cells of a row with the level: a line per run of neighbours. */
static void add_runs(struct strbuf *b, const uint32_t *count, int n, int row, int level,
                     uint32_t most)
{
    for (int k = 0, end; k < n; k = end + 1) {
        for (end = k; end < n && level_of(count[end], most) == level;)
            end++;
        if (end > k)
            strbuf_printf(b, "M%d %dh%d", LEFT + k * CELL, TOP + row * CELL + CELL / 2,
                          (end - k) * CELL);
    }
}

static void add_density(struct report_chart *c, const double *x, const double *y, size_t n)
{
    enum { COLUMNS = (WIDTH - LEFT - RIGHT) / CELL + 1, ROWS = (HEIGHT - TOP - BOTTOM) / CELL + 1 };
    AUTO(free) uint32_t *count = xcalloc((size_t)COLUMNS * ROWS, sizeof *count);
    uint32_t most = 1;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]))
            continue;
        int column = (int)(px(c, x[i]) - LEFT) / CELL, row = (int)(py(c, y[i]) - TOP) / CELL;
        uint32_t now = ++count[(size_t)row * COLUMNS + (size_t)column];
        most = now > most ? now : most;
    }
    for (int level = 0; level < LEVELS; level++) { /* by the logarithm of the count */
        strbuf_printf(&c->svg, "<path class=\"density\" opacity=\"%.2f\" d=\"",
                      0.2 + 0.8 * (level + 1) / LEVELS);
        for (int row = 0; row < ROWS; row++)
            add_runs(&c->svg, count + (size_t)row * COLUMNS, COLUMNS, row, level, most);
        strbuf_puts(&c->svg, "\"/>");
    }
}

void report_chart_points(struct report_chart *c, const double *x, const double *y, size_t n)
{
    if (n > REPORT_CHART_POINTS_MAX)
        add_density(c, x, y, n);
    else
        add_dots(c, x, y, n);
}

void report_chart_line(struct report_chart *c, const char *style, const double *x, const double *y,
                       size_t n)
{
    bool down = false;
    strbuf_printf(&c->svg, "<path class=\"%s\" d=\"", style);
    for (size_t i = 0; i < n; i++) {
        bool known = isfinite(x[i]) && isfinite(y[i]);
        if (known)
            strbuf_printf(&c->svg, "%c%.1f %.1f", down ? 'L' : 'M', px(c, x[i]), py(c, y[i]));
        down = known;
    }
    strbuf_puts(&c->svg, "\"/>");
}

char *report_chart_finish(struct report_chart *c)
{
    strbuf_puts(&c->svg, "</svg>");
    char *svg = strbuf_take(&c->svg);
    free(c);
    return svg;
}

char *report_chart_bars(const char *label, const struct report_bar *bars, size_t n)
{
    AUTO(strbuf) struct strbuf b = {0};
    double most = 1e-9, scale;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fmax(bars[i].value, bars[i].high)); /* fmax() ignores a NAN */
    scale = (WIDTH - BAR_LEFT - 60) / most;
    begin_svg(&b, label, (int)n * BAR_HEIGHT + 8);
    for (size_t i = 0; i < n; i++) {
        double y = (double)i * BAR_HEIGHT + 4, middle = y + BAR_HEIGHT / 2.0 - 2;
        char text[32];
        snprintf(text, sizeof text, "%.3g", bars[i].value);
        add_text(&b, BAR_LEFT - 8, middle + 4, "end", bars[i].name);
        strbuf_printf(&b, "<rect class=\"bar\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>",
                      BAR_LEFT, y, fmax(0, bars[i].value) * scale, BAR_HEIGHT - 5);
        if (isfinite(bars[i].low) && isfinite(bars[i].high))
            strbuf_printf(&b, "<path class=\"range\" d=\"M%.1f %.1fH%.1f\"/>",
                          BAR_LEFT + bars[i].low * scale, middle, BAR_LEFT + bars[i].high * scale);
        add_text(&b, WIDTH - 4, middle + 4, "end", text);
    }
    strbuf_puts(&b, "</svg>");
    return strbuf_take(&b);
}
