/* test_deadline - points in time as users write them. */
#include "launcher/limits/job_clock.h"

#include <time.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static const double NOW = 1795608000.5; /* 2026-11-25 12:00:00.5 UTC, a Wednesday */

enum { DAY = 86400, HOUR = 3600 };

static void check(const char *zone, const char *text, double after_noon_s)
{
    double s = 0;
    struct err e = {0};
    setenv("TZ", zone, 1);
    tzset();
    if (job_clock_parse_deadline(&s, text, NOW, &e) < 0)
        FAIL("%s: %s", text, e.text);
    CHECK_NEAR(s, 1795608000 + after_noon_s, 1e-6);
}

TEST(a_duration_counts_from_now)
{
    check("UTC", "90", 90.5);
    check("UTC", "1h30m", 5400.5);
    check("UTC", "2d", 2 * DAY + 0.5);
}

TEST(a_time_of_day_is_the_next_one)
{
    check("UTC", "18:00", 6 * HOUR);
    check("UTC", "12:00", DAY);
    check("UTC", "12:00:01", 1);
    check("UTC", "07:30", 19.5 * HOUR);
    check("UTC0", "23:59:59", 12 * HOUR - 1);
}

TEST(a_date_is_that_day_in_the_local_time_zone)
{
    check("UTC", "2026-11-26", 12 * HOUR);
    check("UTC", "2026-11-25T12:30", 1800);
    check("UTC", "2026-11-25 12:30:15", 1815);
    check("EST5", "2026-11-25T12:30", 1800 + 5 * HOUR);
    check("EST5", "2026-11-25T12:30Z", 1800);
    check("EST5", "18:00Z", 6 * HOUR);
    check("EST5", "18:00", 11 * HOUR);
}

TEST(what_is_no_time_or_has_passed_is_an_error)
{
    static const char *const malformed[] = {"",           "x",
                                            "25:00",      "18:60",
                                            "2026-13-01", "2026-11-26T",
                                            "18:00 ",     "2026-11-26T08:00+01:00",
                                            "-5",         "Z"};
    static const char *const passed[] = {"2026-11-25", "2020-01-01T00:00", "2026-11-25T12:00:00Z"};
    setenv("TZ", "UTC", 1);
    for (size_t i = 0; i < COUNT_OF(malformed); i++) {
        struct err e = {0};
        double s = 7;
        CHECK_INT(job_clock_parse_deadline(&s, malformed[i], NOW, &e), -EINVAL);
        CHECK_HAS(e.text, "is not a time");
        CHECK(s == 7);
    }
    for (size_t i = 0; i < COUNT_OF(passed); i++) {
        struct err e = {0};
        double s = 7;
        CHECK_INT(job_clock_parse_deadline(&s, passed[i], NOW, &e), -ERANGE);
        CHECK_HAS(e.text, "has passed");
    }
}
