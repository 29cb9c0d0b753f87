/* report_document - what a report says: headings, texts, tables, code, pictures and the place of
 * plots, in their order. Pure.
 *
 * All texts may come from users: they become clean text (report_text.h) and, if the report is
 * anonymous, lose their names when they are added. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"
#include "launcher/report/report_anonymous.h"

enum report_block_kind {
    REPORT_HEADING,
    REPORT_TEXT,
    REPORT_CODE,
    REPORT_TABLE,
    REPORT_FIGURE,
    REPORT_PLOTS
};

struct report_block {
    enum report_block_kind kind;
    char *text;    /* HEADING, TEXT, CODE, the caption of a FIGURE */
    char *svg;     /* FIGURE */
    char **heads;  /* TABLE: a strv */
    bool *numbers; /* TABLE: by column: its cells are numbers */
    char **cells;  /* TABLE: row after row */
    size_t columns, cell_count;
};

struct report_document {
    char *title;
    struct report_block *blocks;
    size_t count;
    struct report_anonymous *anonymous; /* borrowed; NULL: names stay */
};

struct report_document *report_document_new(const char *title, struct report_anonymous *a);
void report_document_free(struct report_document *d);
AUTO_DEFINE(report_document, struct report_document *, report_document_free)

/* Returns the text in the form of the report. The caller frees it. */
char *report_document_shown(const struct report_document *d, const char *text);

void report_document_heading(struct report_document *d, const char *text);
void report_document_text(struct report_document *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Several lines in a typewriter's face: a command, a file, an error. */
void report_document_code(struct report_document *d, const char *text);
/* Adds a picture and takes ownership of `svg`, which report_chart.h has made. Markdown has only its
 * caption. */
void report_document_figure(struct report_document *d, const char *caption, char *svg);
/* Adds the place of the plots, which the scripts of an HTML report draw (report_html.h). A report
 * without scripts, and Markdown, leave it out. */
void report_document_plots(struct report_document *d);

/* Adds a table: then a column per head, then the cells, row after row. */
void report_document_table(struct report_document *d);
void report_document_head(struct report_document *d, const char *name, bool numbers);
/* Adds a table with its heads: "node|#trials|cause"; '#' is before those of numbers. */
void report_document_columns(struct report_document *d, const char *heads);
void report_document_cell(struct report_document *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for a number: "–" if it is not finite. */
void report_document_number(struct report_document *d, double x);
/* Adds a row of two cells. */
void report_document_fact(struct report_document *d, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
