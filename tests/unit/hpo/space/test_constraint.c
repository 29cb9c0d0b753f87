#include "hpo/space/constraint.h"

#include <errno.h>
#include <math.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

static const struct constraint_name names[] = {
    {"a", CONSTRAINT_NUMBER},
    {"b", CONSTRAINT_NUMBER},
    {"opt", CONSTRAINT_STRING},
    {"amp", CONSTRAINT_BOOL},
    {"mixed", CONSTRAINT_NONE},
    {"net.width", CONSTRAINT_NUMBER},
    {"weight-decay", CONSTRAINT_NUMBER},
    {"min", CONSTRAINT_NUMBER},
    {"shape", CONSTRAINT_OTHER},
};

#define NUM(x)                     \
    {                              \
        CONSTRAINT_NUMBER, x, NULL \
    }
static const struct constraint_value values[] = {
    NUM(7),
    NUM(-3),
    {CONSTRAINT_STRING, 0, "adam"},
    {CONSTRAINT_BOOL, 1, NULL},
    {CONSTRAINT_STRING, 0, "auto"},
    NUM(128),
    NUM(0.25),
    NUM(2),
    {CONSTRAINT_OTHER, 0, NULL},
};

static bool holds(const char *text)
{
    struct err e = {0};
    AUTO(constraint) struct constraint *c = NULL;
    if (constraint_read(&c, text, names, COUNT_OF(names), &e) < 0)
        FAIL("%s: %s", text, e.text);
    CHECK_STR(constraint_text(c), text);
    size_t count = 0;
    const size_t *which = constraint_names(c, &count);
    struct constraint_value in[CONSTRAINT_NAMES_MAX];
    for (size_t i = 0; i < count; i++)
        in[i] = values[which[i]];
    return constraint_holds(c, in);
}

/* For a = 7, b = -3: the results of Python. */
TEST(operators_bind_and_round_as_in_python)
{
    static const char *const yes[] = {
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "-2 ** 2 == -4",
        "2 ** -1 == 0.5",
        "2 ** 3 ** 2 == 512",
        "10 - 4 - 3 == 3",
        "64 / 4 / 2 == 8",
        "a // 2 == 3",
        "b // 2 == -2",
        "a % 3 == 1",
        "b % 2 == 1",
        "a % b == -2",
        "-a % 3 == 2",
        "a // -2 == -4",
        "1 // 0.1 == 9 and 6 // 0.1 == 59 and 0.3 // 0.1 == 2",
        "-1 // 0.1 == -10 and 1 // -0.1 == -10 and -6 // -0.1 == 59",
        "-1 // 1e300 == -1 and 1 // 1e300 == 0",
        "1 <= a < 8 > b",
        "not 1 <= a < 7",
        "not a == 6 and not b > 0",
        "a > 0 or 0 / 0 > 1",
        "false or true and true",
        "not false or false",
        "not not true",
        "- - a == 7",
        "+a == 7",
        "1e-4 == 0.0001 and .5 == 5e-1 and 1.e2 == 100",
        "round(2.5) == 2 and round(3.5) == 4 and round(-0.5) == 0",
        "floor(-2.5) == -3 and ceil(-2.5) == -2",
        "abs(b) == 3 and sqrt(a + 2) == 3",
        "log2(8) == 3 and log10(1000) == 3 and log(exp(2)) == 2",
        "max(a, b, 9) == 9 and min(a) == 7 and min(a, b) == b",
        "opt == 'adam' and opt != \"sgd\"",
        "amp and amp == true and amp != False",
        "(a == 7) == amp",
        "mixed == 'auto' and mixed != 3",
        "mixed == 'auto' or mixed > 3",
        "net.width * 2 <= 256",
        "`weight-decay` < 1 and min == 2 and min(min, 3) == 2 and `min` == 2",
        "a\n  > 3",
        "a==7 and(b<0)",
        "shape != mixed",
        "1 / 3 * 3 == 1 and 2 ** 0.5 > 1.41",
    };
    static const char *const no[] = {
        "a > 7",         "1 <= a < 7",     "not a == 7",
        "opt == 'sgd'",  "not amp",        "true and false or false",
        "a < b < 0 / 0", "shape == mixed",
    };
    for (size_t i = 0; i < COUNT_OF(yes); i++)
        if (!holds(yes[i]))
            FAIL("does not hold: %s", yes[i]);
    for (size_t i = 0; i < COUNT_OF(no); i++)
        if (holds(no[i]))
            FAIL("holds: %s", no[i]);
}

TEST(what_has_no_value_does_not_hold_in_either_sense)
{
    static const char *const rows[] = {
        "0 / 0 > 1",
        "a / 0 > 1",
        "a // 0 > 1",
        "a % 0 >= 0",
        "log(b) < 1",
        "log10(0) < 1",
        "sqrt(b) < 1",
        "b ** 0.5 < 1",
        "0 ** -1 > 1",
        "mixed > 3",
        "mixed * 2 == 4",
        "min(mixed) == 1",
        "-mixed == 1",
        "max(1, mixed) > 0",
        "mixed and true",
        "mixed",
        "exp(a * 999) - exp(a * 999) == 0",
        "mixed < 1 or true",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(free) char *other = xasprintf("not (%s)", rows[i]);
        if (holds(rows[i]) || holds(other))
            FAIL("holds in one sense: %s", rows[i]);
    }
}

