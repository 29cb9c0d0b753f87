/* test_report_chart - lines: where they are, what is left out, and how axes are labelled. */
#include "launcher/report/report_chart.h"

#include <math.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static const struct report_axis unit = {.name = "x", .lo = 0, .hi = 1};

TEST(lines_lie_between_the_axes_and_missing_values_interrupt_them)
{
    const double x[] = {0, 0.5, 0.6, 1, 0.5, 2}, y[] = {0, NAN, 1, 1, INFINITY, -1};
    struct report_chart *c = report_chart_new("l", unit, unit);
    report_chart_line(c, "series-0", x, y, COUNT_OF(x));
    AUTO(free) char *svg = report_chart_finish(c);
    CHECK(strstr(svg, "class=\"series-0\" d=\"M64.0 218.0M449.2 20.0L706.0 20.0M706.0 218.0\""));
}

TEST(names_are_escaped)
{
    struct report_axis a = {.name = "</svg><script>", .lo = -0.5, .hi = 1.5};
    AUTO(free) char *svg = report_chart_finish(report_chart_new("\"l\"", a, unit));
    CHECK(strstr(svg, "&lt;/svg&gt;&lt;script&gt;"));
    CHECK(strstr(svg, "aria-label=\"&quot;l&quot;\""));
    CHECK(!strstr(svg, "<script>"));
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
