#include "common/redact.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/mem.h"

static const char hidden[] = "***";

/* ---- names ---------------------------------------------------------------------------------- */

/* Returns whether the name contains the mark as a separate word. */
static bool has_word(const char *name, size_t len, const char *mark)
{
    size_t mark_len = strlen(mark);
    for (const char *at = name; (at = memmem(at, len - (size_t)(at - name), mark, mark_len));
         at++) {
        const char *after = at + mark_len;
        if ((at == name || !isalpha((unsigned char)at[-1])) &&
            (after == name + len || !isalpha((unsigned char)*after)))
            return true;
    }
    return false;
}

bool redact_is_secret_name(const char *name, size_t len)
{
    static const char *const anywhere[] = {"TOKEN",      "KEY",        "SECRET", "PASSW",
                                           "CREDENTIAL", "PASSPHRASE", "BEARER"};
    static const char *const words[] = {"token",      "key",    "secret", "password", "passwd",
                                        "credential", "pass",   "pwd",    "auth",     "apikey",
                                        "passphrase", "bearer", "PASS",   "PWD",      "AUTH"};
    if (len == 3 && memcmp(name, "PWD", 3) == 0)
        return false;
    for (size_t i = 0; i < COUNT_OF(anywhere); i++)
        if (memmem(name, len, anywhere[i], strlen(anywhere[i])))
            return true;
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (has_word(name, len, words[i]))
            return true;
    return false;
}

/* ---- texts ---------------------------------------------------------------------------------- */

static const char *const schemes[] = {"bearer", "basic", "token", "digest"};

/* The length of a scheme of authorization at the beginning of the text; 0: none. */
static size_t scheme_length(const char *text)
{
    for (size_t i = 0; i < COUNT_OF(schemes); i++)
        if (strncasecmp(text, schemes[i], strlen(schemes[i])) == 0)
            return strlen(schemes[i]);
    return 0;
}

/* The length of "NAME:", a header of HTTP whose value is a secret: Authorization, Cookie, or two
 * words of which one is a secret (X-Api-Key, PRIVATE-TOKEN); 0: none. */
static size_t header_length(const char *text)
{
    static const char *const names[] = {"authorization", "cookie", "set-cookie",
                                        "proxy-authorization"};
    char lower[48];
    size_t len = 0;
    while (len < sizeof lower && (isalnum((unsigned char)text[len]) || text[len] == '-')) {
        lower[len] = (char)tolower((unsigned char)text[len]);
        len++;
    }
    if (len == 0 || len == sizeof lower || text[len] != ':')
        return 0;
    bool secret = memchr(lower, '-', len) && lower[0] != '-' && redact_is_secret_name(lower, len);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        secret |= strlen(names[i]) == len && memcmp(names[i], lower, len) == 0;
    return secret ? len + 1 : 0;
}

/* What follows a header or "Bearer" is a secret: a cookie up to the end of the line, any other one
 * up to the end of the word. */
static size_t marked_secret(const char *text, size_t *len)
{
    bool bearer = strncasecmp(text, "bearer ", 7) == 0;
    size_t at = bearer ? 7 : header_length(text);
    if (!at)
        return 0;
    bool cookie = !bearer && at > strlen("cookie:") - 1 &&
                  strncasecmp(text + at - strlen("cookie:"), "cookie:", strlen("cookie:")) == 0;
    const char *end = cookie ? "\r\n\"'" : " \t\r\n\"'";
    at += strspn(text + at, " ");
    size_t scheme = scheme_length(text + at);
    if (scheme && text[at + scheme] == ' ')
        at += scheme + 1;
    *len = strcspn(text + at, end);
    return at;
}

