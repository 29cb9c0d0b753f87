#include "launcher/report/report_anonymous.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/redact.h"
#include "common/strbuf.h"

enum { LABELS_MIN = 2, QUOTED_MAX = 4096, FORMS = 7 };

enum kind { HOST, USER, PATH, ADDRESS };

struct name {
    char *text;
    const char *shown; /* of `shown` */
    enum kind kind;
};

struct report_anonymous {
    json_t *shown;      /* replacements by name: a sweep may have a path per failed trial */
    struct name *known; /* names that are searched for as words */
    size_t known_count;
    int counts[4];
};

static const char *const kinds[] = {"host", "user", "path", "address"};

struct report_anonymous *report_anonymous_new(void)
{
    struct report_anonymous *a = xzalloc(sizeof *a);
    a->shown = json_object();
    return a;
}

void report_anonymous_free(struct report_anonymous *a)
{
    for (size_t i = 0; a && i < a->known_count; i++)
        free(a->known[i].text);
    if (a) {
        json_decref(a->shown);
        free(a->known);
    }
    free(a);
}

/* Returns the replacement of a name, which may be new. */
static const char *shown_for(struct report_anonymous *a, enum kind k, const char *text, size_t len)
{
    AUTO(free) char *name = xstrndup(text, len);
    if (!json_object_get(a->shown, name)) {
        AUTO(free) char *shown = xasprintf("%s-%d", kinds[k], ++a->counts[k]);
        json_object_set_new_nocheck(a->shown, name, json_string(shown)); /* may not be UTF-8 */
    }
    return json_string_value(json_object_get(a->shown, name));
}

static void add_known(struct report_anonymous *a, enum kind k, const char *text, size_t len)
{
    if (!text || len < 2 || strcmp(text, "root") == 0 || strncmp(text, "localhost", len) == 0)
        return;
    for (size_t i = 0; i < a->known_count; i++)
        if (strlen(a->known[i].text) == len && strncmp(a->known[i].text, text, len) == 0)
            return;
    a->known = xrealloc(a->known, a->known_count + 1, sizeof *a->known);
    a->known[a->known_count++] = (struct name){xstrndup(text, len), shown_for(a, k, text, len), k};
}

void report_anonymous_host(struct report_anonymous *a, const char *name)
{
    size_t len = name ? strlen(name) : 0, first = name ? strcspn(name, ".") : 0;
    add_known(a, HOST, name, len);
    if (first < len && strspn(name, "0123456789.") < len)
        add_known(a, HOST, name, first);
}

void report_anonymous_user(struct report_anonymous *a, const char *name)
{
    add_known(a, USER, name, name ? strlen(name) : 0);
}

/* ---- forms ---------------------------------------------------------------------------------- */

/* Each returns the length of what begins at `s`, or 0. `before` is the character in front of it,
 * which is not a letter or a digit. *seen is set to the number of characters after which the form
 * may begin if it does not begin here, so that the time for a text is proportional to its length.
 */

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

static bool ends_path(char c)
{
    return !c || isspace((unsigned char)c) || strchr("\"'`<>()[]{}|,;:&*?$=", c);
}

static size_t url(const char *s, char before, size_t *seen)
{
    size_t n = 0;
    while (isalnum((unsigned char)s[n]) || (n > 0 && s[n] && strchr("+.-", s[n])))
        n++;
    *seen = n;
    if (n < 2 || strncmp(s + n, "://", 3) != 0)
        return 0;
    while (s[n] && !isspace((unsigned char)s[n]) && !strchr("\"'`<>()[]{}|", s[n]))
        n++;
    while (strchr(".,;:!?", s[n - 1])) /* of the sentence */
        n--;
    return n;
}

