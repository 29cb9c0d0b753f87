#include "collectives/cmd_bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bench.h"
#include "collectives/bench_job.h"
#include "collectives/busbw.h"
#include "collectives/drover.h"
#include "common/log.h"
#include "common/opt.h"
#include "common/size.h"
#include "launcher/client/client_inside.h"

enum { DEFAULT_BYTES = 32 << 20, DEFAULT_STEP = 1 << 20, STATUS_USAGE = 2 };

struct args {
    int ranks;
    const char *backend, *min, *max, *step, *type, *op, *root, *inject;
    int factor, iters, warmups, checks, average, blocking, timeout_s, gpus, threads;
    bool json, oversubscribe;
};

static const struct opt options[] = {
    OPT_INT(0, "np", "N", "ranks to start here (one a GPU, or one a core)", struct args, ranks),
    OPT_STR(0, "backend", "NAME", "nccl, mpi or self (nccl where there is a GPU, else mpi)",
            struct args, backend),
    OPT_STR('b', "minbytes", "SIZE", "smallest size (32M)", struct args, min),
    OPT_STR('e', "maxbytes", "SIZE", "largest size (32M)", struct args, max),
    OPT_STR('i', "stepbytes", "SIZE", "add so much from size to size (1M)", struct args, step),
    OPT_INT('f', "stepfactor", "N", "or multiply by so much", struct args, factor),
    OPT_INT('n', "iters", "N", "iterations timed (20)", struct args, iters),
    OPT_INT('w', "warmup_iters", "N", "iterations before, not timed (1)", struct args, warmups),
    OPT_INT('c', "check", "N", "iterations checked (1; 0: none)", struct args, checks),
    OPT_STR('d', "datatype", "TYPE", "int8 … f8e5m2, or all (float)", struct args, type),
    OPT_STR('o', "op", "OP", "sum, prod, min, max, avg, or all (sum)", struct args, op),
    OPT_STR('r', "root", "RANK", "root of broadcast, reduce, gather and scatter, or all (0)",
            struct args, root),
    OPT_INT('a', "average", "N", "time of 0 rank 0, 1 the mean, 2 the fastest, 3 the slowest (1)",
            struct args, average),
    OPT_INT('z', "blocking", "N", "after each iteration: 1 wait and barrier, 2 wait (0: nothing)",
            struct args, blocking),
    OPT_INT('g', "ngpus", "N", "GPUs of a rank; only 1", struct args, gpus),
    OPT_INT('t', "nthreads", "N", "threads of a rank; only 1", struct args, threads),
    OPT_INT('T', "timeout", "SECONDS", "give up when ranks wait for so long (300)", struct args,
            timeout_s),
    OPT_FLAG(0, "json", "one JSON document instead of the table", struct args, json),
    OPT_FLAG(0, "oversubscribe", "more ranks than cores are fine", struct args, oversubscribe),
    OPT_END,
};

static const char about[] =
    "Measures a collective as nccl-tests does: all_reduce, broadcast, reduce, all_gather, "
    "reduce_scatter, alltoall, gather, scatter, alltoallv or sendrecv. Started alone, it starts "
    "its ranks.";

