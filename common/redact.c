#include "common/redact.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/mem.h"

enum {
    NUMBER_MAX = 24, /* longer numbers may be secrets; a double has up to 24 bytes */
    PROSE_MAX = 5,   /* letters of a name that may be a word of prose: key, token, auth, pass */
    NAMES_MAX = 128, /* bytes of a name */
    BRACKETS_MAX = 4096
};

static const char hidden[] = "***";

/* ---- names ---------------------------------------------------------------------------------- */

/* Returns whether the word is one of the names that are secrets only as a whole word. */
static bool is_secret_word(const char *word, size_t len)
{
    static const char *const words[] = {"token", "key",    "pass", "pwd",
                                        "auth",  "bearer", "cred", "creds"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strlen(words[i]) == len && strncasecmp(words[i], word, len) == 0)
            return true;
    return false;
}

/* Returns the length of the word at the beginning of a name: "api" of "apiKey", "HF" of "HFToken".
 * 0: a name of `len` bytes does not begin with a letter. */
static size_t word_length(const char *name, size_t len)
{
    size_t n = 0;
    while (n < len && isalpha((unsigned char)name[n])) {
        bool capital = isupper((unsigned char)name[n]) != 0;
        bool next_small = n + 1 < len && islower((unsigned char)name[n + 1]);
        if (n > 0 && capital && (islower((unsigned char)name[n - 1]) || next_small))
            break;
        n++;
    }
    return n;
}

bool redact_is_secret_name(const char *name, size_t len)
{
    static const char *const capitals[] = {"TOKEN", "KEY", "BEARER"};
    static const char *const anywhere[] = {"passw",      "secret",    "passphrase", "passcode",
                                           "credential", "apikey",    "accesskey",  "privatekey",
                                           "sshkey",     "authtoken", "accesstoken"};
    if (len == 3 && memcmp(name, "PWD", 3) == 0)
        return false;
    for (size_t i = 0; i < COUNT_OF(capitals); i++)
        if (memmem(name, len, capitals[i], strlen(capitals[i])))
            return true;
    for (size_t at = 0; at < len; at++)
        for (size_t i = 0; i < COUNT_OF(anywhere); i++)
            if (len - at >= strlen(anywhere[i]) &&
                strncasecmp(name + at, anywhere[i], strlen(anywhere[i])) == 0)
                return true;
    for (size_t at = 0, n; at < len; at += n ? n : 1)
        if ((n = word_length(name + at, len - at)) > 0 && is_secret_word(name + at, n))
            return true;
    return false;
}

/* ---- values --------------------------------------------------------------------------------- */

/* Returns whether a word says nothing: a number, a truth value, or a secret that is hidden. */
static bool is_plain_word(const char *word, size_t len)
{
    static const char *const words[] = {"true", "false", "null", "none", hidden};
    char number[NUMBER_MAX + 1], *end = NULL;
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strlen(words[i]) == len && strncasecmp(words[i], word, len) == 0)
            return true;
    if (len > NUMBER_MAX)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)len, word);
    (void)strtod(number, &end); /* only its end counts */
    return !*end && strspn(number, "0123456789+-.eE") == len;
}

/* Returns whether a value has nothing to hide: all words of it are plain, or are the keys of a
 * table. */
static bool is_plain(const char *value, size_t len)
{
    static const char between[] = " \t\r\n,[](){}:'\"";
    bool table = len > 0 && *value == '{';
    for (size_t at = 0, n; at < len; at += n ? n : 1) {
        for (n = 0; at + n < len && !strchr(between, value[at + n]);)
            n++;
        bool key = table && at + n < len && value[at + n] == ':';
        if (n > 0 && !key && !is_plain_word(value + at, n))
            return false;
    }
    return true;
}

static void put_value(struct strbuf *b, bool secret, const char *value)
{
    if (!secret)
        redact_text(b, value);
    else
        strbuf_puts(b, is_plain(value, strlen(value)) ? value : hidden);
}

