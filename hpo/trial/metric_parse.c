#include "hpo/trial/metric_parse.h"

#include <errno.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/json.h"
#include "common/plural.h"

enum {
    PATTERN_BYTES_MAX = 1024,
    LINE_BYTES_MAX = 1024,
    /* What a search may cost from each start in the line. Usual patterns take 2 to 2,000 steps. */
    STEPS_MAX = 100000,
    CHOICES_MAX = 20000, /* open at the same time */
    MEMORY_KIB_MAX = 16 << 10
};

struct metric_parse {
    struct metric_pattern {
        char *name, *text;
        pcre2_code *code;
        bool costly;     /* a search has reached a limit */
        int vain, found; /* lines that matched without a number, and with one */
    } * patterns;
    size_t count;
    pcre2_match_context *limits;
    pcre2_match_data *hits; /* the whole match, and the first group */
};

/* ---- patterns ------------------------------------------------------------------------------- */

/* Adds "pattern 'loss=(' of 'loss'" in front of PCRE2's message. A long pattern is cut. */
static int refused(const struct metric_pattern *p, int code, struct err *e)
{
    char reason[128];
    pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
    return err_set(e, -EINVAL, "pattern '%.40s%s' of '%s': %s", p->text,
                   strlen(p->text) > 40 ? "…" : "", p->name, reason);
}

/* Returns true if what is searched for a number, the first group or the whole match, can have no
 * digit, nor "inf" or "nan", as in `loss`, `(loss) ` and ``. Patterns that are not plain are not
 * looked into. */
static bool has_no_number(const char *text)
{
    size_t open = strcspn(text, "\\[(");
    bool group = text[open] == '(';
    const char *start = group ? text + open + 1 : text;
    AUTO(free) char *part = xstrndup(start, group ? strcspn(start, ")") : strlen(start));
    return (group ? !strchr("?*", *start) : !text[open]) && !strpbrk(part, ".\\[(0123456789") &&
           !strcasestr(part, "inf") && !strcasestr(part, "nan");
}

/* The line may contain any bytes: those that are not UTF-8 match nothing. Without PCRE2's compiler
 * to machine code, which ignores two of the limits: usual patterns take 0.1 to 0.7 µs per line. */
static int compile(struct metric_pattern *p, struct err *e)
{
    const uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;
    pcre2_compile_context *c = xchecked(pcre2_compile_context_create(NULL));
    pcre2_set_max_pattern_length(c, PATTERN_BYTES_MAX);
    int code = 0;
    PCRE2_SIZE at = 0;
    p->code = pcre2_compile((PCRE2_SPTR)p->text, strlen(p->text), options, &code, &at, c);
    pcre2_compile_context_free(c);
    return p->code ? 0 : refused(p, code, e);
}

int metric_parse_new(struct metric_parse **out, const json_t *patterns, struct err *e)
{
    AUTO(metric_parse) struct metric_parse *m = xzalloc(sizeof *m);
    m->patterns = xcalloc(json_object_size(patterns), sizeof *m->patterns);
    m->hits = xchecked(pcre2_match_data_create(2, NULL));
    m->limits = xchecked(pcre2_match_context_create(NULL));
    pcre2_set_match_limit(m->limits, STEPS_MAX);
    pcre2_set_depth_limit(m->limits, CHOICES_MAX);
    pcre2_set_heap_limit(m->limits, MEMORY_KIB_MAX);
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)patterns, name, value) { /* the macro rejects const pointers */
        if (!json_is_string(value))
            return err_set(e, -EINVAL, "pattern of '%s': not a text", name);
        struct metric_pattern *p = &m->patterns[m->count++];
        p->name = xstrdup(name);
        p->text = xstrdup(json_string_value(value));
        int rc = compile(p, e);
        if (rc < 0)
            return rc;
    }
    *out = TAKE(m);
    return 0;
}

void metric_parse_free(struct metric_parse *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        pcre2_code_free(m->patterns[i].code);
        free(m->patterns[i].name);
        free(m->patterns[i].text);
    }
    pcre2_match_data_free(m->hits);
    pcre2_match_context_free(m->limits);
    free(m->patterns);
    free(m);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Returns the number in the line's bytes from `at[0]` to `at[1]` (new reference), or NULL if they
 * are something else. `last_word`: only their last word counts, as in "loss: 0.25". */
static json_t *number_at(const char *line, const PCRE2_SIZE at[2], bool last_word)
{
    if (at[0] == PCRE2_UNSET || at[0] > at[1])
        return NULL;
    AUTO(free) char *text = xstrndup(line + at[0], at[1] - at[0]);
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]))
        text[--len] = 0;
    while (last_word && len > 0 && !strchr(" \t:=", text[len - 1]))
        len--;
    const char *digits = last_word ? text + len : text;
    char *end;
    double value = strtod(digits, &end);
    return end == digits || *end ? NULL : json_number(value);
}

/* Returns the number that the pattern finds in the line (new reference), or NULL if it finds
 * none. */
static json_t *find(struct metric_parse *m, struct metric_pattern *p, const char *line, size_t len,
                    struct err *e)
{
    uint32_t groups = 0;
    int rc = pcre2_match(p->code, (PCRE2_SPTR)line, len, 0, 0, m->hits, m->limits);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH && !p->costly) {
        p->costly = true;
        refused(p, rc, e);
        err_hint(e, "a pattern with fewer * and + in one another");
    }
    if (rc < 0)
        return NULL;
    pcre2_pattern_info(p->code, PCRE2_INFO_CAPTURECOUNT, &groups);
    json_t *number =
        number_at(line, pcre2_get_ovector_pointer(m->hits) + (groups > 0 ? 2 : 0), groups == 0);
    (*(number ? &p->found : &p->vain))++;
    return number;
}

json_t *metric_parse_from_pattern(struct metric_parse *m, const char *line, size_t len,
                                  struct err *e)
{
    json_t *report = NULL;
    for (size_t i = 0; len <= LINE_BYTES_MAX && i < m->count; i++) {
        json_t *value = find(m, &m->patterns[i], line, len, e);
        if (value && !report)
            report = json_object();
        if (value)
            json_object_set_new(report, m->patterns[i].name, value);
    }
    return report;
}

int metric_parse_check(const struct metric_parse *m, struct err *e)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct metric_pattern *p = &m->patterns[i];
        if (has_no_number(p->text))
            return err_set(e, -EINVAL,
                           "pattern '%s' of '%s' can give no number; a group finds one: "
                           "%s: *([-+.0-9eE]+)",
                           p->text, p->name, p->name);
    }
    return 0;
}

char *metric_parse_vain(const struct metric_parse *m)
{
    for (size_t i = 0; m && i < m->count; i++) {
        const struct metric_pattern *p = &m->patterns[i];
        if (p->vain > 0 && p->found == 0)
            return xasprintf("the pattern of '%s' matched %d line%s and gave no number", p->name,
                             p->vain, plural_s(p->vain));
    }
    return NULL;
}
