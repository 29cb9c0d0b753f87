#include "hpo/trial/metric_parse.h"

#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"

enum { LINE_MAX_BYTES = 64 * 1024, PATTERN_LINE_MAX = 4096, VALUES_MAX = 1024, DEPTH_MAX = 16 };

struct metric_parse {
    struct metric_pattern {
        char *name;
        regex_t regex;
    } * patterns;
    size_t count;
};

int metric_parse_new(struct metric_parse **out, const json_t *patterns, struct err *e)
{
    AUTO(metric_parse) struct metric_parse *m = xzalloc(sizeof *m);
    m->patterns = xcalloc(json_object_size(patterns), sizeof *m->patterns);
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)patterns, name, value) { /* the macro rejects const pointers */
        struct metric_pattern *p = &m->patterns[m->count];
        const char *pattern = json_string_value(value);
        int rc = pattern ? regcomp(&p->regex, pattern, REG_EXTENDED) : REG_BADPAT;
        if (rc != 0) {
            char reason[128];
            regerror(rc, &p->regex, reason, sizeof reason);
            return err_set(e, -EINVAL, "pattern '%s' of '%s': %s", pattern ? pattern : "", name,
                           reason);
        }
        p->name = xstrdup(name);
        m->count++;
    }
    *out = TAKE(m);
    return 0;
}

void metric_parse_free(struct metric_parse *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        regfree(&m->patterns[i].regex);
        free(m->patterns[i].name);
    }
    free(m->patterns);
    free(m);
}

/* ---- lines with a mapping ---------------------------------------------------------------------
 */

/* Words that Python's json.dumps() and repr() write outside of strings and that JSON does not have,
 * and their replacements. numpy 2 writes np.float64(0.41) for a number, of which only the number is
 * kept. */
static const struct {
    const char *python, *json;
} words[] = {{"-Infinity", "\"-inf\""}, {"Infinity", "\"inf\""}, {"NaN", "\"nan\""},
             {"-inf", "\"-inf\""},      {"inf", "\"inf\""},      {"nan", "\"nan\""},
             {"True", "true"},          {"False", "false"},      {"None", "null"},
             {"np.float64(", ""},       {"np.float32(", ""},     {"np.float16(", ""},
             {"np.int64(", ""},         {"np.int32(", ""},       {")", ""}};

/* Appends the string literal at the start of `text` as JSON. Returns the literal's length, or `len`
 * if its closing quote is missing. */
static size_t copy_string(struct strbuf *out, const char *text, size_t len)
{
    char quote = text[0];
    size_t i = 1;
    strbuf_putc(out, '"');
    for (; i < len && text[i] != quote; i++) {
        bool escape = text[i] == '\\' && i + 1 < len;
        if (escape && text[i + 1] == '\'')
            i++; /* JSON has no \' */
        else if (escape)
            strbuf_putc(out, text[i++]);
        else if (text[i] == '"')
            strbuf_putc(out, '\\');
        strbuf_putc(out, text[i]);
    }
    strbuf_putc(out, '"');
    return i < len ? i + 1 : len;
}

/* Converts `text`, the repr() of a Python mapping, to JSON and appends it. */
static void from_python(struct strbuf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        if (text[i] == '"' || text[i] == '\'') {
            i += copy_string(out, text + i, len - i);
            continue;
        }
        size_t w = 0, n = 0;
        for (; w < COUNT_OF(words); w++) {
            n = strlen(words[w].python);
            if (n <= len - i && memcmp(text + i, words[w].python, n) == 0)
                break;
        }
        if (w < COUNT_OF(words))
            strbuf_puts(out, words[w].json);
        else
            strbuf_putc(out, text[i]);
        i += w < COUNT_OF(words) ? n : 1;
    }
}

static json_t *parse(const char *text, size_t len)
{
    json_t *j = json_loadb(text, len, 0, NULL);
    if (j)
        return j;
    AUTO(strbuf) struct strbuf json = {0};
    from_python(&json, text, len);
    return json_loadb(json.data, json.len, 0, NULL);
}

/* Adds the numbers of a mapping to `report`. Numbers of nested mappings get dotted names. */
static void add_numbers(json_t *report, const json_t *mapping, const char *prefix, int depth)
{
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)mapping, name, v) { /* the macro rejects const pointers */
        double number;
        AUTO(free) char *dotted = *prefix ? xasprintf("%s.%s", prefix, name) : NULL;
        if (json_is_object(v) && depth < DEPTH_MAX)
            add_numbers(report, v, dotted ? dotted : name, depth + 1);
        else if (json_as_number(&number, v) == 0 && json_object_size(report) < VALUES_MAX)
            json_object_set(report, dotted ? dotted : name, v);
    }
}

json_t *metric_parse_from_mapping(const char *text, size_t len)
{
    while (len > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        len--;
    }
    if (len < 2 || len > LINE_MAX_BYTES || *text != '{')
        return NULL;
    AUTO(json) json_t *mapping = parse(text, len);
    AUTO(json) json_t *report = json_object();
    add_numbers(report, mapping, "", 1);
    return json_object_size(report) > 0 ? TAKE(report) : NULL;
}

/* ---- lines that a pattern matches -------------------------------------------------------------
 */

/* Returns the number that the pattern finds in the line (new reference), or NULL if it finds none.
 */
static json_t *find(const struct metric_pattern *p, const char *line)
{
    regmatch_t at[2];
    if (regexec(&p->regex, line, 2, at, 0) != 0)
        return NULL;
    regmatch_t hit = p->regex.re_nsub > 0 ? at[1] : at[0];
    if (hit.rm_so < 0)
        return NULL;
    AUTO(free) char *digits = xstrndup(line + hit.rm_so, (size_t)(hit.rm_eo - hit.rm_so));
    char *end;
    double value = strtod(digits, &end);
    end += strspn(end, " \t\r");
    return end == digits || *end ? NULL : json_number(value);
}

json_t *metric_parse_from_pattern(const struct metric_parse *m, const char *text, size_t len)
{
    if (m->count == 0 || len > PATTERN_LINE_MAX)
        return NULL;
    AUTO(free) char *line = xstrndup(text, len);
    json_t *report = NULL;
    for (size_t i = 0; i < m->count; i++) {
        json_t *value = find(&m->patterns[i], line);
        if (value && !report)
            report = json_object();
        if (value)
            json_object_set_new(report, m->patterns[i].name, value);
    }
    return report;
}
