#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "collectives/bench/cmd/cmd_bench_diff.h"
#include "collectives/bench/cmd/cmd_bench_internal.h"
#include "collectives/bench/hardware_facts.h"
#include "common/byte_size.h"
#include "common/json.h"
#include "common/log.h"

void cmd_bench_print(const struct strbuf *text)
{
    fwrite(strbuf_str(text), 1, text->len, stdout);
    fflush(stdout);
}

/* Shows a progress line, which the next output overwrites. */
static void on_begin(void *arg, uint64_t bytes)
{
    const struct cmd_bench_printer *p = arg;
    char size[32];
    if (p->shows_progress)
        fprintf(stderr, "%s of %s …          \r", bench_name(&p->o->bench),
                byte_size_format(size, sizeof size, bytes));
}

static void on_row(void *arg, const struct bench_report_row *row)
{
    struct cmd_bench_printer *p = arg;
    AUTO(strbuf) struct strbuf text = {0}, wrong = {0};
    for (int i = 0; i < 2; i++)
        if (row->placement[i].busbw > p->best.busbw) {
            p->best.busbw = row->placement[i].busbw;
            p->best.bytes = row->bytes;
        }
    p->best.largest_bytes = row->bytes > p->best.largest_bytes ? row->bytes : p->best.largest_bytes;
    if (p->shows_progress)
        fputs("                                        \r", stderr);
    if (p->json)
        bench_report_json_row(p->json, row);
    if (p->nccl_tests)
        bench_report_json_row(p->nccl_tests, row);
    if (p->o->form == CMD_BENCH_TABLE)
        bench_report_row_text(&text, &p->head, row);
    else if (p->o->form == CMD_BENCH_CSV)
        bench_report_csv_row(&text, row);
    cmd_bench_print(&text);
    bench_report_wrong_text(&wrong, row, p->ranks);
    AUTO(free) char *lines = strbuf_take(&wrong);
    for (char *at = lines, *line; (line = strsep(&at, "\n"));)
        if (*line)
            log_warn("%s", line);
}

void cmd_bench_printer_start(struct cmd_bench_printer *p, char **argv, struct drover_comm *c)
{
    const struct bench_opts *o = &p->o->bench;
    p->head = (struct bench_report_head){
        .version = comm_backend(c)->version(comm_inner(c)),
        .backend = drover_comm_backend(c),
        .coll = bench_name(o),
        .ranks = p->ranks,
        .groups = p->groups,
        .min_bytes = o->min_bytes,
        .max_bytes = o->max_bytes,
        .step = o->factor ? (uint64_t)o->factor : o->step_bytes,
        .step_is_factor = o->factor > 0,
        .warmups = o->warmups,
        .iters = o->iters,
        .checks = o->checks,
        .agg = o->agg,
        .blocking = o->blocking,
        .graph = o->graph,
        .unalign = o->unalign,
        .cpu_time = o->cpu_time,
        .stamps = p->o->stamps,
        .per_iter = p->o->per_iter,
        .skip = p->o->skip,
        .args = argv,
    };
    AUTO(strbuf) struct strbuf text = {0};
    if (p->o->form == CMD_BENCH_JSON || p->o->save || p->o->baseline)
        p->json = bench_report_json_new(&p->head, p->devices, false);
    if (p->o->json_file)
        p->nccl_tests = bench_report_json_new(&p->head, p->devices, true);
    if (p->o->form == CMD_BENCH_TABLE)
        bench_report_head_text(&text, &p->head, p->devices);
    else if (p->o->form == CMD_BENCH_CSV)
        bench_report_csv_titles(&text);
    cmd_bench_print(&text);
}