/* In quotes, a path ends at the closing quote: it may contain spaces. */
static size_t rooted_path(const char *s, char before, size_t *seen)
{
    bool dots = strncmp(s, "./", 2) == 0 || strncmp(s, "../", 3) == 0;
    bool home = *s == '~' && (s[1] == '/' || isalpha((unsigned char)s[1]));
    bool root = *s == '/' && (in_word(s[1]) || (s[1] && strchr("._-", s[1])));
    if ((before && strchr("._-)]", before)) || !(dots || home || root))
        return 0;
    if (before == '<' && s[strcspn(s + 1, "/> \n") + 1] == '>')
        return 0; /* </b> is a tag */
    const char *quote =
        before && strchr("\"'`", before) ? memchr(s, before, strnlen(s, QUOTED_MAX)) : NULL;
    if (quote && !memchr(s, '\n', (size_t)(quote - s)))
        return (size_t)(quote - s);
    size_t n = 1;
    while (!ends_path(s[n]) || (s[n] == ' ' && s[n - 1] == '\\'))
        n++;
    return n;
}

/* data/train.csv, and -I/usr/include. */
static size_t relative_path(const char *s, char before, size_t *seen)
{
    size_t n = 0, slashes = 0, last = 0;
    while (in_word(s[n]) || (s[n] && strchr("_./+%-", s[n]))) {
        if (s[n] == '/') {
            slashes++;
            last = n + 1;
        }
        n++;
    }
    *seen = n;
    const char *dot = slashes ? memchr(s + last, '.', n - last) : NULL;
    bool has_ending = dot && isalpha((unsigned char)dot[1]);
    bool of_option = *s == '-' && s[1] != '-' && s[2] == '/';
    return has_ending || (of_option && slashes > 1) ? n : 0;
}

static size_t mail(const char *s, char before, size_t *seen)
{
    size_t n = 0, m;
    while (in_word(s[n]) || (s[n] && strchr("._+-", s[n])))
        n++;
    *seen = n;
    if (n == 0 || s[n] != '@' || !in_word(s[n + 1]))
        return 0;
    for (m = n + 1; in_word(s[m]) || (s[m] && strchr("._-", s[m]));)
        m++;
    return m;
}

static size_t ip4(const char *s, char before, size_t *seen)
{
    size_t n = 0;
    for (int part = 0; part < 4; part++) {
        size_t digits = strspn(s + n, "0123456789");
        if (digits < 1 || digits > 3 || (part < 3 && s[n + digits] != '.'))
            return 0;
        n += digits + (part < 3);
    }
    return before == '.' || in_word(s[n]) ? 0 : n;
}

/* Also the addresses of network cards. 12:30:01 is a time. */
static size_t ip6(const char *s, char before, size_t *seen)
{
    enum { MOST = 64 };
    size_t n = 0, colons = 0;
    bool digit = false, pair = false;
    while (n < MOST && (isxdigit((unsigned char)s[n]) || s[n] == ':'))
        n++;
    for (size_t i = 0; i < n; i++) {
        colons += s[i] == ':';
        digit |= isdigit((unsigned char)s[i]) != 0;
        pair |= s[i] == ':' && s[i + 1] == ':';
    }
    bool form = digit && colons >= 2 && (pair || colons >= 5);
    return !form || before == ':' || in_word(s[n]) ? 0 : n;
}

static bool is_domain(const char *label, size_t len, int labels)
{
    static const char *const domains[] = {
        "com",   "org",   "net",         "edu",      "gov", "mil", "int",  "io",     "ai",
        "cloud", "local", "localdomain", "internal", "lan", "hpc", "home", "intra",  "corp",
        "arpa",  "info",  "test",        "invalid",  "dev", "app", "tech", "example"};
    static const char *const countries[] = {"de", "uk", "fr", "ch", "nl", "jp", "cn", "kr", "in",
                                            "ca", "au", "eu", "us", "at", "be", "se", "no", "fi",
                                            "dk", "it", "es", "pl", "cz", "il", "sg", "br", "tw"};
    for (size_t i = 0; i < COUNT_OF(domains); i++)
        if (strlen(domains[i]) == len && strncasecmp(domains[i], label, len) == 0)
            return true;
    for (size_t i = 0; labels > LABELS_MIN && i < COUNT_OF(countries); i++)
        if (len == 2 && strncasecmp(countries[i], label, len) == 0)
            return true;
    return false;
}

