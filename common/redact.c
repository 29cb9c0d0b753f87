#include "common/redact.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"

/* Whether the letters before and behind `at` make a longer word of it. */
static bool stands_alone(const char *name, size_t len, const char *at, size_t mark_len)
{
    const char *after = at + mark_len;
    return (at == name || !isalpha((unsigned char)at[-1])) &&
           (after == name + len || !isalpha((unsigned char)*after));
}

bool redact_is_secret_name(const char *name, size_t len)
{
    static const char *const marks[][2] = {{"TOKEN", "token"},   {"KEY", "key"},
                                           {"SECRET", "secret"}, {"PASSWORD", "password"},
                                           {"PASSWD", "passwd"}, {"CREDENTIAL", "credential"}};
    for (size_t i = 0; i < COUNT_OF(marks); i++) {
        size_t mark_len = strlen(marks[i][0]);
        if (memmem(name, len, marks[i][0], mark_len))
            return true;
        const char *at = memmem(name, len, marks[i][1], mark_len);
        if (at && stands_alone(name, len, at, mark_len))
            return true;
    }
    return false;
}

void redact_command(struct strbuf *b, char *const *argv)
{
    bool hide = false; /* the word before named a secret */
    for (size_t i = 0; argv && argv[i]; i++) {
        const char *word = argv[i];
        size_t name_len = strcspn(word, "=");
        bool named = redact_is_secret_name(word, name_len);
        strbuf_puts(b, i ? " " : "");
        if (hide && word[0] != '-') /* else the one before was a switch */
            strbuf_puts(b, "***");
        else if (word[name_len] && named)
            strbuf_printf(b, "%.*s=***", (int)name_len, word);
        else
            strbuf_puts(b, word);
        hide = named && word[0] == '-' && !word[name_len];
    }
}
