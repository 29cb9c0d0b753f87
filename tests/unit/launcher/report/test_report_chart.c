/* test_report_chart - pictures: where marks are, what is left out, and how large they become. */
#include "launcher/report/report_chart.h"

#include <math.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static const struct report_axis unit = {.name = "x", .lo = 0, .hi = 1};

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

TEST(points_lie_between_the_axes_and_missing_ones_are_left_out)
{
    const double x[] = {0, 1, NAN, 0.5, 2}, y[] = {0, 1, 0.5, INFINITY, -1};
    struct report_chart *c = report_chart_new("l", unit, unit);
    report_chart_points(c, x, y, COUNT_OF(x));
    AUTO(free) char *svg = report_chart_finish(c);
    CHECK(strstr(svg, "class=\"dots\" d=\"M64.0 218.0h0M706.0 20.0h0M706.0 218.0h0\""));
}

TEST(a_line_is_interrupted_by_a_missing_value)
{
    const double x[] = {0, 0.5, 0.6, 1}, y[] = {0, NAN, 1, 1};
    struct report_chart *c = report_chart_new("l", unit, unit);
    report_chart_line(c, "best", x, y, COUNT_OF(x));
    AUTO(free) char *svg = report_chart_finish(c);
    CHECK(strstr(svg, "class=\"best\" d=\"M64.0 218.0M449.2 20.0L706.0 20.0\""));
}

TEST(many_points_become_counts_per_cell)
{
    enum { N = 100000 };
    AUTO(free) double *x = xcalloc(N, sizeof *x);
    AUTO(free) double *y = xcalloc(N, sizeof *y);
    for (size_t i = 0; i < N; i++) {
        x[i] = (double)(i * 7919 % 10007) / 10006;
        y[i] = (double)(i * 104729 % 9973) / 9972;
    }
    struct report_chart *c = report_chart_new("l", unit, unit);
    report_chart_points(c, x, y, N);
    AUTO(free) char *svg = report_chart_finish(c);
    CHECK(strlen(svg) < 130000);
    CHECK_INT(count(svg, "class=\"density\""), 5);
}

TEST(names_are_escaped)
{
    static const char *const names[] = {"</svg><script>", "b", NULL};
    struct report_axis a = {.name = "<x>", .lo = -0.5, .hi = 1.5, .categories = names};
    AUTO(free) char *svg = report_chart_finish(report_chart_new("\"l\"", a, unit));
    const struct report_bar bars[] = {{"<b>", 0.5, 0.2, 0.7}, {"c", 0.1, NAN, NAN}};
    AUTO(free) char *drawn = report_chart_bars("l", bars, COUNT_OF(bars));
    CHECK(strstr(svg, "&lt;/svg&gt;&lt;script&gt;"));
    CHECK(strstr(svg, "aria-label=\"&quot;l&quot;\""));
    CHECK(!strstr(svg, "<script>"));
    CHECK(strstr(drawn, "&lt;b&gt;"));
    CHECK_INT(count(drawn, "class=\"range\""), 1);
}

TEST(logarithmic_axes_have_powers_and_sizes_have_units)
{
    struct report_axis log10_axis = {.name = "lr", .lo = 1e-4, .hi = 1, .log = true};
    struct report_axis bytes = {
        .name = "size", .lo = 1024, .hi = 1 << 20, .log = true, .bytes = true};
    AUTO(free) char *svg = report_chart_finish(report_chart_new("l", bytes, log10_axis));
    CHECK(strstr(svg, ">0.0001<") && strstr(svg, ">0.01<") && strstr(svg, ">1<"));
    CHECK(strstr(svg, ">1 KiB<") && strstr(svg, ">1 MiB<") && !strstr(svg, ">1024<"));
}
