#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "collectives/bench/cmd/cmd_bench_internal.h"
#include "collectives/bench/hardware_facts.h"
#include "common/byte_size.h"
#include "common/json.h"
#include "common/log.h"

int cmd_bench_print(const struct strbuf *text, struct err *e)
{
    bool written = fwrite(strbuf_str(text), 1, text->len, stdout) == text->len;
    return fflush(stdout) == 0 && written ? 0 : err_set(e, -errno, "stdout: %s", strerror(errno));
}

/* Keeps the first error of writing. The measurement continues. */
static void keep(struct cmd_bench_printer *p, int rc, const struct err *e)
{
    if (rc < 0 && p->write_error.code == 0)
        p->write_error = *e;
}

/* Adds a row to the documents, or ends them if it is NULL; `why` is the failure that ended the run
 * early, or NULL. */
static void write_documents(struct cmd_bench_printer *p, const struct bench_report_row *row,
                            const struct err *why)
{
    for (int i = 0; i < 2; i++) {
        struct bench_report_json *j = p->documents[i].json;
        struct json_stream *out = p->documents[i].out;
        struct err e = {0};
        AUTO(json) json_t *item = row && j ? bench_report_json_row(j, row) : NULL;
        if (i == 0 && item && p->rows)
            json_array_append(p->rows, item);
        if (!out)
            continue;
        AUTO(json) json_t *tail = bench_report_json_tail(j, &p->so_far, why ? why->text : NULL);
        keep(p, item ? json_stream_add(out, item, tail, &e) : json_stream_end(out, tail, &e), &e);
    }
}

/* Shows a progress line, which the next output overwrites. */
void cmd_bench_printer_begin(void *arg, uint64_t bytes)
{
    const struct cmd_bench_printer *p = arg;
    char size[32];
    if (p->shows_progress)
        fprintf(stderr, "%s of %s …          \r", bench_name(&p->o->bench),
                byte_size_format(size, sizeof size, bytes));
}

void cmd_bench_printer_row(void *arg, const struct bench_report_row *row)
{
    struct cmd_bench_printer *p = arg;
    struct err e = {0};
    AUTO(strbuf) struct strbuf text = {0}, wrong = {0};
    for (int i = 0; i < 2; i++)
        if (row->placement[i].busbw > p->best.busbw) {
            p->best.busbw = row->placement[i].busbw;
            p->best.bytes = row->bytes;
        }
    p->best.largest_bytes = row->bytes > p->best.largest_bytes ? row->bytes : p->best.largest_bytes;
    if (p->shows_progress)
        fputs("                                        \r", stderr);
    p->so_far = row->so_far;
    p->so_far.min_busbw = p->o->min_busbw;
    write_documents(p, row, NULL);
    if (p->o->form == CMD_BENCH_TABLE)
        bench_report_row_text(&text, &p->head, row);
    else if (p->o->form == CMD_BENCH_CSV)
        bench_report_csv_row(&text, row);
    keep(p, cmd_bench_print(&text, &e), &e);
    bench_report_wrong_text(&wrong, row, p->ranks);
    AUTO(free) char *lines = strbuf_take(&wrong);
    for (char *at = lines, *line; (line = strsep(&at, "\n"));)
        if (*line)
            log_warn("%s", line);
}

static int begin_document(struct cmd_bench_printer *p, int i, struct err *e)
{
    const struct bench_report_json *j = p->documents[i].json;
    AUTO(json) json_t *tail = bench_report_json_tail(j, &p->so_far, NULL);
    return json_stream_begin(p->documents[i].out, bench_report_json_head(j),
                             bench_report_json_list(j), tail, e);
}

/* Opens the documents that the options name. This is done before anything is measured. */
static int start_documents(struct cmd_bench_printer *p, struct err *e)
{
    const struct cmd_bench_opts *o = p->o;
    int rc = 0;
    bool keeps = o->save || o->baseline || o->report;
    if (o->form == CMD_BENCH_JSON || keeps)
        p->documents[0].json = bench_report_json_new(&p->head, p->devices, false);
    p->rows = keeps ? json_array() : NULL;
    if (o->baseline) {
        AUTO(free)
        char *path = cmd_bench_diff_path(o->baseline, bench_name(&o->bench), p->devices, p->ranks);
        if (cmd_bench_diff_load(&p->baseline, path, e) < 0) {
            e->code = -EINVAL;
            return err_wrap(e, "--baseline");
        }
    }
    if (o->json_file) {
        if ((rc = json_stream_open_file(&p->documents[1].out, o->json_file, e)) < 0)
            return err_wrap(e, "-J");
        p->documents[1].json = bench_report_json_new(&p->head, p->devices, true);
        rc = begin_document(p, 1, e);
    }
    if (rc == 0 && o->form == CMD_BENCH_JSON) {
        p->documents[0].out = json_stream_open_stdout();
        rc = begin_document(p, 0, e);
    }
    return rc;
}

