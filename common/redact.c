#include "common/redact.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

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
    static const char *const anywhere[] = {"TOKEN", "KEY", "SECRET", "PASSW", "CREDENTIAL"};
    static const char *const words[] = {"token",      "key",  "secret", "password", "passwd",
                                        "credential", "pass", "pwd",    "auth",     "apikey",
                                        "PASS",       "PWD",  "AUTH"};
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

/* What follows a mark is a secret, up to the end of the word. */
static size_t marked_secret(const char *text, size_t *len)
{
    static const char *const marks[] = {"authorization:", "bearer "};
    static const char *const schemes[] = {"bearer ", "basic ", "token ", "digest "};
    size_t at = 0;
    for (size_t i = 0; i < COUNT_OF(marks) && !at; i++)
        if (strncasecmp(text, marks[i], strlen(marks[i])) == 0)
            at = strlen(marks[i]);
    if (!at)
        return 0;
    at += strspn(text + at, " ");
    for (size_t i = 0; i < COUNT_OF(schemes); i++)
        if (strncasecmp(text + at, schemes[i], strlen(schemes[i])) == 0)
            at += strlen(schemes[i]);
    *len = strcspn(text + at, " \t\r\n\"'");
    return at;
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
    while (*text) {
        size_t len = 0, at = marked_secret(text, &len);
        if (!at)
            at = url_secret(text, &len);
        if (len == 0) {
            strbuf_putc(b, *text++);
            continue;
        }
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
        struct strbuf b = {0};
        if (hide_next && word[0] != '-') /* otherwise the previous word was a flag */
            strbuf_puts(&b, hidden);
        else if (word[name_len] && named)
            strbuf_printf(&b, "%.*s=%s", (int)name_len, word, hidden);
        else
            redact_text(&b, word);
        strv_push(&shown, strbuf_take(&b));
        hide_next = named && word[0] == '-' && !word[name_len];
    }
    return shown;
}

void redact_command(struct strbuf *b, char *const *argv)
{
    AUTO(strv) char **shown = redact_argv(argv);
    for (size_t i = 0; shown && shown[i]; i++)
        strbuf_printf(b, "%s%s", i ? " " : "", shown[i]);
}