static size_t full_name(const char *s, char before, size_t *seen)
{
    size_t n = 0, last = 0;
    int labels = 0;
    if (before && strchr("._-", before))
        return 0;
    for (;;) {
        size_t len = 0;
        while (isalnum((unsigned char)s[n + len]) || s[n + len] == '-')
            len++;
        if (len == 0)
            break;
        labels++;
        last = n;
        n += len;
        if (s[n] != '.' || !isalnum((unsigned char)s[n + 1]))
            break;
        n++;
    }
    return labels >= LABELS_MIN && s[n] != '_' && is_domain(s + last, n - last, labels) ? n : 0;
}

static const struct {
    size_t (*match)(const char *s, char before, size_t *seen);
    enum kind kind;
} forms[FORMS] = {{url, ADDRESS}, {rooted_path, PATH},   {mail, ADDRESS},  {ip4, ADDRESS},
                  {ip6, ADDRESS}, {relative_path, PATH}, {full_name, HOST}};

/* ---- texts ---------------------------------------------------------------------------------- */

static const char *known_at(size_t *len, const struct report_anonymous *a, const char *s,
                            char before)
{
    const char *found = NULL;
    *len = 0;
    for (size_t i = 0; !in_word(before) && i < a->known_count; i++) {
        const struct name *n = &a->known[i];
        size_t size = strlen(n->text);
        bool same =
            n->kind == USER ? strncasecmp(s, n->text, size) == 0 : strncmp(s, n->text, size) == 0;
        if (size > *len && same && !in_word(s[size])) {
            *len = size;
            found = n->shown;
        }
    }
    return found;
}

/* Where each form may begin next. */
struct scan {
    const char *from[FORMS];
};

static const char *form_at(size_t *len, struct report_anonymous *a, struct scan *scan,
                           const char *s, char before)
{
    for (size_t i = 0; !in_word(before) && i < FORMS; i++) {
        size_t seen = 0;
        if (scan->from[i] && s < scan->from[i])
            continue;
        if ((*len = forms[i].match(s, before, &seen)) > 0)
            return shown_for(a, forms[i].kind, s, *len);
        scan->from[i] = s + seen;
    }
    return NULL;
}

char *report_anonymous_text(struct report_anonymous *a, const char *text)
{
    AUTO(strbuf) struct strbuf b = {0}, redacted = {0};
    struct scan scan = {0};
    char before = 0;
    redact_text(&redacted, text);
    if (!a)
        return strbuf_take(&redacted);
    text = strbuf_str(&redacted);
    while (*text) {
        size_t len;
        const char *shown = form_at(&len, a, &scan, text, before);
        shown = shown ? shown : known_at(&len, a, text, before);
        if (shown) {
            strbuf_puts(&b, shown);
        } else {
            len = 1;
            strbuf_putc(&b, *text);
        }
        before = text[len - 1];
        text += len;
    }
    return strbuf_take(&b);
}

json_t *report_anonymous_json(struct report_anonymous *a, json_t *value)
{
    json_t *item, *out;
    const char *key;
    size_t i;
    if (json_is_object(value)) {
        out = json_object();
        json_object_foreach (value, key, item)
            json_object_set_new(out, key, report_anonymous_json(a, item));
        return out;
    }
    if (json_is_array(value)) {
        out = json_array();
        json_array_foreach (value, i, item)
            json_array_append_new(out, report_anonymous_json(a, item));
        return out;
    }
    if (!json_is_string(value))
        return json_incref(value);
    AUTO(free) char *text = report_anonymous_text(a, json_string_value(value));
    return json_string(text);
}
