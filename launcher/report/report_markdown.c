#include "launcher/report/report_markdown.h"

#include <stdbool.h>
#include <string.h>

#include "launcher/report/report_text.h"

static void add_row(struct strbuf *out, char *const *cells, size_t n)
{
    strbuf_putc(out, '|');
    for (size_t k = 0; k < n; k++) {
        strbuf_putc(out, ' ');
        report_text_markdown(out, cells[k]);
        strbuf_puts(out, " |");
    }
    strbuf_putc(out, '\n');
}

static void add_table(struct strbuf *out, const struct report_block *b)
{
    add_row(out, b->heads, b->columns);
    strbuf_putc(out, '|');
    for (size_t k = 0; k < b->columns; k++)
        strbuf_puts(out, b->numbers[k] ? " ---: |" : " --- |");
    strbuf_putc(out, '\n');
    for (size_t i = 0; i + b->columns <= b->cell_count; i += b->columns)
        add_row(out, b->cells + i, b->columns);
}

/* The fence is longer than each row of backticks in the text. */
static void add_code(struct strbuf *out, const char *text)
{
    size_t most = 2, now = 0;
    for (const char *s = text; *s; s++) {
        now = *s == '`' ? now + 1 : 0;
        most = now > most ? now : most;
    }
    for (int end = 0; end < 2; end++) {
        for (size_t i = 0; i <= most; i++)
            strbuf_putc(out, '`');
        strbuf_puts(out, end ? "\n" : "text\n");
        if (end)
            return;
        strbuf_puts(out, text);
        strbuf_puts(out, *text && text[strlen(text) - 1] == '\n' ? "" : "\n");
    }
}

void report_markdown(struct strbuf *out, const struct report_document *d)
{
    strbuf_puts(out, "# ");
    report_text_markdown(out, d->title);
    strbuf_putc(out, '\n');
    for (size_t i = 0; i < d->count; i++) {
        const struct report_block *b = &d->blocks[i];
        if (b->kind == REPORT_FIGURE || b->kind == REPORT_PLOTS) /* they would be other files */
            continue;
        strbuf_puts(out, b->kind == REPORT_HEADING ? "\n## " : "\n");
        if (b->kind == REPORT_TABLE)
            add_table(out, b);
        else if (b->kind == REPORT_CODE)
            add_code(out, b->text);
        else
            report_text_markdown(out, b->text);
        strbuf_puts(out, b->kind == REPORT_HEADING || b->kind == REPORT_TEXT ? "\n" : "");
    }
}
