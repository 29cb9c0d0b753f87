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
    TICKS = 6,
    NAME_BYTES = 18
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
    if (a->log && a->hi / a->lo >= 8) {
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
    if (a->bytes)
        byte_size_format(text, sizeof text, (uint64_t)v);
    else
        snprintf(text, sizeof text, fabs(v) < 1e7 && v == floor(v) ? "%.0f" : "%.4g", v);
    add_text(b, x, y, anchor, text);
}

struct report_chart *report_chart_new(const char *label, struct report_axis x, struct report_axis y)
{
    struct report_chart *c = xzalloc(sizeof *c);
    double at[4 * TICKS];
    c->x = x;
    c->y = y;
    struct strbuf *b = &c->svg;
    strbuf_printf(b,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
                  "aria-label=\"",
                  WIDTH, HEIGHT);
    report_text_html(b, label);
    strbuf_puts(b, "\">");
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

/* ---- lines ---------------------------------------------------------------------------------- */

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
