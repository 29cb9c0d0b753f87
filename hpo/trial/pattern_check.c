#include "hpo/trial/pattern_check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    BYTES_MAX = 1024,
    GROUPS_MAX = 16,  /* nested: regcomp() recurses */
    PLACES_MAX = 100, /* with all copies that {…} and + make: x+ becomes xx* */
    CLASS_PLACES = 3  /* of [a-z] or a dot: more of them can match at once */
};

/* An open group, or the whole pattern. */
struct group {
    size_t places;    /* of its parts so far */
    bool empty;       /* the parts of this alternative so far can match the empty text */
    bool other_empty; /* an earlier alternative can */
};

/* A character, a class, an anchor or a group, with the operators after it. */
struct part {
    size_t places;
    bool empty;  /* it can match the empty text */
    bool before; /* the parts before it, in its alternative, can */
    bool repeated;
};

/* What * + ? and {m,n} do. */
struct repetition {
    size_t copies;  /* the largest number that regcomp() makes */
    bool optional;  /* the part may be missing */
    bool unbounded; /* the part may be repeated without a limit */
};

static const char too_long[] =
    "more than 100 characters; {…} counts as its copies, + as two, and a class like [a-z] as 3";

static struct repetition one_character(char c)
{
    return (struct repetition){
        .copies = c == '+' ? 2 : 1, .optional = c != '+', .unbounded = c != '?'};
}

/* Reads the bounds {m,n} at `*at`, and moves `*at` behind them. Bounds that are not valid count as
 * one copy: regcomp() refuses them. */
static struct repetition read_bounds(const char **at)
{
    char *end = NULL;
    size_t copies = strtoul(*at + 1, &end, 10);
    struct repetition r = {.copies = copies, .optional = copies == 0};
    if (*end == ',' && end[1] != '}') {
        size_t most = strtoul(end + 1, &end, 10);
        r.copies = most > copies ? most : copies;
    } else if (*end == ',') {
        end++;
        r.copies++;
        r.unbounded = true;
    }
    *at = *end == '}' ? end + 1 : *at + 1;
    r.copies = r.copies > 1 ? r.copies : 1;
    return r;
}

static const char *repeat(struct group *g, struct part *last, struct repetition r)
{
    if (r.unbounded && last->empty)
        return "* or + repeats a part that can be empty, as in (a*)+";
    if (r.copies > PLACES_MAX)
        return too_long;
    last->places += last->repeated; /* a???… costs, too */
    g->places += last->repeated;
    last->repeated = true;
    size_t more = last->places * (r.copies - 1);
    last->places += more;
    g->places += more;
    if (r.optional) {
        last->empty = true;
        g->empty = last->before;
    }
    return NULL;
}

static void add_part(struct group *g, struct part *last, size_t places, bool empty)
{
    *last = (struct part){.places = places, .empty = empty, .before = g->empty};
    g->places += places;
    g->empty = g->empty && empty;
}

static void begin_alternative(struct group *g, struct part *last)
{
    g->other_empty = g->other_empty || g->empty;
    g->empty = true;
    *last = (struct part){.empty = true, .before = true};
}

/* Returns the end of the bracket expression at `at`, as [^]a[:alpha:]-]. */
static const char *skip_bracket(const char *at)
{
    at += at[1] == '^' ? 2 : 1;
    at += *at == ']';
    while (*at && *at != ']') {
        const char *end = NULL;
        if (*at == '[' && at[1] && strchr(":.=", at[1])) {
            const char close[] = {at[1], ']', 0};
            end = strstr(at + 2, close);
        }
        at = end ? end + 2 : at + 1;
    }
    return *at ? at + 1 : at;
}

/* Adds the character, class or anchor at `at`, and returns its end. */
static const char *add_character(struct group *g, struct part *last, const char *at)
{
    bool escaped = *at == '\\' && at[1];
    bool anchor = escaped ? strchr("bB<>`'", at[1]) != NULL : *at == '^' || *at == '$';
    bool class = *at == '.' || *at == '[' || (escaped && strchr("wWsS", at[1]));
    add_part(g, last, class ? CLASS_PLACES : 1, anchor);
    return *at == '[' ? skip_bracket(at) : at + 1 + escaped;
}

const char *pattern_check(const char *at)
{
    struct group groups[GROUPS_MAX + 1] = {{.empty = true}}, *g = groups;
    struct part last = {.empty = true, .before = true};
    const char *reason = NULL;
    if (strlen(at) > BYTES_MAX)
        return "longer than 1024 bytes";
    while (*at && !reason) {
        if (*at == '{') {
            reason = repeat(g, &last, read_bounds(&at));
        } else if (strchr("*+?", *at)) {
            reason = repeat(g, &last, one_character(*at++));
        } else if (*at == '\\' && at[1] >= '1' && at[1] <= '9') {
            reason = "back-references are not supported";
        } else if (*at == '|') {
            begin_alternative(g, &last);
            at++;
        } else if (*at == '(') {
            if (++g > groups + GROUPS_MAX)
                return "more than 16 nested groups";
            *g = (struct group){0};
            begin_alternative(g, &last);
            at++;
        } else if (*at == ')' && g > groups) {
            const struct group closed = *g--;
            add_part(g, &last, closed.places > 0 ? closed.places : 1,
                     closed.empty || closed.other_empty);
            at++;
        } else {
            at = add_character(g, &last, at);
        }
        if (g->places > PLACES_MAX)
            return too_long;
    }
    return reason;
}