void redact_value(struct strbuf *b, const char *name, size_t len, const char *value)
{
    put_value(b, redact_is_secret_name(name, len), value);
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

/* Returns the length of the name with which a text begins. 0: none, or more than NAMES_MAX. */
static size_t name_length(const char *text)
{
    size_t len = 0;
    while (isalnum((unsigned char)text[len]) || (text[len] && strchr("_-.", text[len])))
        if (++len > NAMES_MAX) /* else a long text takes time that grows with the square */
            return 0;
    return len;
}

/* The length of "NAME:" before a secret: Authorization, Cookie, or a name that ends with that of a
 * secret and is not a word of prose: neither "unknown key: x" nor "KeyError: x"; 0: none. */
static size_t header_length(const char *text)
{
    static const char *const names[] = {"authorization", "cookie", "set-cookie",
                                        "proxy-authorization"};
    size_t len = name_length(text), last = 0;
    if (text[len] != ':' || text[len + 1] == ':')
        return 0;
    for (size_t at = 0, n; at < len; at += n ? n : 1)
        if ((n = word_length(text + at, len - at)) > 0)
            last = at;
    bool secret = len > PROSE_MAX && redact_is_secret_name(text + last, len - last);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        secret |= strlen(names[i]) == len && strncasecmp(names[i], text, len) == 0;
    return secret ? len + 1 : 0;
}

/* The length of what precedes a secret's value: "--token ", "?token=", "Password = ",
 * "'password': ", "'--token', "; 0: nothing does. */
static size_t name_and_sign(const char *text)
{
    size_t len = name_length(text), end = len;
    if (len == 0 || !redact_is_secret_name(text, len))
        return 0;
    bool quoted = text[end] == '"' || text[end] == '\'';
    end += quoted;
    end += strspn(text + end, " ");
    bool pair = text[end] == ':' || (text[end] == ',' && *text == '-');
    if (pair ? quoted : text[end] == '=' && text[end + 1] != '=')
        end += 1 + strspn(text + end + 1, " ");
    else if (quoted || *text != '-' || end == len || text[end] == '-')
        return 0;
    return end;
}

/* Returns the length of a list or table in brackets, up to the last one; 0: it has no end. */
static size_t bracket_length(const char *text)
{
    int depth = 0;
    for (size_t i = 0; text[i] && i < BRACKETS_MAX; i++) {
        depth += (text[i] == '[' || text[i] == '{') - (text[i] == ']' || text[i] == '}');
        if (depth == 0)
            return i + 1;
    }
    return 0;
}

/* Returns the length of the value at text[*at], which is a list or table, in quotes, or a word.
 * Moves *at behind the quote. `open`: the quote that begins before the name; 0: none does. */
static size_t value_length(const char *text, size_t *at, char open)
{
    const char *value = text + *at;
    if (open)
        return strcspn(value, (char[]){open, '\0'});
    size_t len = *value == '[' || *value == '{' ? bracket_length(value) : 0;
    if (len > 0)
        return len;
    if (*value == '"' || *value == '\'') {
        char quote = *value++;
        *at += 1;
        while (value[len] && value[len] != quote)
            len += value[len] == '\\' && value[len + 1] ? 2 : 1;
        return len;
    }
    len = strcspn(value, " \t\r\n\"';&");
    while (len > 0 && strchr(",)]}", value[len - 1]))
        len--;
    return len;
}

/* "-u ann:SECRET", as curl has it: the length of "-u ann:"; 0: there is none, or a path follows. */
static size_t user_length(const char *text)
{
    static const char *const options[] = {"-u", "-U", "--user", "--proxy-user"};
    size_t at = 0;
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        size_t len = strlen(options[i]);
        if (strncmp(text, options[i], len) == 0 && text[len] && strchr(" =", text[len]))
            at = len + strspn(text + len, " =\"'");
    }
    size_t name = at ? name_length(text + at) : 0;
    at += name;
    return name && text[at] == ':' && text[at + 1] && !strchr("/:", text[at + 1]) ? at + 1 : 0;
}

/* What follows the name of a secret, a header or "Bearer" is a secret: a cookie up to the end of
 * the line, any other one up to the end of the value. */
