#include "serve/report/cmd_report.h"

#include <stdio.h>

#include "common/byte_size.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/opt.h"
#include "hpo/cmd/hpo_commands.h"
#include "launcher/report/report_file.h"
#include "launcher/report/report_text.h"
#include "serve/data/serve_files.h"
#include "serve/data/serve_sweeps.h"
#include "serve/report/sweep_report.h"
#include "serve/report/sweep_report_data.h"
#include "serve/report/sweep_report_script.h"

struct options {
    const char *root, *output;
    bool anonymous;
};

static const struct opt rows[] = {
    OPT_STR(0, "dir", "D", "directory of all sweeps (default: sweeps)", struct options, root),
    OPT_STR('o', "output", "FILE", "file.html or file.md (default: NAME.html)", struct options,
            output),
    OPT_FLAG(0, "anonymous", "remove names of hosts and users, paths and addresses", struct options,
             anonymous),
    OPT_END,
};

/* Without the pages, for example without d3, the report has its tables and texts. */
static void add_pages(struct strbuf *data, struct strbuf *scripts, struct strbuf *style,
                      struct serve_sweep *s, struct report_anonymous *a)
{
    struct err e = {0};
    AUTO(serve_files) struct serve_files *files = NULL;
    const struct serve_file *css = NULL;
    if (serve_files_open(&files, &e) < 0 || sweep_report_script(scripts, files, &e) < 0) {
        strbuf_reset(scripts);
        log_warn("the report has no plots: %s", e.text);
        return;
    }
    css = serve_files_find(files, "style.css");
    if (css)
        report_text_script(style, css->bytes, css->len);
    sweep_report_data(data, s, a);
}

static int run(char **words, void *into, struct err *e)
{
    const struct options *o = into;
    AUTO(free) char *path = o->output ? xstrdup(o->output) : xasprintf("%s.html", words[0]);
    AUTO(free) char *title = xasprintf("%s · drover report", words[0]);
    AUTO(serve_sweeps) struct serve_sweeps *sweeps = serve_sweeps_new(o->root, NULL);
    AUTO(report_anonymous)
    struct report_anonymous *a = o->anonymous ? report_anonymous_new() : NULL;
    AUTO(strbuf) struct strbuf data = {0}, scripts = {0}, style = {0};
    size_t bytes;
    enum report_form form;
    struct serve_sweep *s;
    int rc = report_file_form(&form, path, e);
    if (rc < 0 || (rc = serve_sweeps_get(&s, sweeps, words[0], e)) < 0)
        return rc;
    if (a)
        sweep_report_names(a, s->reader);
    AUTO(report_document) struct report_document *d = report_document_new(title, a);
    sweep_report(d, s, clock_ms_of(CLOCK_REALTIME));
    if (form == REPORT_FORM_HTML)
        add_pages(&data, &scripts, &style, s, a);
    const struct report_html html = {
        .style = strbuf_str(&style), .data = &data, .scripts = scripts.len ? &scripts : NULL};
    if ((rc = report_file_write(&bytes, path, d, &html, e)) < 0)
        return rc;
    char size[32];
    printf("drover report: %s (%s)\n", path, byte_size_format(size, sizeof size, bytes));
    return 0;
}

int cmd_report(int argc, char **argv)
{
    static const struct command command = {
        .help =
            {"drover report", "NAME [-o FILE] [--anonymous]",
             "Writes a sweep as one file, which can be mailed and opened without a network: the "
             "question, the best trial with its command, plots, importance, cost, failures, "
             "machines, and how to run it again.",
             "drover report digits\ndrover report digits -o digits.md --anonymous"},
        .options = rows,
        HPO_COMMAND_SWEEP(1),
        .run = run};
    struct options o = {.root = "sweeps"};
    return command_run(&command, &o, argc, argv);
}
