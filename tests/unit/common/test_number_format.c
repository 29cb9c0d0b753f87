#include "common/number_format.h"

#include <math.h>
#include <string.h>

#include "common/mem.h"
#include "common/rng.h"
#include "tests/unit/test.h"

/* The reference: the first of the texts with 1, 2, … 17 digits that reads back, as "d.dde-05". */
static void shortest_by_trial(char *out, size_t size, double x)
{
    int decimals = 0;
    do
        snprintf(out, size, "%.*e", decimals, x);
    while (strtod(out, NULL) != x && ++decimals <= 16);
}

static void check(double x)
{
    AUTO(strbuf) struct strbuf b = {0};
    number_format(&b, x);
    const char *text = strbuf_str(&b);
    double back = strtod(text, NULL);
    CHECK(memcmp(&back, &x, sizeof x) == 0);
    CHECK(b.len <= 24);
    CHECK(strpbrk(text, ".e") != NULL);
    char reference[40], again[40];
    shortest_by_trial(reference, sizeof reference, x);
    int digits =
        (int)strcspn(reference, "e") - (signbit(x) != 0) - (strchr(reference, '.') != NULL);
    snprintf(again, sizeof again, "%.*e", digits - 1, back);
    CHECK_STR(again, reference);
    int written = 0, zeros = 0, started = 0;
    for (const char *c = text; *c && *c != 'e'; c++) {
        if (*c < '0' || *c > '9' || (*c == '0' && !started))
            continue;
        started = 1;
        zeros = *c == '0' ? zeros + 1 : 0;
        written++;
    }
    CHECK(written - zeros <= digits);
}

TEST(numbers_have_the_form_of_pythons_repr)
{
    static const struct {
        double x;
        const char *text;
    } cases[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {3, "3.0"},
        {0.1, "0.1"},
        {1e-4, "0.0001"},
        {1e-5, "1e-05"},
        {2.5e-7, "2.5e-07"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1e22, "1e+22"},
        {1e100, "1e+100"},
        {123456.789, "123456.789"},
        {-2.5, "-2.5"},
        {5e-324, "5e-324"},
        {100, "100.0"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {-2.2250738585072014e-308, "-2.2250738585072014e-308"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        number_format(&b, cases[i].x);
        CHECK_STR(strbuf_str(&b), cases[i].text);
        check(cases[i].x);
    }
}

TEST(every_number_reads_back_and_none_is_longer_than_needed)
{
    struct rng r;
    rng_seed(&r, 7, 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = rng_u64(&r);
        double x;
        memcpy(&x, &bits, sizeof x);
        if (isfinite(x))
            check(x);
        check((double)(bits >> 40) / 1000);         /* few digits */
        check((double)(int64_t)(bits >> 11));       /* whole numbers up to 2^53 */
        check(ldexp(1, (int)(bits % 2098) - 1074)); /* powers of two, subnormal ones too */
    }
}

TEST(numbers_that_are_not_finite_have_their_names)
{
    AUTO(strbuf) struct strbuf b = {0};
    number_format(&b, NAN);
    number_format(&b, INFINITY);
    number_format(&b, -INFINITY);
    CHECK_STR(strbuf_str(&b), "naninf-inf");
}
