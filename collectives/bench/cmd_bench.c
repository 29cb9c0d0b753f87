#include "collectives/bench/cmd_bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "collectives/bench/bench.h"
#include "collectives/bench/bench_job.h"
#include "collectives/bench/bench_pairs.h"
#include "collectives/bench/busbw.h"
#include "collectives/bench/cmd_bench_diff.h"
#include "collectives/bench/cmd_bench_opts.h"
#include "collectives/bench/hardware_facts.h"
#include "collectives/drover.h"
#include "common/byte_size.h"
#include "common/json.h"
#include "common/log.h"
#include "common/opt.h"
#include "launcher/client/client_internal.h"

enum { STATUS_USAGE = 2 };

/* What we tell our own ranks: that they are ours, and whether someone looks at our stderr. */
static const char own_env[] = "DROVER_BENCH_OWN=1", watched_env[] = "DROVER_BENCH_WATCHED=1",
                  color_env[] = "DROVER_BENCH_COLOR=1";

/* What ranks on other nodes must have too: all ranks do the same. */
static const char *const passed_env[] = {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK",
                                         "NCCL_TESTS_DEVICE"};

/* What rank 0 prints with. */
struct printer {
    const struct cmd_bench_opts *o;
    struct bench_report_head head;
    int ranks;
    int groups;
    struct bench_report_json *json, *nccl_tests; /* NULL: not wanted */
    bool watched;
    struct verdict_run best; /* the row of the highest busbw */
    bool failed;             /* the verdict */
};

static void print(const struct strbuf *text)
{
    fwrite(strbuf_str(text), 1, text->len, stdout);
    fflush(stdout);
}

/* A line that the next one takes the place of. */
static void on_begin(void *arg, uint64_t bytes)
{
    const struct printer *p = arg;
    char size[32];
    if (p->watched)
        fprintf(stderr, "%s of %s …          \r", bench_name(&p->o->bench),
                byte_size_format(size, sizeof size, bytes));
}

static void on_row(void *arg, const struct bench_report_row *row)
{
    struct printer *p = arg;
    AUTO(strbuf) struct strbuf text = {0}, wrong = {0};
    for (int i = 0; i < 2; i++)
        if (row->placement[i].busbw > p->best.busbw) {
            p->best.busbw = row->placement[i].busbw;
            p->best.bytes = row->bytes;
        }
    if (p->watched)
        fputs("                                        \r", stderr);
    if (p->json)
        bench_report_json_row(p->json, row);
    if (p->nccl_tests)
        bench_report_json_row(p->nccl_tests, row);
    if (p->o->form == CMD_BENCH_TABLE)
        bench_report_row_text(&text, &p->head, row);
    else if (p->o->form == CMD_BENCH_CSV)
        bench_report_csv_row(&text, row);
    print(&text);
    bench_report_wrong_text(&wrong, row, p->ranks);
    AUTO(free) char *lines = strbuf_take(&wrong);
    for (char *at = lines, *line; (line = strsep(&at, "\n"));)
        if (*line)
            log_warn("%s", line);
}

static void print_head(struct printer *p, char **argv, struct drover_comm *c,
                       const struct bench_report_device *devices)
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
        p->json = bench_report_json_new(&p->head, devices, false);
    if (p->o->json_file)
        p->nccl_tests = bench_report_json_new(&p->head, devices, true);
    if (p->o->form == CMD_BENCH_TABLE)
        bench_report_head_text(&text, &p->head, devices);
    else if (p->o->form == CMD_BENCH_CSV)
        bench_report_csv_titles(&text);
    print(&text);
}

/* nccl-tests writes over nothing: where the file is there, it takes FILE.0, FILE.1, … */
static int write_nccl_tests(struct printer *p, const struct bench_report_summary *foot,
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
    AUTO(free) char *document = bench_report_json_end(p->nccl_tests, foot);
    int bad = fprintf(f, "%s\n", document) < 0;
    bad |= fclose(f) != 0;
    return bad ? err_set(e, -EIO, "-J '%s': %s", path, strerror(errno)) : 0;
}

