#include "common/opt_internal.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/duration.h"
#include "common/mem.h"
#include "common/strbuf.h"

enum {
    VALUES_MAX = 4,
    WORD_MAX = 64 /* longer words get no suggestion */
};

/* ---- look up -------------------------------------------------------------------------------- */

size_t opt_next_name(const char **names, const char **name)
{
    if (!*names)
        return 0;
    *names += strspn(*names, "|");
    if (!**names)
        return 0;
    *name = *names;
    size_t len = (size_t)(strchrnul(*names, '|') - *names);
    *names += len + ((*names)[len] == '|');
    return len;
}

/* Compares names; '_' counts as '-'. */
static bool same_name(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((a[i] == '_' ? '-' : a[i]) != (b[i] == '_' ? '-' : b[i]))
            return false;
    return true;
}

static const struct opt *by_name(const struct opt *rows, const char *word, size_t len)
{
    for (const struct opt *r = rows; r->kind != OPT_KIND_END; r++) {
        const char *names = r->name, *name = NULL;
        for (size_t n; (n = opt_next_name(&names, &name)) > 0;)
            if (n == len && same_name(name, word, len))
                return r;
    }
    return NULL;
}

static const struct opt *by_letter(const struct opt *rows, char letter)
{
    for (const struct opt *r = rows; r->kind != OPT_KIND_END; r++)
        if (r->letter && r->letter == letter)
            return r;
    return NULL;
}

/* Returns the number of values that an option takes: one per word of the row's `arg`. */
static int value_count(const struct opt *row)
{
    int n = 0;
    for (const char *s = row->arg; s && *s; n++) {
        s += strspn(s, " ");
        s += strcspn(s, " ");
    }
    return n;
}

static size_t count_rows(const struct opt *rows)
{
    size_t n = 0;
    while (rows[n].kind != OPT_KIND_END)
        n++;
    return n;
}

struct opt *opt_with_parts(const struct opt *table)
{
    struct opt *all = NULL;
    size_t n = 0;
    for (const struct opt *r = table;; r++) {
        bool is_part = r->kind == OPT_KIND_PART;
        size_t count = is_part ? count_rows(r->part) : 1;
        all = xrealloc(all, n + count + 1, sizeof *all);
        memcpy(&all[n], is_part ? r->part : r, count * sizeof *all);
        for (size_t i = 0; i < count && is_part; i++)
            all[n + i].offset += r->offset;
        n += count;
        if (r->kind == OPT_KIND_END)
            return all;
    }
}

/* Checks the table. An invalid table is a bug, not an error of the user. If two rows had the same
 * name, by_name() would find the first one only. So each name must find its own row. Each name is
 * compared with all others, which would take a tenth of the start of a job. So a table is checked
 * only when its help is requested, which the build does for every command (scripts/manual). */
static void check_rows(const struct opt *rows)
{
    assert(!by_name(rows, "help", 4) && !by_letter(rows, 'h'));
    for (const struct opt *r = rows; r->kind != OPT_KIND_END; r++) {
        const char *names = r->name, *name = NULL;
        for (size_t n; (n = opt_next_name(&names, &name)) > 0;)
            assert(by_name(rows, name, n) == r);
        const struct opt *named = by_name(rows, &r->letter, 1);
        assert(!r->letter || (by_letter(rows, r->letter) == r && (!named || named == r)));
        int wanted = value_count(r);
        bool any =
            r->kind == OPT_KIND_CALL || r->kind == OPT_KIND_CALL_SOME || r->kind == OPT_KIND_WORDS;
        bool none = r->kind == OPT_KIND_FLAG || r->kind == OPT_KIND_GROUP ||
                    r->kind == OPT_KIND_ABBREVIATIONS || r->kind == OPT_KIND_LAST_COUNTS;
        assert(any ? wanted <= VALUES_MAX : wanted == !none);
        (void)named, (void)wanted, (void)any, (void)none;
    }
}

/* ---- one word of the command line ----------------------------------------------------------- */

struct found {
    const struct opt *row; /* NULL: -h or --help */
    const char *word;      /* the word as the user typed it */
    size_t len;            /* length of the option in `word`, without the value */
    char label[96];        /* "option '-np'" */
    const char *attached;  /* the value in "--np=4" and "-n4"; NULL: none */
    const char *name;      /* the full name of an abbreviated option; else NULL */
    size_t name_len;
};

