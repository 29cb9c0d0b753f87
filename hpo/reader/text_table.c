#include "hpo/reader/text_table.h"

#include <string.h>

#include "common/fnv_hash.h"
#include "common/mem.h"

/* Returns the entry of the hash table for the text. The entry is 0 if the text is not in the
 * table. */
static int *entry_of(const struct text_table *t, const char *text, size_t len)
{
    size_t i = (size_t)(fnv_hash_bytes(FNV_HASH_INIT, text, len) % (2 * t->cap));
    for (; t->hashed[i]; i = (i + 1) % (2 * t->cap)) {
        const char *other = t->texts[t->hashed[i] - 1];
        if (strncmp(other, text, len) == 0 && !other[len])
            break;
    }
    return &t->hashed[i];
}

static void grow(struct text_table *t)
{
    t->cap = t->cap ? 2 * t->cap : 16;
    t->texts = xrealloc(t->texts, t->cap, sizeof *t->texts);
    free(t->hashed);
    t->hashed = xcalloc(2 * t->cap, sizeof *t->hashed);
    for (size_t i = 0; i < t->count; i++)
        *entry_of(t, t->texts[i], strlen(t->texts[i])) = (int)i + 1;
}

int text_table_find(const struct text_table *t, const char *text, size_t len)
{
    return t->cap > 0 && text ? *entry_of(t, text, len) - 1 : TEXT_TABLE_NONE;
}

int text_table_add(struct text_table *t, const char *text, size_t len)
{
    if (!text)
        return TEXT_TABLE_NONE;
    int known = text_table_find(t, text, len);
    if (known >= 0)
        return known;
    if (t->count == t->cap)
        grow(t);
    t->texts[t->count] = xstrndup(text, len);
    *entry_of(t, text, len) = (int)++t->count;
    return (int)t->count - 1;
}

const char *text_table_at(const struct text_table *t, int number)
{
    return number < 0 ? NULL : t->texts[number];
}

void text_table_clear(struct text_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->texts[i]);
    free(t->texts);
    free(t->hashed);
    *t = (struct text_table){0};
}