TEST(errors_say_line_and_column_and_the_nearest_word)
{
    static const char *const rows[][3] = {
        {"", "1:1: unexpected end", ""},
        {"a >", "1:4: unexpected end", ""},
        {"a < 3 b", "1:7: unexpected 'b'", ""},
        {"a = 3", "1:3: unexpected '='", "=="},
        {"a > 1 && b > 1", "1:7: unexpected '&&'", "and"},
        {"a > 1 || b > 1", "1:7: unexpected '||'", "or"},
        {"!amp", "1:1: unexpected '!amp'", "not"},
        {"a ^ 2 > 1", "1:3: unexpected '^'", "**"},
        {"(a > 1", "1:7: ')' is missing", ""},
        {"min(a, b", "1:9: ')' is missing", ""},
        {"a > 1)", "1:6: unexpected ')'", ""},
        {"net.widht > 1", "1:1: unknown parameter 'net.widht'", "net.width"},
        {"a > 1 and\n  weight-decay > 0", "2:3: unknown parameter 'weight'",
         "`weight-decay`, in backquotes"},
        {"'\u00e4\u00f6' == opt and x > 1", "1:17: unknown parameter 'x'", ""},
        {"sqr(a) > 1", "1:1: unknown function 'sqr'", "sqrt"},
        {"log(a, 2) > 1", "1:8: log takes one argument", ""},
        {"min() > 1", "1:5: unexpected ')'", ""},
        {"opt * 2 > 1", "1:1: * needs numbers, not a string", ""},
        {"2 + amp > 1", "1:5: + needs numbers, not a condition", ""},
        {"opt > 1", "1:1: a comparison needs numbers", ""},
        {"shape > 1", "1:1: a comparison needs numbers, not a list", ""},
        {"opt == 1", "1:8: a string is never equal to a number", ""},
        {"a == 'x'", "1:6: a number is never equal to a string", ""},
        {"amp == 1", "a condition is never equal to a number", ""},
        {"a and amp", "1:1: and needs conditions, not a number", ""},
        {"not a", "1:5: not needs conditions", ""},
        {"-opt == 1", "1:2: a sign needs numbers", ""},
        {"abs('x') == 1", "1:5: abs needs numbers", ""},
        {"a + 1", "1:1: this is a number, not a condition", ""},
        {"'adam'", "1:1: this is a string", ""},
        {"opt == 'adam", "1:8: the closing quote is missing", ""},
        {"`a > 1", "1:1: the closing backquote is missing", ""},
        {"`` > 1", "1:1: unknown parameter ''", ""},
        {"a > 0x10", "1:5: '0x10' is not a number", ""},
        {"a > 1.5.2", "1:5: '1.5.2' is not a number", ""},
        {"a > 3kg", "1:5: '3kg' is not a number", ""},
        {"a.b > 1", "1:1: unknown parameter 'a.b'", ""},
        {"a. > 1", "1:2: unexpected '.'", ""},
        {"a > 1; b", "1:6: unexpected ';'", ""},
        {"__import__('os')", "unknown function '__import__'", ""},
        {"a[0] > 1", "1:2: unexpected '[0]'", ""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        struct constraint *c = NULL;
        CHECK_INT(constraint_read(&c, rows[i][0], names, COUNT_OF(names), &e), -EINVAL);
        CHECK(!c);
        CHECK_HAS(e.text, rows[i][1]);
        CHECK_HAS(e.hint, rows[i][2]);
    }
}

static void refused(const char *before, const char *again, int times, const char *last,
                    const char *why)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_puts(&b, before);
    for (int i = 0; i < times; i++)
        strbuf_puts(&b, again);
    strbuf_puts(&b, last);
    struct err e = {0};
    struct constraint *c = NULL;
    CHECK_INT(constraint_read(&c, strbuf_str(&b), names, COUNT_OF(names), &e), -EINVAL);
    CHECK(!c);
    CHECK_HAS(e.text, why);
}

TEST(depth_and_length_are_limited)
{
    refused("a > ", "(", 200, "1", "nested deeper than");
    refused("a > ", "-", 200, "1", "nested deeper than");
    refused("", "not ", 200, "amp", "nested deeper than");
    refused("a > 1", "**1", 200, "", "nested deeper than");
    refused("a > ", "abs(", 200, "1", "nested deeper than");
    refused("a > 1", " + 1", 2000, "", "longer than");
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_puts(&b, "a == 7");
    for (int i = 0; i < 1000; i++)
        strbuf_puts(&b, "+0");
    CHECK(holds(strbuf_str(&b)));
    strbuf_reset(&b); /* each nested chain is evaluated once, not twice */
    for (int i = 0; i < 50; i++)
        strbuf_puts(&b, "amp == (");
    strbuf_puts(&b, "amp");
    for (int i = 0; i < 50; i++)
        strbuf_puts(&b, ") == amp");
    CHECK(holds(strbuf_str(&b)));
}