static int found_as(struct found *f, const struct opt *row, const char *word, size_t len,
                    const char *attached)
{
    *f = (struct found){.row = row, .word = word, .len = len, .attached = attached};
    snprintf(f->label, sizeof f->label, "option '%.*s'", (int)len, word);
    return 0;
}

/* Returns true if "-nTEXT" can be letter n with the value TEXT. "-npp" is a mistyped name, not a
 * number. */
static bool letter_takes(const struct opt *row, const char *text)
{
    if (!*text)
        return true;
    if (row->kind == OPT_KIND_CALL_SOME)
        return *text == '=';
    if (row->kind == OPT_KIND_INT || row->kind == OPT_KIND_DOUBLE || row->kind == OPT_KIND_DURATION)
        return strchr("0123456789+-.=", *text) != NULL;
    return row->arg != NULL;
}

static int unknown(const struct opt *rows, const char *word, const char *name, size_t len,
                   struct err *e)
{
    AUTO(strv) char **all = NULL;
    strv_push(&all, xstrdup("help"));
    for (const struct opt *r = rows; r->kind != OPT_KIND_END; r++) {
        const char *names = r->name, *one = NULL;
        for (size_t n; r->help && (n = opt_next_name(&names, &one)) > 0;)
            strv_push(&all, xstrndup(one, n));
    }
    AUTO(free) char *typed = xstrndup(name, len);
    const char *nearest = opt_suggest(typed, (const char *const *)all, strv_len(all));
    err_set(e, -EINVAL, "unknown option '%.*s'", (int)(name - word + (ptrdiff_t)len), word);
    if (nearest)
        err_hint(e, "--%s", nearest);
    return -EINVAL;
}

/* ---- abbreviations -------------------------------------------------------------------------- */

static bool has_row(const struct opt *rows, enum opt_kind kind)
{
    while (rows->kind != OPT_KIND_END && rows->kind != kind)
        rows++;
    return rows->kind == kind;
}

/* Sets `f` to the option whose name begins with the `len` bytes of `typed`. Names of one row are
 * the same option, unless it keeps the words. Returns the number of such options. */
static int find_beginning(struct found *f, const struct opt *rows, const char *typed, size_t len,
                          struct strbuf *options)
{
    int count = 0;
    for (const struct opt *r = rows; r->kind != OPT_KIND_END; r++) {
        const char *names = r->name, *name = NULL;
        for (size_t n; (n = opt_next_name(&names, &name)) > 0;) {
            if (n <= len || !same_name(name, typed, len) ||
                (f->row == r && r->kind != OPT_KIND_WORDS))
                continue;
            strbuf_printf(options, "%s--%.*s", count++ ? ", " : "", (int)n, name);
            f->row = r;
            f->name = name;
            f->name_len = n;
        }
    }
    if (len < 4 && strncmp("help", typed, len) == 0 && ++count > 1)
        strbuf_puts(options, ", --help");
    return count;
}

/* Finds the option that "--nnode=4" abbreviates. Returns false if there is none: `*rc` is then
 * unchanged; else `*rc` is 0, or -EINVAL if several options begin in this way. */
static bool find_abbreviated(struct found *f, int *rc, const struct opt *rows, const char *word,
                             struct err *e)
{
    AUTO(strbuf) struct strbuf options = {0};
    struct found of = {0};
    size_t len = strcspn(word + 2, "=");
    int count = len > 0 && has_row(rows, OPT_KIND_ABBREVIATIONS)
                    ? find_beginning(&of, rows, word + 2, len, &options)
                    : 0;
    if (count == 0)
        return false;
    if (count > 1) {
        err_set(e, -EINVAL, "option '%.*s' is ambiguous", (int)len + 2, word);
        *rc = err_hint(e, "%s", strbuf_str(&options));
        return true;
    }
    const char *end = word + 2 + len;
    *rc = found_as(f, of.row, word, len + 2, *end ? end + 1 : NULL);
    f->name = of.name;
    f->name_len = of.name_len;
    return true;
}

