#include "serve/report/sweep_report_script.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/report/report_text.h"

/* A module follows those that it imports. */
static const char *const modules[] = {
    "expression",  "format",        "study",         "selection",     "pen",
    "plot",        "view_pareto",   "view_overview", "view_parallel", "view_slices",
    "view_curves", "view_timeline", "view_table",    "report",
};

static bool takes(const char **at, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0)
        return false;
    *at += n;
    return true;
}

/* import { a, b } from './x.js'   const { a, b } = MODULE_x */
static void add_import(struct strbuf *out, const char *line)
{
    const char *from = strstr(line, " from './"), *end = from ? strstr(from, ".js'") : NULL;
    if (!end)
        return;
    const char *what = line + strlen("import ");
    takes(&what, "* as ");
    strbuf_puts(out, "const ");
    strbuf_add(out, what, (size_t)(from - what));
    from += strlen(" from './");
    strbuf_printf(out, " = MODULE_%.*s", (int)(end - from), from);
}

/* Appends the line without `export`, and the name that it exports to the list. */
static void add_export(struct strbuf *out, struct strbuf *names, const char *line)
{
    static const char *const words[] = {"async ", "function ", "const ", "class "};
    const char *rest = line, *name;
    takes(&rest, "export ");
    name = rest;
    for (size_t i = 0; i < COUNT_OF(words); i++)
        takes(&name, words[i]);
    size_t len = strcspn(name, " (={");
    strbuf_puts(out, rest);
    strbuf_printf(names, "%s%.*s", names->len ? ", " : "", (int)len, name);
}

void sweep_report_script_module(struct strbuf *out, const char *name, const char *text, size_t len)
{
    AUTO(free) char *copy = xstrndup(text, len);
    AUTO(strbuf) struct strbuf names = {0};
    strbuf_printf(out, "const MODULE_%s = (() => {\n", name);
    for (char *at = copy, *line; (line = strsep(&at, "\n"));) {
        if (strncmp(line, "import ", strlen("import ")) == 0)
            add_import(out, line);
        else if (strncmp(line, "export ", strlen("export ")) == 0)
            add_export(out, &names, line);
        else
            strbuf_puts(out, line);
        strbuf_putc(out, '\n');
    }
    strbuf_printf(out, "return { %s }\n})()\n", strbuf_str(&names));
}

int sweep_report_script(struct strbuf *out, const struct serve_files *files, struct err *e)
{
    AUTO(strbuf) struct strbuf all = {0};
    const struct serve_file *d3 = serve_files_find(files, "d3.min.js");
    if (!d3)
        return err_set(e, -ENOENT, "d3.min.js is missing");
    /* d3 looks for a module system in `this`, which a module does not have. */
    strbuf_puts(&all, "(function () {\n");
    strbuf_add(&all, d3->bytes, d3->len);
    strbuf_puts(&all, "\n}).call(globalThis)\n");
    for (size_t i = 0; i < COUNT_OF(modules); i++) {
        AUTO(free) char *name = xasprintf("%s.js", modules[i]);
        const struct serve_file *f = serve_files_find(files, name);
        if (!f)
            return err_set(e, -ENOENT, "%s is missing", name);
        sweep_report_script_module(&all, modules[i], f->bytes, f->len);
    }
    report_text_script(out, strbuf_str(&all), all.len);
    return 0;
}
