/* import_table - reads CSV (RFC 4180), cell by cell. Pure. */
#ifndef DROVER_IMPORT_TABLE_H
#define DROVER_IMPORT_TABLE_H

#include "common/err.h"
#include "common/mem.h"

struct import_table {
    char *at;   /* in the text, which is changed */
    int line;   /* of the next row, from 1 */
    char **row; /* the cells of the current row, in the text; NULL-terminated */
    size_t cells, cap;
};

/* Begins to read `text`, which must outlive the table. */
struct import_table import_table_begin(char *text);
void import_table_end(struct import_table *t);

/* Reads the next row that is not empty. Returns 1, or 0 at the end.
 *   -EINVAL  a quoted cell does not end, or text follows it; the message has the line */
int import_table_next(struct import_table *t, struct err *e);

#endif