static int find(struct found *f, const struct opt *rows, const char *word, struct err *e)
{
    bool one_dash = word[1] != '-';
    const char *name = word + (one_dash ? 1 : 2);
    if (strcmp(name, "help") == 0 || (one_dash && strcmp(name, "h") == 0))
        return found_as(f, NULL, word, strlen(word), NULL);
    size_t len = strcspn(name, "=");
    const struct opt *row = by_name(rows, name, len);
    if (row)
        return found_as(f, row, word, (size_t)(name - word) + len,
                        name[len] ? name + len + 1 : NULL);
    row = one_dash ? by_letter(rows, *name) : NULL;
    if (row && letter_takes(row, name + 1))
        return found_as(f, row, word, 2, name[1] ? name + 1 + (name[1] == '=') : NULL);
    int rc = 0;
    if (!one_dash && find_abbreviated(f, &rc, rows, word, e))
        return rc;
    return unknown(rows, word, name, len, e);
}

/* ---- values --------------------------------------------------------------------------------- */

static int check_range(const char *what, const char *text, double value, double min, double max,
                       struct err *e)
{
    if (value >= min && value <= max)
        return 0;
    if (value < min && max >= INT_MAX)
        return err_set(e, -ERANGE, "%s: %s is out of range (at least %.10g)", what, text, min);
    return err_set(e, -ERANGE, "%s: %s is out of range (%.10g to %.10g)", what, text, min, max);
}

static int read_double(double *out, const char *what, const char *text, struct err *e)
{
    char *end = NULL;
    double value = strtod(text, &end);
    /* strtod() also accepts leading space, hexadecimals, "inf" and "nan" */
    if (!*text || *end || strspn(text, "0123456789+-.eE") != strlen(text))
        return err_set(e, -EINVAL, "%s: '%s' is not a number", what, text);
    if (!isfinite(value))
        return err_set(e, -ERANGE, "%s: '%s' is too large", what, text);
    *out = value;
    return 0;
}

static int apply_number(const struct found *f, void *field, const char *text, struct err *e)
{
    const struct opt *row = f->row;
    double value = 0;
    if (row->kind == OPT_KIND_INT)
        return opt_int(field, f->label, text, (int)row->min, (int)row->max, e);
    int rc = row->kind == OPT_KIND_DOUBLE ? read_double(&value, f->label, text, e)
                                          : duration_parse(&value, text, e);
    if (rc < 0)
        return row->kind == OPT_KIND_DOUBLE ? rc : err_wrap(e, "%s", f->label);
    rc = check_range(f->label, text, value, row->min, row->max, e);
    if (rc == 0)
        *(double *)field = value;
    return rc;
}

static int apply(const struct found *f, char *const *values, void *into, struct err *e)
{
    void *field = (char *)into + f->row->offset;
    switch (f->row->kind) {
    case OPT_KIND_FLAG:
        *(bool *)field = true;
        return 0;
    case OPT_KIND_INT:
    case OPT_KIND_DOUBLE:
    case OPT_KIND_DURATION:
        return apply_number(f, field, values[0], e);
    case OPT_KIND_STR:
        *(const char **)field = values[0];
        return 0;
    case OPT_KIND_STRV:
        strv_push(field, xstrdup(values[0]));
        return 0;
    case OPT_KIND_WORDS:
        strv_push(field, f->name ? xasprintf("--%.*s", (int)f->name_len, f->name)
                                 : xstrndup(f->word, f->len));
        strv_add(field, values);
        return 0;
    case OPT_KIND_CALL:
    case OPT_KIND_CALL_SOME: {
        int rc = f->row->call(field, values, e);
        if (rc < 0)
            err_wrap(e, "%s", f->label);
        return rc < 0 || f->row->kind == OPT_KIND_CALL_SOME ? rc : 0;
    }
    case OPT_KIND_GROUP:
    case OPT_KIND_ABBREVIATIONS:
    case OPT_KIND_LAST_COUNTS:
    case OPT_KIND_PART:
    case OPT_KIND_END:
        break;
    }
    assert(!"unknown kind of row");
    return -EINVAL;
}

/* Collects the values of an option and applies them. The values are the attached one, if any, and
 * then the first of the `left` words that follow. Returns the number of `words` used. */
