#include "hpo/spec/spec_words.h"

#include "common/mem.h"
#include "common/opt.h"
#include "common/strbuf.h"

/* Appends the names in the form "a, b or c". */
static void list(struct strbuf *b, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        strbuf_printf(b, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", names[i]);
}

int spec_words_hint(struct err *e, const struct config_node *at, const char *key, const char *word,
                    const char *const *names, size_t n)
{
    AUTO(strbuf) struct strbuf text = {0};
    const char *near = word ? opt_suggest(word, names, n) : NULL;
    if (near)
        strbuf_puts(&text, near);
    else
        list(&text, names, n);
    return err_hint(e, at->doc ? "%s: %s" : "\"%s\":\"%s\"", key, strbuf_str(&text));
}