/* The number of the word among names[0 … n-1], or -EINVAL with the nearest one as a hint. */
static int word(const char *what, const char *text, const char *const *names, int n, struct err *e)
{
    for (int i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    const char *near = opt_nearest(text, names, (size_t)n);
    err_set(e, -EINVAL, "there is no %s '%s'", what, text);
    return near ? err_hint(e, "%s", near) : -EINVAL;
}

/* A bit for the word, or all of them. */
static int words(unsigned *out, const char *what, const char *text, const char *const *names, int n,
                 struct err *e)
{
    if (strcmp(text, "all") == 0) {
        *out = (1U << n) - 1;
        return 0;
    }
    int i = word(what, text, names, n, e);
    if (i >= 0)
        *out = 1U << i;
    return i < 0 ? i : 0;
}

static int read_coll(enum backend_coll *out, const char *text, struct err *e)
{
    const char *names[BACKEND_BARRIER];
    for (int c = 0; c < BACKEND_BARRIER; c++)
        names[c] = backend_coll_name((enum backend_coll)c);
    AUTO(free) char *name = xstrdup(text);
    char *perf = strstr(name, "_perf");
    if (perf && perf[5] == '\0')
        *perf = '\0'; /* as the programs of nccl-tests are called */
    int c = word("collective", name, names, BACKEND_BARRIER, e);
    if (c < 0 && !e->hint[0])
        err_hint(e, "all_reduce, broadcast, reduce, all_gather, reduce_scatter, alltoall, gather, "
                    "scatter, alltoallv or sendrecv");
    if (c >= 0)
        *out = (enum backend_coll)c;
    return c < 0 ? c : 0;
}

static int read_sizes(struct bench_opts *o, const struct args *a, struct err *e)
{
    uint64_t min = DEFAULT_BYTES, max = DEFAULT_BYTES;
    o->step_bytes = DEFAULT_STEP;
    if (a->min && size_parse(&min, a->min, e) < 0)
        return err_wrap(e, "-b");
    if (a->max && size_parse(&max, a->max, e) < 0)
        return err_wrap(e, "-e");
    if (a->step && size_parse(&o->step_bytes, a->step, e) < 0)
        return err_wrap(e, "-i");
    if (a->min && !a->max && max < min)
        max = min;
    if (a->max && !a->min && min > max)
        min = max;
    if (min == 0 || min > max)
        return err_set(e, -EINVAL, "sizes from %" PRIu64 " to %" PRIu64 " bytes", min, max);
    if (max > SIZE_MAX / 4)
        return err_set(e, -ERANGE, "-e %s is more than any machine holds", a->max);
    o->min_bytes = min;
    o->max_bytes = max;
    o->factor = a->factor;
    if (a->factor < 0 || a->factor == 1 || (a->factor == 0 && o->step_bytes == 0))
        return err_set(e, -EINVAL, "sizes do not grow with these steps");
    return 0;
}

static int read_names(struct bench_opts *o, const struct args *a, struct err *e)
{
    const char *types[DROVER_TYPES], *ops[DROVER_OPS];
    for (int t = 0; t < DROVER_TYPES; t++)
        types[t] = backend_type_name((enum drover_type)t);
    for (int p = 0; p < DROVER_OPS; p++)
        ops[p] = backend_op_name((enum drover_op)p);
    int rc = words(&o->types, "type", a->type ? a->type : "float", types, DROVER_TYPES, e);
    if (rc == 0)
        rc = words(&o->ops, "operation", a->op ? a->op : "sum", ops, DROVER_OPS, e);
    if (rc < 0)
        return rc;
    if (a->root && strcmp(a->root, "all") == 0)
        o->root = BENCH_ROOT_ALL;
    else if (a->root && opt_int(&o->root, "-r", a->root, BENCH_ROOT_ALL, 1 << 20, e) < 0)
        return -EINVAL;
    return 0;
}

static int read_rest(struct bench_opts *o, const struct args *a, struct err *e)
{
    if (a->gpus != 1 || a->threads != 1) {
        err_set(e, -EINVAL, "a rank has one GPU and one thread");
        return err_hint(e, "-np N for N GPUs");
    }
    if (a->iters < 1 || a->warmups < 0 || a->checks < 0 || a->timeout_s < 1 || a->ranks < 0)
        return err_set(e, -EINVAL, "-n and -T are at least 1, -w, -c and -np at least 0");
    if (a->average < 0 || a->average >= STATS_PICKS || a->blocking < 0 || a->blocking > 2)
        return err_set(e, -EINVAL, "-a is 0 to 3, -z is 0 to 2");
    o->iters = a->iters;
    o->warmups = a->warmups;
    o->checks = a->checks;
    o->pick = (enum stats_pick)a->average;
    o->blocking = a->blocking;
    o->wait_ms = (int64_t)a->timeout_s * 1000;
    o->inject_rank = o->inject_element = -1;
    if (a->inject && sscanf(a->inject, "%d:%d", &o->inject_rank, &o->inject_element) != 2)
        return err_set(e, -EINVAL, "DROVER_BENCH_INJECT is '%s', no RANK:ELEMENT", a->inject);
    return 0;
}

/* `drover bench all_reduce -b 8` and `drover bench -b 8 all_reduce`. */
static int read_line(struct bench_opts *o, struct args *a, int argc, char **argv, struct err *e)
{
    const char *coll = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    int skip = coll ? 1 : 0, rest = 0;
    int rc = opt_parse(options, a, argc - skip, argv + skip, &rest, e);
    if (rc != 0)
        return rc;
    rest += skip;
    if (!coll && rest < argc)
        coll = argv[rest++];
    if (!coll) {
        err_set(e, -EINVAL, "no collective was named");
        return err_hint(e, "drover bench all_reduce -b 8 -e 128M -f 2");
    }
    if (rest < argc)
        return err_set(e, -EINVAL, "'%s' is one word too many", argv[rest]);
    rc = read_coll(&o->coll, coll, e);
    rc = rc < 0 ? rc : read_sizes(o, a, e);
    rc = rc < 0 ? rc : read_names(o, a, e);
    return rc < 0 ? rc : read_rest(o, a, e);
}

/* What rank 0 prints with. */
struct printer {
    struct report_json *json; /* NULL: the table */
};

static void print(struct strbuf *text)
{
    fwrite(strbuf_str(text), 1, text->len, stdout);
    fflush(stdout);
}

static void on_row(void *arg, const struct report_row *row)
{
    struct printer *p = arg;
    AUTO(strbuf) struct strbuf text = {0};
    if (p->json) {
        report_json_row(p->json, row);
        return;
    }
    report_row_text(&text, row);
    print(&text);
}

static void print_head(struct printer *p, const struct args *a, const struct bench_opts *o,
                       struct drover_comm *c, const struct report_device *devices, int ranks)
{
    struct report_head h = {
        .version = comm_backend(c)->version(comm_inner(c)),
        .backend = drover_comm_backend(c),
        .coll = backend_coll_name(o->coll),
        .ranks = ranks,
        .min_bytes = o->min_bytes,
        .max_bytes = o->max_bytes,
        .step = o->factor ? (uint64_t)o->factor : o->step_bytes,
        .step_is_factor = o->factor > 0,
        .warmups = o->warmups,
        .iters = o->iters,
        .checks = o->checks,
    };
    if (a->json) {
        p->json = report_json_new(&h, devices);
        return;
    }
    AUTO(strbuf) struct strbuf text = {0};
    report_head_text(&text, &h, devices);
    print(&text);
}

static void print_foot(struct printer *p, const struct report_foot *foot)
{
    AUTO(strbuf) struct strbuf text = {0};
    if (p->json) {
        AUTO(free) char *document = report_json_end(p->json, foot);
        strbuf_printf(&text, "%s\n", document);
        report_json_free(p->json);
    } else {
        report_foot_text(&text, foot);
    }
    print(&text);
}

static int run_rank(struct drover *d, struct drover_comm *c, const struct args *a,
                    const struct bench_opts *o, struct err *e)
{
    int rank = drover_rank(d), size = drover_size(d);
    if (busbw_has_root(o->coll) && o->root >= size)
        return err_set(e, -EINVAL, "-r %d is none of the %d ranks", o->root, size);
    AUTO(free) struct report_device *devices = xcalloc((size_t)size, sizeof *devices);
    struct printer p = {0};
    struct report_foot foot;
    int rc = bench_devices(d, c, devices, e);
    if (rc < 0)
        return rc;
    if (rank == 0)
        print_head(&p, a, o, c, devices, size);
    rc = bench_run(o, d, c, &(struct bench_sink){on_row, &p}, &foot, e);
    if (rc < 0) {
        report_json_free(p.json);
        return rc;
    }
    if (rank == 0)
        print_foot(&p, &foot);
    return rank == 0 && foot.bad > 0; /* one rank's word; the others just end */
}

static const char *pick_backend(const struct drover *d)
{
    if (access("/dev/nvidiactl", F_OK) == 0) /* the driver's own; there wherever a GPU is */
        return "nccl";
    return drover_size(d) == 1 ? "self" : "mpi";
}

static int as_rank(struct drover *d, const struct args *a, const struct bench_opts *o,
                   struct err *e)
{
    if (a->ranks && a->ranks != drover_size(d)) {
        err_set(e, -EINVAL, "-np %d, but this is rank %d of %d already", a->ranks, drover_rank(d),
                drover_size(d));
        return err_hint(e, "leave -np to the launcher that started the ranks");
    }
    struct drover_comm_opts co = {
        .backend = a->backend ? a->backend : pick_backend(d), .device = -1, .open_ms = o->wait_ms};
    struct drover_comm *c = NULL;
    int rc = drover_comm_open(&c, d, &co);
    if (rc < 0) {
        *e = *client_err(d);
        return rc;
    }
    rc = run_rank(d, c, a, o, e);
    drover_comm_close(c);
    return rc;
}

static int start_job(char **argv, const struct args *a, struct err *e)
{
    int status = bench_job_run(argv, a->ranks, a->oversubscribe, e);
    if (status >= 0)
        return status;
    err_print(e, "drover bench");
    return e->code == -EINVAL ? STATUS_USAGE : 1;
}

int cmd_bench(int argc, char **argv)
{
    struct args a = {.iters = 20, .warmups = 1, .checks = 1, .average = STATS_MEAN};
    a.timeout_s = 300;
    a.gpus = a.threads = 1;
    a.inject = getenv("DROVER_BENCH_INJECT");
    struct bench_opts o = {0};
    struct err e = {0};
    int rc = read_line(&o, &a, argc - 1, argv + 1, &e);
    if (rc == OPT_HELP) {
        opt_help(stdout, "drover bench", "OP [options]", about, options);
        return 0;
    }
    struct drover *d = NULL;
    if (rc == 0 && drover_init(&d) < 0)
        rc = (e = *client_err(NULL)).code;
    if (rc < 0) {
        err_print(&e, "drover bench");
        return STATUS_USAGE;
    }
    if (client_is_rank(d)) {
        rc = as_rank(d, &a, &o, &e);
        if (rc < 0)
            err_print(&e, "drover bench");
        rc = rc != 0;
    } else {
        rc = start_job(argv, &a, &e);
    }
    drover_close(d);
    return rc;
}