static int read_values(const struct found *f, void *into, char *const *words, int left,
                       struct err *e)
{
    char *values[VALUES_MAX + 1] = {NULL};
    int wanted = value_count(f->row), have = 0, used = 0;
    if (f->attached && wanted == 0)
        return err_set(e, -EINVAL, "%s takes no value", f->label);
    if (f->attached)
        values[have++] = (char *)f->attached;
    while (have < wanted && used < left)
        values[have++] = words[used++];
    if (f->row->kind == OPT_KIND_CALL_SOME) {
        int rc = apply(f, values, into, e), attached = f->attached != NULL;
        if (rc == 0 && attached)
            return err_set(e, -EINVAL, "%s takes no value", f->label);
        return rc < 0 ? rc : rc - attached;
    }
    if (have < wanted && wanted == 1)
        return err_set(e, -EINVAL, "%s needs a value (%s)", f->label, f->row->arg);
    if (have < wanted)
        return err_set(e, -EINVAL, "%s needs %d values (%s)", f->label, wanted, f->row->arg);
    int rc = apply(f, values, into, e);
    return rc < 0 ? rc : used;
}

/* Remembers that an option with one value is given; a second time it is an error. */
static int add_given(char ***given, const struct found *f, struct err *e)
{
    if (f->row->kind < OPT_KIND_INT || f->row->kind > OPT_KIND_STR)
        return 0;
    if (strv_find(*given, f->row->name) >= 0)
        return err_set(e, -EINVAL, "%s is given twice", f->label);
    strv_push(given, xstrdup(f->row->name));
    return 0;
}

int opt_parse(const struct opt *table, void *into, int argc, char *const *argv, int *rest,
              struct err *e)
{
    return opt_parse_given(NULL, table, into, argc, argv, rest, e);
}

int opt_parse_given(char ***given, const struct opt *table, void *into, int argc, char *const *argv,
                    int *rest, struct err *e)
{
    AUTO(free) struct opt *rows = opt_with_parts(table);
    bool once = given && !has_row(rows, OPT_KIND_LAST_COUNTS);
    int i = 1;
    while (i < argc && argv[i][0] == '-' && argv[i][1]) { /* "-" alone is an argument: stdin */
        const char *word = argv[i++];
        if (strcmp(word, "--") == 0)
            break;
        struct found f = {0};
        int rc = find(&f, rows, word, e);
        if (rc < 0)
            return rc;
        if (!f.row) {
            check_rows(rows);
            return OPT_HELP;
        }
        rc = once ? add_given(given, &f, e) : 0;
        rc = rc == 0 ? read_values(&f, into, argv + i, argc - i, e) : rc;
        if (rc < 0)
            return rc;
        i += rc;
    }
    *rest = i < argc ? i : argc;
    return 0;
}

/* ---- helpers -------------------------------------------------------------------------------- */

int opt_int(int *out, const char *what, const char *text, int min, int max, struct err *e)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);
    bool number = *text && !isspace((unsigned char)*text) && end != text;
    if (!number || *end) {
        double real;
        bool fraction = number && read_double(&real, what, text, NULL) == 0;
        return err_set(e, -EINVAL, "%s: '%s' is not a %snumber", what, text,
                       fraction ? "whole " : "");
    }
    int rc = check_range(what, text, (double)value, min, max, e);
    if (rc == 0)
        *out = (int)value;
    return rc;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t min = a < b ? a : b;
    return min < c ? min : c;
}

/* Returns the number of edits that turn `a` into `b`: a letter is inserted, removed or replaced, or
 * two neighbours are swapped (Damerau 1964; optimal string alignment). Both words are shorter than
 * WORD_MAX. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX], len = strlen(b), i = 0; /* row i is rows[i % 3] */
    for (size_t j = 0; j <= len; j++)
        rows[0][j] = j;
    for (i = 1; a[i - 1]; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && rows[(i - 2) % 3][j - 2] + 1 < row[j])
                row[j] = rows[(i - 2) % 3][j - 2] + 1;
        }
    }
    return rows[(i - 1) % 3][len];
}

const char *opt_suggest(const char *word, const char *const *names, size_t n)
{
    size_t len = strlen(word), min = WORD_MAX;
    const char *nearest = NULL;
    if (len >= WORD_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) >= WORD_MAX)
            continue;
        const char *part = len > 3 ? strstr(names[i], word) : NULL;
        if (part && part > names[i] && strchr("_-", part[-1]) && !part[len]) /* gpus: num_gpus */
            return names[i];
        size_t d = distance(word, names[i]);
        if (d < min && (3 * d <= len || (d <= 2 && 2 * d <= len))) {
            min = d;
            nearest = names[i];
        }
    }
    return nearest;
}