/* --baseline, then --save: both may name the same. */
static int keep(struct printer *p, const char *document, const struct bench_report_device *devices,
                struct err *e)
{
    const struct cmd_bench_opts *o = p->o;
    const char *coll = bench_name(&o->bench);
    if (o->baseline) {
        AUTO(free) char *path = cmd_bench_diff_path(o->baseline, coll, devices, p->ranks);
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
    AUTO(free) char *path = cmd_bench_diff_path(o->save, coll, devices, p->ranks);
    return cmd_bench_diff_save(path, document, e) < 0 ? err_wrap(e, "--save") : 0;
}

static int print_foot(struct printer *p, const struct bench_report_summary *foot,
                      const struct bench_report_device *devices, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    AUTO(free) char *document = p->json ? bench_report_json_end(p->json, foot) : NULL;
    if (p->o->form == CMD_BENCH_JSON)
        strbuf_printf(&text, "%s\n", document);
    if (p->o->form == CMD_BENCH_TABLE)
        bench_report_summary_text(&text, foot);
    print(&text);
    struct rusage used;
    char peak[32];
    if (p->o->memory && getrusage(RUSAGE_SELF, &used) == 0)
        fprintf(stderr, "memory: rank 0's process took %s at most\n",
                byte_size_format(peak, sizeof peak, (uint64_t)used.ru_maxrss * 1024));
    int rc = p->nccl_tests ? write_nccl_tests(p, foot, e) : 0;
    return rc == 0 && document ? keep(p, document, devices, e) : rc;
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

/* Collective: every rank tells what it sees of its machine. */
static int judge(struct printer *p, struct drover *d, struct drover_comm *c,
                 const struct bench_report_device *devices, struct strbuf *text)
{
    AUTO(free) struct verdict_facts *all = xcalloc((size_t)p->ranks, sizeof *all);
    struct verdict_facts mine;
    struct verdict v;
    hardware_facts_read(&mine, &devices[drover_rank(d)], comm_backend(c)->device != NULL);
    int rc = comm_gather(c, &mine, sizeof mine, all, p->o->bench.wait_ms);
    if (rc < 0 || drover_rank(d) != 0)
        return rc;
    int n = 0; /* the best row is of rank 0's group */
    for (int r = 0; r < p->ranks; r++)
        if (devices[r].group == devices[0].group)
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

/* Whether each group can do it; all ranks find the same. */
static int check_ranks(const struct bench_opts *o, int ranks, struct err *e)
{
    int least, size = 1;
    (void)rank_groups_groups(&o->split, ranks, &least);
    if (collective_has_root(o->coll) && o->root >= least)
        return err_set(e, -EINVAL, "-r %d is none of the %d ranks", o->root, least);
    for (int r = 0; r < ranks && o->hypercube && (size & (size - 1)) == 0; r++)
        size = rank_groups_group(NULL, &o->split, ranks, r);
    if ((size & (size - 1)) == 0)
        return 0;
    err_set(e, -EINVAL, "hypercube is for 2, 4, 8, … ranks, and %s has %d",
            o->split.op ? "a group" : "this job", size);
    return err_hint(e, "all_gather moves the same data over any number of ranks");
}

static void print_pairs_json(const struct pairs_map *m, const struct pairs_slow *s)
{
    json_t *nodes = json_array(), *rates = json_array(), *us = json_array();
    json_t *slow = json_array(), *links = json_array();
    for (int i = 0; i < m->n; i++) {
        json_t *row = json_array(), *lat = json_array();
        for (int j = 0; j < m->n; j++) {
            json_array_append_new(row, i == j ? json_null() : json_real(m->rates[i * m->n + j]));
            json_array_append_new(lat,
                                  i == j ? json_null() : json_real(m->latency_us[i * m->n + j]));
        }
        json_array_append_new(nodes, json_string(m->names[i]));
        json_array_append_new(rates, row);
        json_array_append_new(us, lat);
    }
    for (int i = 0; i < s->node_count; i++)
        json_array_append_new(slow, json_integer(s->nodes[i]));
    for (int i = 0; i < s->link_count; i++)
        json_array_append_new(links, json_pack("[i, i]", s->links[i][0], s->links[i][1]));
    AUTO(json)
    json_t *root = json_pack("{s:i, s:o, s:o, s:o, s:f, s:o, s:o}", "schema", 1, "nodes", nodes,
                             "gbps", rates, "latency_us", us, "usual_gbps", s->usual, "slow_nodes",
                             slow, "slow_links", links);
    json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    putchar('\n');
}

static bool prints_color(void)
{
    return isatty(STDOUT_FILENO) || getenv("DROVER_BENCH_COLOR");
}

/* Returns 1 where something is slow. */
static int print_pairs(const struct bench_pairs *p, const struct cmd_bench_opts *o,
                       const struct bench_report_device *devices)
{
    AUTO(free) const char **names = xcalloc((size_t)p->n, sizeof *names);
    AUTO(strv) char **own = NULL;
    for (int i = 0; i < p->n; i++) {
        bool alone = p->n == 1 || strcmp(devices[p->ranks[0]].host, devices[p->ranks[1]].host) != 0;
        strv_push(&own,
                  alone ? xstrdup(devices[p->ranks[i]].host) : xasprintf("rank %d", p->ranks[i]));
        names[i] = own[i];
    }
    struct pairs_map m = {p->rates, p->lat_us, names, p->n, prints_color()};
    struct pairs_slow slow;
    AUTO(strbuf) struct strbuf text = {0};
    pairs_judge(&slow, p->rates, p->n);
    if (o->form == CMD_BENCH_JSON)
        print_pairs_json(&m, &slow);
    else
        pairs_show(&text, &m, &slow);
    print(&text);
    int found = slow.node_count + slow.link_count > 0;
    pairs_slow_free(&slow);
    return found;
}

static int run_pairs(struct drover *d, struct drover_comm *c, const struct cmd_bench_opts *o,
                     struct err *e)
{
    int size = drover_size(d);
    AUTO(free) struct bench_report_device *devices = xcalloc((size_t)size, sizeof *devices);
    struct bench_pairs p = {0};
    int rc = bench_devices(&o->bench, d, c, devices, e);
    if (rc == 0)
        rc = bench_pairs_run(&p, &o->bench, d, c, devices, e);
    if (rc == 0 && drover_rank(d) == 0)
        rc = print_pairs(&p, o, devices);
    bench_pairs_free(&p);
    return rc;
}

/* What does not fit into the GPUs' memory is not tried; all ranks find the same. */
static void lower_max(struct bench_opts *o, const struct bench_report_device *devices, int n,
                      bool says)
{
    uint64_t room = bench_max_bytes(o, devices, n);
    if (o->max_bytes <= room)
        return;
    char before[32], after[32];
    if (says)
        log_warn("-e %s is lowered to %s: the GPUs' memory holds no more",
                 byte_size_format(before, sizeof before, o->max_bytes),
                 byte_size_format(after, sizeof after, room));
    o->max_bytes = room;
    o->min_bytes = o->min_bytes < room ? o->min_bytes : room;
}

static int run_rank(struct drover *d, struct drover_comm *c, struct cmd_bench_opts *o, char **argv,
                    struct err *e)
{
    int rank = drover_rank(d), size = drover_size(d), least;
    int rc = check_ranks(&o->bench, size, e);
    if (rc < 0)
        return rc;
    AUTO(free) struct bench_report_device *devices = xcalloc((size_t)size, sizeof *devices);
    struct printer p = {.o = o, .ranks = size};
    p.groups = rank_groups_groups(&o->bench.split, size, &least);
    p.watched = isatty(STDERR_FILENO) || getenv("DROVER_BENCH_WATCHED");
    struct bench_report_summary foot = {0};
    AUTO(strbuf) struct strbuf verdict = {0};
    rc = bench_devices(&o->bench, d, c, devices, e);
    if (rc == 0)
        lower_max(&o->bench, devices, size, rank == 0);
    if (rc == 0 && rank == 0)
        print_head(&p, argv, c, devices);
    const struct bench_sink sink = {on_row, on_begin, &p};
    if (rc == 0)
        rc = bench_run(&o->bench, d, c, &sink, &foot, e);
    foot.min_busbw = o->min_busbw;
    if (rc == 0 && o->verdict && (rc = judge(&p, d, c, devices, &verdict)) < 0)
        *e = *client_err(d);
    if (rc == 0 && rank == 0)
        rc = print_foot(&p, &foot, devices, e);
    if (rc == 0 && o->form == CMD_BENCH_TABLE)
        print(&verdict);
    else if (rc == 0)
        fputs(strbuf_str(&verdict), stderr);
    bench_report_json_free(p.json);
    bench_report_json_free(p.nccl_tests);
    if (rc < 0)
        return rc;
    return rank == 0 && (foot.bad > 0 || !bench_report_has_samples(&foot) ||
                         p.failed); /* one rank's word; the others just end */
}

static const char *pick_backend(const struct drover *d)
{
    if (access("/dev/nvidiactl", F_OK) == 0) /* the driver's own; there wherever a GPU is */
        return "nccl";
    return drover_size(d) == 1 ? "self" : "mpi";
}

/* A rank of another launcher's was not started as -np and -g say. */
static int check_started(const struct drover *d, const struct cmd_bench_opts *o, struct err *e)
{
    int size = drover_size(d), rank = drover_rank(d);
    if (getenv("DROVER_BENCH_OWN"))
        return 0;
    if (o->np && o->np != size) {
        err_set(e, -EINVAL, "-np %d, but this is rank %d of %d already", o->np, rank, size);
        return err_hint(e, "leave -np to the launcher that started the ranks");
    }
    if (o->per_np == 1)
        return 0;
    err_set(e, -EINVAL, "-g times -t is %d, but a rank has one GPU and one thread", o->per_np);
    return err_hint(e, "start %d ranks for each that you started now, with -g 1 -t 1", o->per_np);
}

/* Leaves out what this backend has nothing for; rank 0 says so. */
static void fit(struct cmd_bench_opts *o, struct drover_comm *c)
{
    const struct backend *b = comm_backend(c);
    bool gpu = b->caps(comm_inner(c)) & BACKEND_REGISTERS, says = drover_comm_rank(c) == 0;
    if (says && o->bench.graph && !b->record)
        log_warn("-G %d: backend %s has no CUDA graphs; operations are started one by one",
                 o->bench.graph, b->name);
    if (says && o->bench.registration && !gpu)
        log_warn("-R %d: backend %s registers no buffers", o->bench.registration, b->name);
    if (says && (o->cta_policy[0] || o->stream_null) && !gpu)
        log_warn("-x and -y are for GPUs, and backend %s uses none", b->name);
    if (says && o->pairs && o->bench.split.op)
        log_warn("NCCL_TESTS_SPLIT: --pairs has every node meet every other");
    for (size_t i = 0; says && i < strv_len(o->notes); i++)
        log_warn("%s", o->notes[i]);
    o->bench.graph = b->record ? o->bench.graph : 0;
    o->bench.registration = gpu ? o->bench.registration : 0;
}

static int as_rank(struct drover *d, struct cmd_bench_opts *o, char **argv, struct err *e)
{
    int rc = check_started(d, o, e);
    if (rc < 0)
        return rc;
    if (o->cta_policy[0])
        setenv("NCCL_CTA_POLICY", o->cta_policy, true);
    struct drover_comm_opts co = {
        .backend = o->backend ? o->backend : pick_backend(d),
        .stream = o->stream_null ? NULL : BACKEND_OWN_STREAM,
        .device = o->first_device < 0 ? -1 : o->first_device + drover_local_rank(d),
        .open_ms = o->bench.wait_ms};
    struct drover_comm *c = NULL;
    rc = drover_comm_open(&c, d, &co);
    if (rc < 0) {
        *e = *client_err(d);
        return rc;
    }
    fit(o, c);
    rc = o->pairs ? run_pairs(d, c, o, e) : run_rank(d, c, o, argv, e);
    drover_comm_close(c);
    return rc;
}

static int start_job(char **argv, const struct cmd_bench_opts *o, struct err *e)
{
    AUTO(strv) char **env = NULL;
    struct bench_job b = {.argv = argv, .launch = o->launch, .ranks = cmd_bench_opts_ranks(o)};
    strv_push(&env, xstrdup(own_env));
    if (isatty(STDERR_FILENO))
        strv_push(&env, xstrdup(watched_env));
    if (isatty(STDOUT_FILENO))
        strv_push(&env, xstrdup(color_env));
    for (size_t i = 0; i < COUNT_OF(passed_env); i++)
        if (getenv(passed_env[i]))
            strv_push(&env, xasprintf("%s=%s", passed_env[i], getenv(passed_env[i])));
    b.env = env;
    if (o->per_np > 1)
        fprintf(stderr, "drover bench: %d ranks, one a GPU, for -g times -t = %d\n", b.ranks,
                o->per_np);
    int status = bench_job_run(&b, e);
    if (status >= 0)
        return status;
    err_print(e, "drover bench");
    return e->code == -EINVAL || e->code == -ENOENT ? STATUS_USAGE : 1;
}

static int run(int argc, char **argv, struct cmd_bench_opts *o)
{
    const struct cmd_bench_env env = {
        .inject = getenv("DROVER_BENCH_INJECT"),
        .split = getenv("NCCL_TESTS_SPLIT"),
        .split_mask = getenv("NCCL_TESTS_SPLIT_MASK"),
        .min_bw = getenv("NCCL_TESTS_MIN_BW"),
        .device = getenv("NCCL_TESTS_DEVICE"),
    };
    struct err e = {0};
    struct drover *d = NULL;
    int rc = cmd_bench_opts_read(o, argc - 1, argv + 1, &env, &e);
    if (rc == OPT_HELP)
        return 0;
    if (rc == 0 && drover_init(&d) < 0)
        rc = (e = *client_err(NULL)).code;
    if (rc < 0) {
        err_print(&e, "drover bench");
        return STATUS_USAGE;
    }
    if (client_is_rank(d)) {
        rc = as_rank(d, o, argv, &e);
        if (rc < 0)
            err_print(&e, "drover bench");
        rc = rc != 0;
    } else {
        rc = start_job(argv, o, &e);
    }
    drover_close(d);
    return rc;
}

int cmd_bench(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[2], "diff") == 0)
        return cmd_bench_diff(argc - 2, argv + 2);
    struct cmd_bench_opts o;
    int status = run(argc, argv, &o);
    cmd_bench_opts_free(&o);
    return status;
}
