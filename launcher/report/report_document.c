#include "launcher/report/report_document.h"

#include <assert.h>
#include <math.h>

#include "common/strbuf.h"
#include "launcher/report/report_text.h"

char *report_document_shown(const struct report_document *d, const char *text)
{
    AUTO(free) char *own = report_anonymous_text(d->anonymous, text);
    AUTO(strbuf) struct strbuf b = {0};
    report_text_clean(&b, own);
    return strbuf_take(&b);
}

struct report_document *report_document_new(const char *title, struct report_anonymous *a)
{
    struct report_document *d = xzalloc(sizeof *d);
    d->anonymous = a;
    d->title = report_document_shown(d, title);
    return d;
}

void report_document_free(struct report_document *d)
{
    for (size_t i = 0; d && i < d->count; i++) {
        struct report_block *b = &d->blocks[i];
        for (size_t k = 0; k < b->cell_count; k++)
            free(b->cells[k]);
        for (size_t k = 0; k < b->columns; k++)
            free(b->heads[k]);
        free(b->cells);
        free(b->heads);
        free(b->numbers);
        free(b->text);
        free(b->svg);
    }
    if (d) {
        free(d->blocks);
        free(d->title);
    }
    free(d);
}

static struct report_block *add(struct report_document *d, enum report_block_kind kind, char *text)
{
    d->blocks = xrealloc(d->blocks, d->count + 1, sizeof *d->blocks);
    d->blocks[d->count] = (struct report_block){.kind = kind, .text = text};
    return &d->blocks[d->count++];
}

void report_document_heading(struct report_document *d, const char *text)
{
    add(d, REPORT_HEADING, report_document_shown(d, text));
}

void report_document_text(struct report_document *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    AUTO(free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    add(d, REPORT_TEXT, report_document_shown(d, text));
}

void report_document_code(struct report_document *d, const char *text)
{
    add(d, REPORT_CODE, report_document_shown(d, text));
}

void report_document_figure(struct report_document *d, const char *caption, char *svg)
{
    add(d, REPORT_FIGURE, report_document_shown(d, caption))->svg = svg;
}

void report_document_plots(struct report_document *d)
{
    add(d, REPORT_PLOTS, NULL);
}

/* ---- tables --------------------------------------------------------------------------------- */

static struct report_block *table(struct report_document *d)
{
    assert(d->count > 0 && d->blocks[d->count - 1].kind == REPORT_TABLE);
    return &d->blocks[d->count - 1];
}

void report_document_table(struct report_document *d)
{
    add(d, REPORT_TABLE, NULL);
}

void report_document_head(struct report_document *d, const char *name, bool numbers)
{
    struct report_block *b = table(d);
    b->heads = xrealloc(b->heads, b->columns + 1, sizeof *b->heads);
    b->numbers = xrealloc(b->numbers, b->columns + 1, sizeof *b->numbers);
    b->numbers[b->columns] = numbers;
    b->heads[b->columns++] = report_document_shown(d, name);
}

void report_document_columns(struct report_document *d, const char *heads)
{
    AUTO(free) char *copy = xstrdup(heads);
    report_document_table(d);
    for (char *rest = copy, *name; (name = strsep(&rest, "|"));)
        report_document_head(d, name + (*name == '#'), *name == '#');
}

static void add_cell(struct report_document *d, const char *text)
{
    struct report_block *b = table(d);
    b->cells = xrealloc(b->cells, b->cell_count + 1, sizeof *b->cells);
    b->cells[b->cell_count++] = report_document_shown(d, text);
}

void report_document_cell(struct report_document *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    AUTO(free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    add_cell(d, text);
}

void report_document_number(struct report_document *d, double x)
{
    AUTO(free) char *text = isfinite(x) ? xasprintf("%.6g", x) : xstrdup("–");
    add_cell(d, text);
}

void report_document_fact(struct report_document *d, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    AUTO(free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    add_cell(d, name);
    add_cell(d, text);
}