/* Like nccl-tests, overwrites nothing: if FILE exists, writes FILE.0, FILE.1, … */
static int write_nccl_tests(struct cmd_bench_printer *p, const struct bench_report_summary *summary,
                            struct err *e)
{
    AUTO(free) char *path = xstrdup(p->o->json_file);
    FILE *f;
    for (int i = 0; !(f = fopen(path, "wxe")); i++) {
        if (errno != EEXIST)
            return err_set(e, -errno, "-J '%s': %s", path, strerror(errno));
        free(path);
        path = xasprintf("%s.%d", p->o->json_file, i);
    }
    AUTO(free) char *document = bench_report_json_end(p->nccl_tests, summary);
    int bad = fprintf(f, "%s\n", document) < 0;
    bad |= fclose(f) != 0;
    return bad ? err_set(e, -EIO, "-J '%s': %s", path, strerror(errno)) : 0;
}

/* Compares with --baseline before --save writes: both may have the same name. */
static int compare_and_save(struct cmd_bench_printer *p, const char *document, struct err *e)
{
    const struct cmd_bench_opts *o = p->o;
    const char *coll = bench_name(&o->bench);
    if (o->baseline) {
        AUTO(free) char *path = cmd_bench_diff_path(o->baseline, coll, p->devices, p->ranks);
        AUTO(json) json_t *before = NULL, *after = NULL;
        AUTO(strbuf) struct strbuf text = {0};
        int rc = cmd_bench_diff_load(&before, path, e);
        if (rc == 0)
            rc = json_parse(&after, document, strlen(document), e);
        if (rc == 0)
            rc = cmd_bench_diff_show(&text, before, after, o->tolerance, e);
        if (rc < 0)
            return err_wrap(e, "--baseline");
        fputs(strbuf_str(&text), o->form == CMD_BENCH_TABLE ? stdout : stderr);
        p->failed |= rc > 0;
    }
    if (!o->save)
        return 0;
    AUTO(free) char *path = cmd_bench_diff_path(o->save, coll, p->devices, p->ranks);
    return cmd_bench_diff_save(path, document, e) < 0 ? err_wrap(e, "--save") : 0;
}

int cmd_bench_printer_finish(struct cmd_bench_printer *p,
                             const struct bench_report_summary *summary, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    AUTO(free) char *document = p->json ? bench_report_json_end(p->json, summary) : NULL;
    if (p->o->form == CMD_BENCH_JSON)
        strbuf_printf(&text, "%s\n", document);
    if (p->o->form == CMD_BENCH_TABLE)
        bench_report_summary_text(&text, summary);
    cmd_bench_print(&text);
    struct rusage used;
    char peak[32];
    if (p->o->memory && getrusage(RUSAGE_SELF, &used) == 0)
        fprintf(stderr, "memory: peak of rank 0's process: %s\n",
                byte_size_format(peak, sizeof peak, (uint64_t)used.ru_maxrss * 1024));
    int rc = p->nccl_tests ? write_nccl_tests(p, summary, e) : 0;
    return rc == 0 && document ? compare_and_save(p, document, e) : rc;
}

static json_t *verdict_json(const struct verdict *v, const struct verdict_run *best)
{
    json_t *reasons = json_array();
    for (int i = 0; i < v->reason_count; i++)
        json_array_append_new(reasons, json_string(v->reasons[i]));
    return json_pack("{s:b, s:f, s:f, s:f, s:f, s:s, s:o}", "pass", v->pass, "busbw_gbps",
                     best->busbw, "expected_low_gbps", v->low, "expected_high_gbps", v->high,
                     "percent", v->percent, "limit", v->hop, "reasons", reasons);
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
    if (p->json)
        bench_report_json_set(p->json, "verdict", verdict_json(&v, &p->best));
    p->failed = !v.pass;
    return 0;
}

struct bench_sink cmd_bench_printer_sink(struct cmd_bench_printer *p)
{
    return (struct bench_sink){on_row, on_begin, p};
}

void cmd_bench_printer_close(struct cmd_bench_printer *p)
{
    bench_report_json_free(p->json);
    bench_report_json_free(p->nccl_tests);
}