static size_t marked_secret(const char *text, char before, size_t *len)
{
    static const char cookie[] = "cookie:";
    char open = *text == '-' && (before == '"' || before == '\'') ? before : '\0';
    size_t at = strncasecmp(text, "bearer ", 7) == 0 ? 7 : header_length(text);
    bool header = at > 0;
    at = header ? at : name_and_sign(text);
    if (!at) {
        const char *quote = (at = user_length(text)) ? memchr(text, '\'', at) : NULL;
        open = quote || (at && (quote = memchr(text, '"', at))) ? *quote : open;
    } else if (at && text[at - 1] != '=') {
        open = '\0';
    }
    if (!at)
        return 0;
    if (header && at >= strlen(cookie) &&
        strncasecmp(text + at - strlen(cookie), cookie, strlen(cookie)) == 0) {
        at += strspn(text + at, " ");
        *len = strcspn(text + at, "\r\n\"'");
        return at;
    }
    at += strspn(text + at, " ");
    size_t scheme = scheme_length(text + at);
    if (scheme && text[at + scheme] == ' ')
        at += scheme + 1;
    *len = value_length(text, &at, open);
    if (is_plain(text + at, *len))
        *len = 0;
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
    char before = '\0';
    for (bool in_word = false; *text;) {
        size_t len = 0, at = in_word ? 0 : marked_secret(text, before, &len);
        if (len == 0)
            at = url_secret(text, &len);
        if (len == 0 && !in_word)
            at = 0, len = known_token(text);
        if (len == 0) {
            in_word = isalnum((unsigned char)*text) || *text == '_' || *text == '-';
            before = *text++;
            strbuf_putc(b, before);
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
        const char *word = argv[i], *before = i > 0 ? argv[i - 1] : "";
        size_t name_len = name_length(word);
        bool named = redact_is_secret_name(word, name_len);
        size_t scheme = scheme_length(word), header = header_length(word);
        bool is_scheme = scheme && !word[scheme];
        AUTO(free) char *pair = xasprintf("%s %s", before, word);
        size_t user = before[0] == '-' ? user_length(pair) : 0;
        struct strbuf b = {0};
        if (hide_next && word[0] != '-' && !is_scheme) { /* otherwise the previous was a flag */
            put_value(&b, true, word);
        } else if (word[name_len] == '=' && named) {
            strbuf_add(&b, word, name_len + 1);
            put_value(&b, true, word + name_len + 1);
        } else if (user && !is_plain(pair + user, strlen(pair + user))) {
            strbuf_printf(&b, "%.*s%s", (int)(user - strlen(before) - 1), word, hidden);
        } else {
            redact_text(&b, word);
        }
        strv_push(&shown, strbuf_take(&b));
        hide_next = (named && word[0] == '-' && !word[name_len]) || (header && !word[header]) ||
                    (is_scheme && (hide_next || strcasecmp(word, "bearer") == 0));
    }
    return shown;
}

/* Returns the value, in which each string that says something is "***" if it is a `secret`. */
static json_t *shown_json(bool secret, json_t *value)
{
    const char *key;
    json_t *item, *out = value;
    size_t i;
    if (json_is_object(value)) {
        out = json_object();
        json_object_foreach (value, key, item)
            json_object_set_new(
                out, key,
                shown_json(secret || redact_is_secret_name(key, strlen(key)), json_incref(item)));
    } else if (json_is_array(value)) {
        out = json_array();
        json_array_foreach (value, i, item)
            json_array_append_new(out, shown_json(secret, json_incref(item)));
    } else if (json_is_string(value)) {
        AUTO(strbuf) struct strbuf b = {0};
        put_value(&b, secret, json_string_value(value));
        out = json_text(strbuf_str(&b));
    }
    if (out != value)
        json_decref(value);
    return out;
}

json_t *redact_json(const char *name, json_t *value)
{
    return shown_json(name && redact_is_secret_name(name, strlen(name)), value);
}

void redact_command(struct strbuf *b, char *const *argv)
{
    AUTO(strv) char **shown = redact_argv(argv);
    for (size_t i = 0; shown && shown[i]; i++)
        strbuf_printf(b, "%s%s", i ? " " : "", shown[i]);
}
