#include "hpo/exchange/import_table.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct import_table import_table_begin(char *text)
{
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3; /* the byte order mark that spreadsheets write */
    return (struct import_table){.at = text, .line = 1};
}

void import_table_end(struct import_table *t)
{
    free(t->row);
    t->row = NULL;
}

static void add_cell(struct import_table *t, char *cell)
{
    if (t->cells + 1 >= t->cap) {
        t->cap = t->cap ? 2 * t->cap : 16;
        t->row = xrealloc(t->row, t->cap, sizeof *t->row);
    }
    t->row[t->cells++] = cell;
    t->row[t->cells] = NULL;
}

/* Removes the quotes of the cell at t->at, and moves behind it. */
static int read_quoted(struct import_table *t, struct err *e)
{
    char *to = t->at, *from = t->at + 1;
    int begin = t->line;
    for (; *from && !(from[0] == '"' && from[1] != '"'); from++) {
        from += *from == '"';
        t->line += *from == '\n';
        *to++ = *from;
    }
    if (!*from)
        return err_set(e, -EINVAL, "line %d: a quoted cell does not end", begin);
    t->at = from + 1;
    if (!strchr(",\r\n", *t->at))
        return err_set(e, -EINVAL, "line %d: text after a quoted cell", t->line);
    *to = 0;
    return 0;
}

static int read_row(struct import_table *t, struct err *e)
{
    for (bool more = true; more;) {
        char *cell = t->at;
        if (*cell != '"')
            t->at += strcspn(cell, ",\r\n");
        else if (read_quoted(t, e) < 0)
            return -EINVAL;
        char *end = t->at;
        more = *end == ',';
        if (*end == '\r' && end[1] == '\n')
            t->at++;
        t->line += *t->at == '\n' || *t->at == '\r';
        t->at += *t->at != 0;
        *end = 0;
        add_cell(t, cell);
    }
    return 1;
}

int import_table_next(struct import_table *t, struct err *e)
{
    while (*t->at) {
        t->cells = 0;
        int rc = read_row(t, e);
        if (rc < 0 || t->cells > 1 || t->row[0][0])
            return rc;
    }
    return 0;
}