int cmd_bench_printer_start(struct cmd_bench_printer *p, char **argv, struct drover_comm *c,
                            struct err *e)
{
    p->head = (struct bench_report_head){
        .o = &p->o->bench,
        .version = comm_backend(c)->version(comm_inner(c)),
        .backend = drover_comm_backend(c),
        .ranks = p->ranks,
        .groups = p->groups,
        .stamps = p->o->stamps,
        .per_iter = p->o->per_iter,
        .skip = p->o->skip,
        .args = argv,
    };
    AUTO(strbuf) struct strbuf text = {0};
    int rc = start_documents(p, e);
    if (p->o->form == CMD_BENCH_TABLE)
        bench_report_head_text(&text, &p->head, p->devices);
    else if (p->o->form == CMD_BENCH_CSV)
        bench_report_csv_titles(&text);
    return rc < 0 ? rc : cmd_bench_print(&text, e);
}

void cmd_bench_printer_fail(struct cmd_bench_printer *p, const struct err *why)
{
    write_documents(p, NULL, why);
}

/* Compares with --baseline and then saves for --save. The order matters, since both may have the
 * same name. */
static int compare_and_save(struct cmd_bench_printer *p, const json_t *document, struct err *e)
{
    const struct cmd_bench_opts *o = p->o;
    if (o->baseline) {
        AUTO(strbuf) struct strbuf text = {0};
        int rc = cmd_bench_diff_show(&text, p->baseline, document, o->tolerance, e);
        if (rc < 0)
            return err_wrap(e, "--baseline");
        fputs(strbuf_str(&text), o->form == CMD_BENCH_TABLE ? stdout : stderr);
        p->failed |= rc > 0;
    }
    if (!o->save)
        return 0;
    AUTO(free)
    char *path = cmd_bench_diff_path(o->save, bench_name(&o->bench), p->devices, p->ranks);
    AUTO(free) char *written = json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    return cmd_bench_diff_save(path, written, e) < 0 ? err_wrap(e, "--save") : 0;
}

int cmd_bench_printer_finish(struct cmd_bench_printer *p,
                             const struct bench_report_summary *summary, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    struct bench_report_json *json = p->documents[0].json;
    AUTO(json)
    json_t *document = p->rows ? bench_report_json_document(json, p->rows, summary) : NULL;
    struct err failure = {0};
    if (p->o->form == CMD_BENCH_TABLE)
        bench_report_summary_text(&text, summary);
    keep(p, cmd_bench_print(&text, &failure), &failure);
    struct rusage used;
    char peak[32];
    if (p->o->memory && getrusage(RUSAGE_SELF, &used) == 0)
        fprintf(stderr, "memory: peak of rank 0's process: %s\n",
                byte_size_format(peak, sizeof peak, (uint64_t)used.ru_maxrss * 1024));
    p->so_far = *summary;
    write_documents(p, NULL, NULL);
    int rc = document ? compare_and_save(p, document, e) : 0;
    if (rc == 0 && p->o->report)
        rc = cmd_bench_report(p->o->report, document, p->head.args, e);
    if (rc == 0 && p->write_error.code < 0) {
        *e = p->write_error;
        rc = e->code;
    }
    return rc;
}

static json_t *verdict_json(const struct verdict *v, const struct verdict_run *best)
{
    json_t *reasons = json_array();
    for (int i = 0; i < v->reason_count; i++)
        json_array_append_new(reasons, json_string(v->reasons[i]));
    return json_pack("{s:b, s:f, s:f, s:f, s:f, s:s, s:s, s:s, s:o}", "pass", v->pass, "busbw_gbps",
                     best->busbw, "expected_low_gbps", v->low, "expected_high_gbps", v->high,
                     "percent", v->percent, "limit", v->hop, "source", v->source, "date", v->date,
                     "reasons", reasons);
}

int cmd_bench_printer_verdict(struct cmd_bench_printer *p, struct drover *d, struct drover_comm *c,
                              struct strbuf *text)
{
    AUTO(free) struct verdict_facts *all = xcalloc((size_t)p->ranks, sizeof *all);
    struct verdict_facts mine;
    struct verdict v;
    hardware_facts_read(&mine, &p->devices[drover_rank(d)], comm_backend(c)->device != NULL);
    int rc = comm_gather(c, &mine, sizeof mine, all, p->o->bench.wait_ms);
    if (rc < 0 || drover_rank(d) != 0)
        return rc;
    int n = 0; /* the best row is from rank 0's group */
    for (int r = 0; r < p->ranks; r++)
        if (p->devices[r].group == p->devices[0].group)
            all[n++] = all[r];
    p->best.coll = p->o->bench.coll;
    p->best.expect = p->o->expect;
    verdict_of(&v, all, n, &p->best);
    verdict_text(text, &v, &p->best);
    if (p->documents[0].json)
        bench_report_json_set(p->documents[0].json, "verdict", verdict_json(&v, &p->best));
    p->failed = !v.pass;
    return 0;
}

void cmd_bench_printer_close(struct cmd_bench_printer *p)
{
    for (int i = 0; i < 2; i++) {
        json_stream_close(p->documents[i].out);
        bench_report_json_free(p->documents[i].json);
    }
    json_decref(p->rows);
    json_decref(p->baseline);
}
