#include "common/redact.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"

/* Returns true if the word at `at`, a position in `name`, is not part of a longer word. */
static bool is_separate_word(const char *name, size_t len, const char *at, size_t mark_len)
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
        if (at && is_separate_word(name, len, at, mark_len))
            return true;
    }
    return false;
}

void redact_command(struct strbuf *b, char *const *argv)
{
    bool hide_next = false; /* the previous word named a secret */
    for (size_t i = 0; argv && argv[i]; i++) {
        const char *word = argv[i];
        size_t name_len = strcspn(word, "=");
        bool named = redact_is_secret_name(word, name_len);
        strbuf_puts(b, i ? " " : "");
        if (hide_next && word[0] != '-') /* otherwise the previous word was a flag */
            strbuf_puts(b, "***");
        else if (word[name_len] && named)
            strbuf_printf(b, "%.*s=***", (int)name_len, word);
        else
            strbuf_puts(b, word);
        hide_next = named && word[0] == '-' && !word[name_len];
    }
}
