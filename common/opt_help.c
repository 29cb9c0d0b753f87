#include "common/opt_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"

enum {
    HELP_COLUMN = 30, /* the rightmost column at which help texts may start */
    HELP_WIDTH = 80
};

/* Returns the width of UTF-8 text: the number of bytes that do not continue a character. */
static size_t columns(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* Prints `text`. The first line starts at column `at`, the others at column `indent`. Lines are
 * broken at spaces, so that only a line of a single word may exceed HELP_WIDTH. '\n' in the text
 * starts a new line. A line of the text that begins with a space is printed unchanged. */
static void print_wrapped(FILE *to, const char *text, size_t at, size_t indent)
{
    bool first = true; /* no word in this line yet */
    for (bool verbatim = *text == ' '; *text;) {
        if (*text == '\n') {
            fputc('\n', to);
            verbatim = *++text == ' ';
            fprintf(to, "%*s", *text && *text != '\n' ? (int)indent : 0, "");
            at = indent;
            first = true;
            continue;
        }
        text += verbatim ? 0 : strspn(text, " ");
        size_t len = strcspn(text, verbatim ? "\n" : " \n"), width = columns(text, len);
        if (!first && at + 1 + width > HELP_WIDTH) {
            fprintf(to, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        fprintf(to, "%s%.*s", first || len == 0 ? "" : " ", (int)len, text);
        at += width + !first;
        first = false;
        text += len;
    }
    fputc('\n', to);
}

/* Writes the label of an option into `b`: "  -n, --np N". */
static void row_label(struct strbuf *b, const struct opt *r)
{
    strbuf_reset(b);
    if (r->letter)
        strbuf_printf(b, "  -%c", r->letter);
    else
        strbuf_puts(b, "    ");
    const char *names = r->name, *name = NULL, *between = r->letter ? ", " : "  ";
    const char *aliases = names ? strstr(names, "||") : NULL;
    for (size_t n; (n = opt_next_name(&names, &name)) > 0 && (!aliases || name < aliases);
         between = ", ")
        strbuf_printf(b, "%s--%.*s", between, (int)n, name);
    if (r->arg)
        strbuf_printf(b, " %s", r->arg);
}

static void print_row(FILE *to, const struct opt *r, size_t column, struct strbuf *b)
{
    row_label(b, r);
    size_t width = columns(strbuf_str(b), b->len);
    fputs(strbuf_str(b), to);
    if (width + 2 > column)
        fprintf(to, "\n%*s", (int)column, "");
    else
        fprintf(to, "%*s", (int)(column - width), "");
    print_wrapped(to, r->help, column, column);
}

/* Returns the column where help texts start: after the longest label that fits before
 * HELP_COLUMN. */
static size_t text_column(const struct opt *rows, struct strbuf *b)
{
    size_t column = 16;
    for (const struct opt *r = rows; r->kind != OPT_KIND_END; r++) {
        row_label(b, r);
        size_t width = columns(strbuf_str(b), b->len) + 2;
        if (r->help && r->kind != OPT_KIND_GROUP && width > column && width <= HELP_COLUMN)
            column = width;
    }
    return column;
}

static void print_indented(FILE *to, const char *title, const char *lines)
{
    fprintf(to, "\n%s:\n", title);
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        fprintf(to, "%s%.*s\n", len ? "  " : "", (int)len, lines);
        lines += len + (lines[len] == '\n');
    }
}

/* Returns true if one of the names of the option is among the words. */
static bool is_usual(const struct opt *r, const char *words)
{
    const char *names = r->name, *name = NULL;
    for (size_t n; (n = opt_next_name(&names, &name)) > 0;)
        for (const char *w = words; *w; w += strcspn(w, " "), w += *w == ' ')
            if (strcspn(w, " ") == n && strncmp(w, name, n) == 0)
                return true;
    return false;
}

static const struct opt help_row = OPT_CALL('h', "help", NULL, "show this text", NULL);

/* {"group": "Output", "names": ["-q", "--quiet"], "arg": null, "help": "…", "min": null, …} */
static json_t *row_json(const struct opt *r, const char *group)
{
    AUTO(strbuf) struct strbuf label = {0};
    json_t *names = json_array();
    row_label(&label, r);
    char *rest = NULL, *text = (char *)strbuf_str(&label);
    for (char *w = strtok_r(text, " ,", &rest); w && *w == '-'; w = strtok_r(NULL, " ,", &rest))
        json_array_append_new(names, json_string(w));
    bool number =
        r->kind == OPT_KIND_INT || r->kind == OPT_KIND_DOUBLE || r->kind == OPT_KIND_DURATION;
    json_t *min = number && r->min > INT_MIN ? json_real(r->min) : NULL;
    json_t *max = number && r->max < INT_MAX ? json_real(r->max) : NULL;
    return json_pack("{s:s, s:o, s:s?, s:s, s:o*, s:o*}", "group", group, "names", names, "arg",
                     r->arg, "help", r->help, "min", min, "max", max);
}

static void print_json(FILE *to, const struct opt_help *h, const struct opt *rows)
{
    json_t *options = json_array();
    const char *group = "Options";
    for (const struct opt *r = rows; r->kind != OPT_KIND_END; r++)
        if (r->kind == OPT_KIND_GROUP)
            group = r->help;
        else if (r->help)
            json_array_append_new(options, row_json(r, group));
    json_array_append_new(options, row_json(&help_row, group));
    json_t *page = json_pack("{s:s, s:s, s:s, s:s?, s:o}", "program", h->program, "usage", h->usage,
                             "summary", h->summary, "examples", h->examples, "options", options);
    AUTO(free) char *line = json_line(page);
    fprintf(to, "%s\n", line);
    json_decref(page);
}

void opt_print_help(FILE *to, const struct opt_help *h, const struct opt *table)
{
    AUTO(free) struct opt *rows = opt_with_parts(table);
    const char *form = getenv("DROVER_HELP");
    if (form && strcmp(form, "json") == 0) {
        print_json(to, h, rows);
        return;
    }
    AUTO(strbuf) struct strbuf b = {0};
    const char *title = "Options"; /* title of a group of which no row is printed yet; NULL: none */
    size_t column = text_column(rows, &b);
    strbuf_reset(&b);
    strbuf_printf(&b, "Usage: %s%s%s", h->program, *h->usage ? " " : "", h->usage);
    print_wrapped(to, strbuf_str(&b), 0, strlen("Usage: "));
    fputc('\n', to);
    print_wrapped(to, h->summary, 0, 0);
    int others = 0;
    for (const struct opt *r = rows; r->kind != OPT_KIND_END; r++) {
        if (!r->help)
            continue;
        if (r->kind == OPT_KIND_GROUP) {
            title = r->help;
            continue;
        }
        if (h->usual && !is_usual(r, h->usual)) {
            others++;
            continue;
        }
        if (title)
            fprintf(to, "\n%s:\n", title);
        title = NULL;
        print_row(to, r, column, &b);
    }
    if (title)
        fprintf(to, "\n%s:\n", title);
    print_row(to, &help_row, column, &b);
    if (others > 0)
        fprintf(to, "\n%d further options: %s --help-all\n", others, h->program);
    if (h->examples)
        print_indented(to, "Examples", h->examples);
}