/* A token of a well-known service, which its first letters tell: all of it is the secret. */
static size_t known_token(const char *text)
{
    static const struct {
        const char *prefix, *more; /* more: what it may have besides letters and digits */
        size_t min;                /* bytes after the prefix */
    } known[] = {{"hf_", "", 30},          {"ghp_", "", 30},        {"gho_", "", 30},
                 {"ghu_", "", 30},         {"ghs_", "", 30},        {"ghr_", "", 30},
                 {"github_pat_", "_", 30}, {"glpat-", "_-", 20},    {"sk-", "_-", 32},
                 {"xoxb-", "-", 20},       {"xoxp-", "-", 20},      {"xoxa-", "-", 20},
                 {"AKIA", "", 16},         {"ASIA", "", 16},        {"AIza", "_-", 30},
                 {"eyJ", "_-.", 40},       {"npm_", "", 30},        {"pypi-", "_-", 40},
                 {"nvapi-", "_-", 30},     {"wandb_v1_", "_-", 30}, {"dckr_pat_", "_-", 20}};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        size_t from = strlen(known[i].prefix), len = from;
        bool digit = false;
        if (strncmp(text, known[i].prefix, from) != 0)
            continue;
        for (; isalnum((unsigned char)text[len]) || (text[len] && strchr(known[i].more, text[len]));
             len++)
            digit |= isdigit((unsigned char)text[len]) != 0;
        if (digit && len - from >= known[i].min)
            return len;
    }
    return 0;
}

/* "://user:PASSWORD@host" */
static size_t url_secret(const char *text, size_t *len)
{
    if (strncmp(text, "://", 3) != 0)
        return 0;
    size_t end = 3 + strcspn(text + 3, "/?# \t\r\n\"'");
    const char *at = memrchr(text, '@', end), *colon = at ? memchr(text + 3, ':', end - 3) : NULL;
    if (!colon || colon > at)
        return 0;
    *len = (size_t)(at - colon) - 1;
    return (size_t)(colon - text) + 1;
}

void redact_text(struct strbuf *b, const char *text)
{
    for (bool in_word = false; *text;) {
        size_t len = 0, at = in_word ? 0 : marked_secret(text, &len);
        if (!at)
            at = url_secret(text, &len);
        if (len == 0 && !in_word)
            at = 0, len = known_token(text);
        if (len == 0) {
            in_word = isalnum((unsigned char)*text) || *text == '_' || *text == '-';
            strbuf_putc(b, *text++);
            continue;
        }
        in_word = true;
        strbuf_add(b, text, at);
        strbuf_puts(b, hidden);
        text += at + len;
    }
}

/* ---- command lines -------------------------------------------------------------------------- */

char **redact_argv(char *const *argv)
{
    char **shown = NULL;
    bool hide_next = false; /* the previous word named a secret */
    for (size_t i = 0; argv && argv[i]; i++) {
        const char *word = argv[i];
        size_t name_len = strcspn(word, "=");
        bool named = redact_is_secret_name(word, name_len) && !strpbrk(word, " \t\n");
        size_t scheme = scheme_length(word), header = header_length(word);
        bool is_scheme = scheme && !word[scheme];
        struct strbuf b = {0};
        if (hide_next && word[0] != '-' && !is_scheme) /* otherwise the previous word was a flag */
            strbuf_puts(&b, hidden);
        else if (word[name_len] && named)
            strbuf_printf(&b, "%.*s=%s", (int)name_len, word, hidden);
        else
            redact_text(&b, word);
        strv_push(&shown, strbuf_take(&b));
        hide_next = (named && word[0] == '-' && !word[name_len]) || (header && !word[header]) ||
                    (is_scheme && (hide_next || strcasecmp(word, "bearer") == 0));
    }
    return shown;
}

json_t *redact_json(const char *name, json_t *value)
{
    const char *key;
    json_t *item, *out = value;
    size_t i;
    if (name && value && redact_is_secret_name(name, strlen(name))) {
        out = json_text(hidden);
    } else if (json_is_object(value)) {
        out = json_object();
        json_object_foreach (value, key, item)
            json_object_set_new(out, key, redact_json(key, json_incref(item)));
    } else if (json_is_array(value)) {
        out = json_array();
        json_array_foreach (value, i, item)
            json_array_append_new(out, redact_json(NULL, json_incref(item)));
    } else if (json_is_string(value)) {
        AUTO(strbuf) struct strbuf b = {0};
        redact_text(&b, json_string_value(value));
        out = json_text(strbuf_str(&b));
    }
    if (out != value)
        json_decref(value);
    return out;
}

void redact_command(struct strbuf *b, char *const *argv)
{
    AUTO(strv) char **shown = redact_argv(argv);
    for (size_t i = 0; shown && shown[i]; i++)
        strbuf_printf(b, "%s%s", i ? " " : "", shown[i]);
}
