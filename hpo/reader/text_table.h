/* text_table - texts as small numbers: each different text is stored once. */
#ifndef DROVER_TEXT_TABLE_H
#define DROVER_TEXT_TABLE_H

#include <stddef.h>

struct text_table { /* zeroes are an empty table */
    char **texts;
    size_t count, cap;
    int *hashed; /* 2 * cap entries: a number plus 1; 0: free */
};

enum { TEXT_TABLE_NONE = -1 };

/* Returns the number of the text, which is added if it is new; TEXT_TABLE_NONE for NULL. */
int text_table_add(struct text_table *t, const char *text, size_t len);
/* Returns the number of the text; TEXT_TABLE_NONE: it is not in the table. */
int text_table_find(const struct text_table *t, const char *text, size_t len);
/* Returns the text, NUL-terminated and borrowed; NULL for TEXT_TABLE_NONE. */
const char *text_table_at(const struct text_table *t, int number);
void text_table_clear(struct text_table *t);

#endif
