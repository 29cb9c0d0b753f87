#include "hpo/trial/metric_guess.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/opt.h"
#include "hpo/trial/metric_parse.h"

/* Characters that may be between a name and its number: `loss: 1`, `loss = 1`, `'loss': 1`, `loss
 * 1`. */
static const char between[] = "\"' \t:=";

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

#define NUMBER "-+.0-9eE" /* the characters of numbers in a proposed pattern */

/* Returns the length of the number at the start of `s`; 0: there is none, or the proposed pattern
 * would not find exactly it, as in "0.5." or 1.2.3. */
static size_t number_length(const char *s)
{
    char *end;
    size_t sign = *s == '-' || *s == '+';
    if (!isdigit((unsigned char)s[sign + (s[sign] == '.')]))
        return 0;
    double value = strtod(s, &end);
    size_t len = (size_t)(end - s);
    bool exact = len == strspn(s, "-+.0123456789eE") && !in_word(*end);
    return exact && isfinite(value) ? len : 0;
}

/* Returns true if `s` starts with the name. Case and separators make no difference: "Val Loss" is
 * val/loss. */
static bool begins_with(const char *s, const char *name)
{
    static const char separators[] = "./_- ";
    for (; *name; name++, s++) {
        bool both = *s && strchr(separators, *s) && strchr(separators, *name);
        if (!both && tolower((unsigned char)*s) != tolower((unsigned char)*name))
            return false;
    }
    return true;
}

/* Returns the position of `name` in the line if a number follows the name, otherwise NULL. */
static const char *find(const char *line, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = line; *at; at++) {
        if (!begins_with(at, name) || (at > line && in_word(at[-1])))
            continue;
        size_t gap = strspn(at + len, between);
        if (gap > 0 && number_length(at + len + gap) > 0)
            return at;
    }
    return NULL;
}

static void add_literal(struct strbuf *b, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (strchr("\\^$.|?*+()[]{}", text[i]))
            strbuf_putc(b, '\\');
        strbuf_putc(b, text[i]);
    }
}

/* Returns a pattern: the name as it is in the line, the characters after it with any number of
 * spaces, and the number. */
static char *pattern_of(const char *line, const char *at, size_t name_len)
{
    struct strbuf b = {0};
    strbuf_puts(&b, at == line ? "^" : "[^A-Za-z0-9_]");
    add_literal(&b, at, name_len);
    const char *gap = at + name_len;
    size_t n = strspn(gap, between);
    for (size_t i = 0; i < n; i++)
        if (gap[i] != ' ' && gap[i] != '\t')
            strbuf_putc(&b, gap[i]);
        else if (i == 0 || (gap[i - 1] != ' ' && gap[i - 1] != '\t'))
            strbuf_puts(&b, "[[:space:]]*");
    strbuf_puts(&b, "([" NUMBER "]+)");
    return strbuf_take(&b);
}

/* Returns true if the pattern is accepted and finds a number in the line. It is not if the name or
 * the characters after it are very long. */
static bool finds_number(const char *pattern, const char *line)
{
    AUTO(json) json_t *patterns = json_object(), *found = NULL;
    AUTO(metric_parse) struct metric_parse *m = NULL;
    json_object_set_new(patterns, "metric", json_text(pattern));
    if (metric_parse_new(&m, patterns, NULL) == 0)
        found = metric_parse_from_pattern(m, line, strlen(line), NULL);
    return found != NULL;
}

static const char *last_part(const char *name)
{
    const char *part = name;
    for (; *name; name++)
        if (strchr("/.:", *name) && name[1])
            part = name + 1;
    return part;
}

/* How a name that was reported is like that of the metric, the likest first. */
enum likeness { SAME, SAME_LAST_PART, CONTAINED, OTHER, COUNTER };

static enum likeness likeness(const char *name, const char *metric)
{
    static const char *const counters[] = {"epoch", "step", "_step", "global_step", "iteration"};
    const char *part = last_part(name), *wanted = last_part(metric);
    if (strlen(name) == strlen(metric) && begins_with(name, metric))
        return SAME;
    if (strcasecmp(part, wanted) == 0)
        return SAME_LAST_PART;
    if ((wanted[1] && strcasestr(name, wanted)) || (part[1] && strcasestr(metric, part)))
        return CONTAINED;
    for (size_t i = 0; i < COUNT_OF(counters); i++)
        if (strcasecmp(part, counters[i]) == 0)
            return COUNTER;
    return OTHER;
}

void metric_guess_nearest(const char **names, size_t n, size_t wanted, const char *metric)
{
    AUTO(free) const char **parts = xcalloc(n + 1, sizeof *parts);
    for (size_t first = 0; first < n && first < wanted; first++) {
        enum likeness best = COUNTER;
        size_t likest = 0, at = first;
        for (size_t i = first; i < n; i++) {
            enum likeness l = likeness(names[i], metric);
            likest = l < best ? 0 : likest;
            best = l < best ? l : best;
            if (l == best)
                parts[likest++] = last_part(names[i]);
        }
        const char *near = opt_suggest(last_part(metric), parts, likest);
        while (last_part(names[at]) != (near ? near : parts[0]))
            at++;
        const char *name = names[at];
        memmove(names + first + 1, names + first, (at - first) * sizeof *names);
        names[first] = name;
    }
}

bool metric_guess_is_quoted(const char *pattern)
{
    const char *group = strrchr(pattern, '(');
    return group && group > pattern && strchr("\"'", group[-1]);
}

bool metric_guess(char **line, char **pattern, const char *text, size_t len, const char *metric)
{
    const char *const names[] = {metric, last_part(metric)};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        for (size_t end = len; end > 0;) {
            size_t start = end - 1;
            while (start > 0 && !strchr("\r\n", text[start - 1]))
                start--;
            AUTO(free) char *candidate = xstrndup(text + start, end - start);
            candidate[strcspn(candidate, "\r\n")] = '\0';
            const char *at = find(candidate, names[i]);
            AUTO(free) char *proposed = at ? pattern_of(candidate, at, strlen(names[i])) : NULL;
            if (proposed && finds_number(proposed, candidate)) {
                *pattern = TAKE(proposed);
                *line = TAKE(candidate);
                return true;
            }
            end = start;
        }
    return false;
}

/* ---- names ---------------------------------------------------------------------------------- */

enum { NEAREST = 3, NAMES_MAX = 20 };

void metric_guess_unreported(struct strbuf *out, const char *metric, const json_t *reported)
{
    size_t n = json_object_size(reported), count = 0;
    AUTO(free) const char **names = xcalloc(n + 1, sizeof *names);
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)reported, name, value)
        names[count++] = name;
    metric_guess_nearest(names, n, NEAREST, metric);
    strbuf_printf(out, "the metric '%s' was never reported; %s", metric,
                  n ? "reported: " : "nothing was reported");
    for (size_t i = 0; i < n && i < NAMES_MAX; i++)
        strbuf_printf(out, "%s'%s'", i ? ", " : "", names[i]);
    if (n > NAMES_MAX)
        strbuf_printf(out, " and %zu more", n - NAMES_MAX);
}
