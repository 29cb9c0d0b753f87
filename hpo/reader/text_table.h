/* text_table - gives texts small numbers, and stores each different text once. */
#pragma once

#include <stddef.h>

struct text_table { /* zeroes are an empty table */
    char **texts;
    size_t count, cap;
    int *hashed; /* 2 * cap entries: a number plus 1; 0: free */
};

enum { TEXT_TABLE_NONE = -1 };

/* Returns the number of the text; adds the text if it is new. Returns TEXT_TABLE_NONE if `text` is
 * NULL. */
int text_table_add(struct text_table *t, const char *text, size_t len);
/* Returns the number of the text, or TEXT_TABLE_NONE if it is not in the table. */
int text_table_find(const struct text_table *t, const char *text, size_t len);
/* Returns the text, NUL-terminated and borrowed; NULL for TEXT_TABLE_NONE. */
const char *text_table_at(const struct text_table *t, int number);
void text_table_clear(struct text_table *t);
