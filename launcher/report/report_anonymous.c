#include "launcher/report/report_anonymous.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/redact.h"
#include "common/strbuf.h"

enum { LABELS_MIN = 2 };

struct name {
    char *text, *shown;
};

struct report_anonymous {
    struct name *names; /* `known` names are searched for as words; the others have been found */
    size_t count;
    size_t *known, known_count;
    int counts[4];
};

enum kind { HOST, USER, PATH, ADDRESS };
static const char *const kinds[] = {"host", "user", "path", "address"};

struct report_anonymous *report_anonymous_new(void)
{
    return xzalloc(sizeof(struct report_anonymous));
}

void report_anonymous_free(struct report_anonymous *a)
{
    for (size_t i = 0; a && i < a->count; i++) {
        free(a->names[i].text);
        free(a->names[i].shown);
    }
    if (a) {
        free(a->names);
        free(a->known);
    }
    free(a);
}

/* Returns the index of the name, which is added if it is new. */
static size_t index_of(struct report_anonymous *a, enum kind k, const char *text, size_t len)
{
    for (size_t i = 0; i < a->count; i++)
        if (strlen(a->names[i].text) == len && strncasecmp(a->names[i].text, text, len) == 0)
            return i;
    a->names = xrealloc(a->names, a->count + 1, sizeof *a->names);
    a->names[a->count] =
        (struct name){xstrndup(text, len), xasprintf("%s-%d", kinds[k], ++a->counts[k])};
    return a->count++;
}

static void add_known(struct report_anonymous *a, enum kind k, const char *text, size_t len)
{
    if (!text || len < 2 || strcmp(text, "root") == 0 || strncmp(text, "localhost", len) == 0)
        return;
    size_t at = index_of(a, k, text, len);
    for (size_t i = 0; i < a->known_count; i++)
        if (a->known[i] == at)
            return;
    a->known = xrealloc(a->known, a->known_count + 1, sizeof *a->known);
    a->known[a->known_count++] = at;
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

/* Each returns the length of what begins at `s`, or 0. `before` is the character in front of it. */

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

static bool ends_path(char c)
{
    return !c || isspace((unsigned char)c) || strchr("\"'`<>()[]{}|,;:&*?$=", c);
}

static size_t url(const char *s, char before)
{
    size_t n = 0;
    while (isalnum((unsigned char)s[n]) || (n > 0 && s[n] && strchr("+.-", s[n])))
        n++;
    if (in_word(before) || n < 2 || strncmp(s + n, "://", 3) != 0)
        return 0;
    while (s[n] && !isspace((unsigned char)s[n]) && !strchr("\"'`<>()[]{}|", s[n]))
        n++;
    while (strchr(".,;:!?", s[n - 1])) /* of the sentence */
        n--;
    return n;
}

/* In quotes, a path ends at the closing quote: it may contain spaces. */
static size_t rooted_path(const char *s, char before)
{
    bool dots = strncmp(s, "./", 2) == 0 || strncmp(s, "../", 3) == 0;
    bool home = *s == '~' && (s[1] == '/' || isalpha((unsigned char)s[1]));
    bool root = *s == '/' && (in_word(s[1]) || (s[1] && strchr("._-", s[1])));
    if (in_word(before) || (before && strchr("._-)]<", before)) || !(dots || home || root))
        return 0;
    const char *quote = before && strchr("\"'`", before) ? strchr(s, before) : NULL;
    if (quote && !memchr(s, '\n', (size_t)(quote - s)))
        return (size_t)(quote - s);
    size_t n = 1;
    while (!ends_path(s[n]) || (s[n] == ' ' && s[n - 1] == '\\'))
        n++;
    return n;
}

/* data/train.csv, and -I/usr/include. */
static size_t relative_path(const char *s, char before)
{
    size_t n = 0, slashes = 0, last = 0;
    while (in_word(s[n]) || (s[n] && strchr("_./+%-", s[n]))) {
        if (s[n] == '/') {
            slashes++;
            last = n + 1;
        }
        n++;
    }
    const char *dot = slashes ? memchr(s + last, '.', n - last) : NULL;
    bool has_ending = dot && isalpha((unsigned char)dot[1]);
    bool of_option = *s == '-' && s[1] != '-' && s[2] == '/';
    return in_word(before) || !(has_ending || (of_option && slashes > 1)) ? 0 : n;
}

static size_t mail(const char *s, char before)
{
    size_t n = 0, m;
    while (in_word(s[n]) || (s[n] && strchr("._+-", s[n])))
        n++;
    if (in_word(before) || n == 0 || s[n] != '@' || !in_word(s[n + 1]))
        return 0;
    for (m = n + 1; in_word(s[m]) || (s[m] && strchr("._-", s[m]));)
        m++;
    return m;
}

static size_t ip4(const char *s, char before)
{
    size_t n = 0;
    for (int part = 0; part < 4; part++) {
        size_t digits = strspn(s + n, "0123456789");
        if (digits < 1 || digits > 3 || (part < 3 && s[n + digits] != '.'))
            return 0;
        n += digits + (part < 3);
    }
    return in_word(before) || before == '.' || in_word(s[n]) ? 0 : n;
}

/* Also the addresses of network cards. 12:30:01 is a time. */
static size_t ip6(const char *s, char before)
{
    size_t n = strspn(s, "0123456789abcdefABCDEF:"), colons = 0;
    bool digit = false, pair = false;
    for (size_t i = 0; i < n; i++) {
        colons += s[i] == ':';
        digit |= isdigit((unsigned char)s[i]) != 0;
        pair |= s[i] == ':' && s[i + 1] == ':';
    }
    bool form = digit && colons >= 2 && (pair || colons >= 5);
    return !form || in_word(before) || before == ':' || in_word(s[n]) ? 0 : n;
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

static size_t full_name(const char *s, char before)
{
    size_t n = 0, last = 0;
    int labels = 0;
    if (in_word(before) || before == '.' || before == '_')
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
    size_t (*match)(const char *s, char before);
    enum kind kind;
} forms[] = {{url, ADDRESS}, {rooted_path, PATH},   {mail, ADDRESS},  {ip4, ADDRESS},
             {ip6, ADDRESS}, {relative_path, PATH}, {full_name, HOST}};

/* ---- texts ---------------------------------------------------------------------------------- */

static const char *known_at(size_t *len, const struct report_anonymous *a, const char *s,
                            char before)
{
    const char *found = NULL;
    *len = 0;
    for (size_t i = 0; !in_word(before) && i < a->known_count; i++) {
        const struct name *n = &a->names[a->known[i]];
        size_t size = strlen(n->text);
        if (size > *len && strncasecmp(s, n->text, size) == 0 && !in_word(s[size])) {
            *len = size;
            found = n->shown;
        }
    }
    return found;
}

static const char *form_at(size_t *len, struct report_anonymous *a, const char *s, char before)
{
    for (size_t i = 0; i < COUNT_OF(forms); i++)
        if ((*len = forms[i].match(s, before)) > 0) {
            size_t at = index_of(a, forms[i].kind, s, *len); /* moves a->names */
            return a->names[at].shown;
        }
    return NULL;
}

char *report_anonymous_text(struct report_anonymous *a, const char *text)
{
    AUTO(strbuf) struct strbuf b = {0}, redacted = {0};
    char before = 0;
    redact_text(&redacted, text);
    if (!a)
        return strbuf_take(&redacted);
    text = strbuf_str(&redacted);
    while (*text) {
        size_t len;
        const char *shown = form_at(&len, a, text, before);
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
