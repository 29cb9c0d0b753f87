/* Expressions that are meant to break the reader of constraints: pieces in any order, and good ones
 * with pieces replaced. What is refused says where; what is accepted means the same in parentheses,
 * and never holds together with its opposite. FUZZ_SEED=N takes other ones than usual. */
#include <inttypes.h>

#include "common/rng.h"
#include "common/strbuf.h"
#include "hpo/space/constraint.h"
#include "tests/unit/test.h"

enum { TEXTS = 100000, PIECES_MAX = 40 };

static const struct constraint_name names[] = {
    {"a", CONSTRAINT_NUMBER},    {"b", CONSTRAINT_NUMBER},   {"opt", CONSTRAINT_STRING},
    {"amp", CONSTRAINT_BOOL},    {"mixed", CONSTRAINT_NONE}, {"net.width", CONSTRAINT_NUMBER},
    {"shape", CONSTRAINT_OTHER}, {"min", CONSTRAINT_NUMBER},
};

/* Apart by blanks, as pieces are. */
static const char *const corpus[] = {
    "a * b <= 4096",
    "opt == 'adam' or b < 0.1",
    "0.5 <= a < b < 2",
    "not ( amp and a // b % 2 == 0 )",
    "min ( a , b , 3 ) + max ( a , -b ) >= abs ( `min` ) ** 2",
    "log10 ( net.width ) < 3 and sqrt ( a - b ) > 1e-3",
    "( mixed == 'auto' ) != ( opt != 'sgd' )",
    "round ( a / 3 ) == ceil ( a / 3 ) or floor ( a ) == a",
};
static const char *const pieces[] = {
    "a",    "b",    "opt",  "amp",   "mixed", "(",     ")",     "+",    "-",    "*",
    "/",    "//",   "%",    "**",    "<",     "<=",    "==",    "!=",   "and",  "or",
    "not",  "1",    "0",    "1e308", "'x'",   "true",  "min(",  ",",    "log(", "sqrt(",
    "\"\"", "`b`",  "\n",   "\xff",  "'",     "exp(",  ">=",    "- -",  "min",  "abs (",
    "1e",   "0.5.", "net.", "=",     "shape", "`min`", "(a<b)", "False"};

/* Numbers that are awkward to compute with, and all kinds of others. */
static void draw(struct constraint_value *values, const size_t *which, size_t count, struct rng *r)
{
    static const double numbers[] = {0, 1, -1, 0.5, 7, -3, 1e308, -1e-320, 4096};
    static const char *const texts[] = {"adam", "sgd", "", "x"};
    for (size_t i = 0; i < count; i++) {
        enum constraint_type type = names[which[i]].type;
        if (type == CONSTRAINT_NONE)
            type = rng_below(r, 2) ? CONSTRAINT_STRING : CONSTRAINT_NUMBER;
        double x = numbers[rng_below(r, COUNT_OF(numbers))];
        values[i] = (struct constraint_value){.type = type};
        if (type == CONSTRAINT_NUMBER)
            values[i].number = x;
        if (type == CONSTRAINT_BOOL)
            values[i].number = x > 0;
        if (type == CONSTRAINT_STRING)
            values[i].text = texts[rng_below(r, COUNT_OF(texts))];
    }
}

/* Between `before` and `after`. NULL: refused, with its place. */
static struct constraint *read_text(const char *before, const char *text, const char *after)
{
    AUTO(free) char *whole = xasprintf("%s%s%s", before, text, after);
    struct constraint *c = NULL;
    struct err e = {0};
    int line = 0, column = 0;
    if (constraint_read(&c, whole, names, COUNT_OF(names), &e) == 0) {
        CHECK_STR(constraint_text(c), whole);
        return c;
    }
    if (c || e.code != -EINVAL || sscanf(e.text, "%d:%d: ", &line, &column) != 2 || line < 1 ||
        column < 1 || (size_t)column > strlen(whole) + 1)
        FAIL("%d '%s' for: %s", e.code, e.text, whole);
    return NULL;
}

/* Whether `text` was accepted. */
static bool try(const char *text, struct rng *r)
{
    AUTO(constraint) struct constraint *c = read_text("", text, "");
    if (!c)
        return false;
    AUTO(constraint) struct constraint *within = read_text("((", text, "\n) )");
    AUTO(constraint) struct constraint *opposite = read_text("not (", text, ")");
    AUTO(constraint) struct constraint *more = read_text("1 < 2 and (", text, ")");
    if (!within || !opposite || !more)
        FAIL("not in parentheses: %s", text);
    for (int k = 0; k < 4; k++) {
        struct constraint_value values[CONSTRAINT_NAMES_MAX];
        size_t count = 0;
        const size_t *which = constraint_names(c, &count);
        draw(values, which, count, r);
        bool holds = constraint_holds(c, values);
        if (constraint_holds(within, values) != holds || constraint_holds(more, values) != holds)
            FAIL("means something else in parentheses: %s", text);
        if (holds && constraint_holds(opposite, values))
            FAIL("holds, and does not: %s", text);
    }
    return true;
}

/* A good one with up to three pieces replaced, left out or put in; every fourth is pieces alone. */
static void make(struct strbuf *b, struct rng *r)
{
    const char *from = rng_below(r, 4) ? corpus[rng_below(r, COUNT_OF(corpus))] : "";
    uint64_t odds = *from ? 2 + rng_below(r, 8) : 0;
    for (int n = 0; *from && n < PIECES_MAX; n++) {
        size_t len = strcspn(from, " ");
        uint64_t how = rng_below(r, odds) ? 3 : rng_below(r, 3);
        if (how != 0 && how != 1)
            strbuf_add(b, from, len);
        if (how == 1 || how == 2)
            strbuf_puts(b, pieces[rng_below(r, COUNT_OF(pieces))]);
        strbuf_putc(b, ' ');
        from += len + (from[len] == ' ');
    }
    for (uint64_t n = odds ? 0 : 1 + rng_below(r, 9); n > 0; n--) {
        strbuf_puts(b, pieces[rng_below(r, COUNT_OF(pieces))]);
        strbuf_puts(b, rng_below(r, 2) ? " " : "");
    }
}

TEST(no_text_crashes_the_reader_or_what_it_accepts)
{
    const char *wanted = getenv("FUZZ_SEED");
    uint64_t seed = wanted ? strtoull(wanted, NULL, 0) : 1;
    int accepted = 0;
    printf("# FUZZ_SEED=%" PRIu64 "\n", seed);
    for (int i = 0; i < TEXTS; i++) {
        struct rng r;
        AUTO(strbuf) struct strbuf b = {0};
        rng_seed(&r, seed, (uint64_t)i);
        make(&b, &r);
        accepted += try(strbuf_str(&b), &r);
    }
    printf("# %d of %d accepted\n", accepted, TEXTS);
    CHECK(accepted > TEXTS / 50 && accepted < TEXTS / 2);
}

TEST(the_expressions_that_are_changed_are_good)
{
    struct rng r;
    rng_seed(&r, 1, 0);
    for (size_t i = 0; i < COUNT_OF(corpus); i++)
        if (!try(corpus[i], &r))
            FAIL("refused: %s", corpus[i]);
}
