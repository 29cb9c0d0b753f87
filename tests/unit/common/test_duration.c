#include "common/duration.h"

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(durations_have_units)
{
    static const struct {
        const char *text;
        double seconds; /* < 0: not a duration */
    } cases[] = {
        {"90", 90},    {"0", 0},       {"0.5", 0.5},    {"500ms", 0.5},      {"90s", 90},
        {"10m", 600},  {"1.5h", 5400}, {"1h30m", 5400}, {"2d", 172800},      {"1m500ms", 60.5},
        {".5h", 1800}, {"", -1},       {" 1", -1},      {"1d2h3m4s", 93784}, {"1 h", -1},
        {"-1", -1},    {"+1", -1},     {"1h30", -1},    {"30m1h", -1},       {"1h1h", -1},
        {"1x", -1},    {"ms", -1},     {"1.2.3", -1},   {"0x10", -1},        {"inf", -1},
        {"nan", -1},   {"1e3", -1},    {".", -1},       {"1:30", -1},        {"90 ", -1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        double seconds = -1;
        struct err e = {0};
        int rc = duration_parse(&seconds, cases[i].text, &e);
        CHECK_INT(rc, cases[i].seconds < 0 ? -EINVAL : 0);
        CHECK_NEAR(seconds, cases[i].seconds, 1e-9);
        CHECK_INT(rc == 0, e.text[0] == '\0');
    }
    char huge[400];
    memset(huge, '9', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    double seconds = 7;
    CHECK_INT(duration_parse(&seconds, huge, NULL), -EINVAL);
    CHECK_NEAR(seconds, 7, 0);
}

TEST(a_duration_is_shown_with_its_two_largest_units)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } rows[] = {{-5, "0s"},        {0, "0s"},
                {59, "59s"},       {60, "1m00s"},
                {3599, "59m59s"},  {3600, "1h00m"},
                {86399, "23h59m"}, {86400, "1d00h"},
                {442800, "5d03h"}, {INT64_MAX, "106751991167300d15h"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[24];
        CHECK_STR(duration_format(text, sizeof text, rows[i].seconds), rows[i].text);
    }
}
