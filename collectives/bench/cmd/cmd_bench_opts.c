#include "collectives/bench/cmd/cmd_bench_opts.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collectives/bench/cmd/cmd_bench_internal.h"
#include "common/byte_size.h"
#include "common/command.h"
#include "common/mem.h"
#include "launcher/report/report_file.h"

enum {
    DEFAULT_BYTES = 32 << 20,
    DEFAULT_STEP = 1 << 20,
    UNALIGN_MAX = 1 << 20,
    RANKS_MAX = 1 << 20
};

/* What the rows describe: the options of the bench, and words from which they follow. */
struct line {
    struct cmd_bench_opts o;
    const char *min, *max, *step, *type, *op, *root, *tolerance, *stable, *cta_policy;
    int gpus, threads, parallel_init, device_implementation, device_ctas;
    bool json, csv;
    double timeout_s;
    char **nodes; /* options for the launcher that place ranks on nodes */
};

/* mpirun's -x takes the name of a variable, which does not begin with a digit; nccl-tests' -x takes
 * a CTA policy. */
static int take_x(void *into, char *const *values, struct err *e)
{
    struct line *a = into;
    if (values[0][0] >= '0' && values[0][0] <= '9') {
        a->cta_policy = values[0];
        return 0;
    }
    strv_push(&a->o.launch, xstrdup("-x"));
    strv_push(&a->o.launch, xstrdup(values[0]));
    return 0;
}

#define T struct line
static const struct opt options[] = {
    OPT_LAST_COUNTS,
    OPT_ABBREVIATIONS, /* nccl-tests accepts abbreviations, too (getopt_long()) */
    OPT_GROUP("Sizes"),
    OPT_STR('b', "minbytes", "SIZE", "smallest size (default: 32M)", T, min),
    /* --max is short for --maxbytes in nccl-tests, which has no --max-time */
    OPT_STR('e', "maxbytes||max", "SIZE", "largest size (default: 32M)", T, max),
    OPT_STR('i', "stepbytes", "SIZE", "bytes added from size to size (default: 1M)", T, step),
    OPT_INT('f', "stepfactor", "N", "multiply sizes by N instead (default: 1, -i is added)", T,
            o.bench.factor, 0, INT_MAX),

    OPT_GROUP("Operation"),
    OPT_STR('d', "datatype", "TYPE", "int8 … f8e5m2, or all (default: float)", T, type),
    OPT_STR('o', "op", "sum|prod|min|max|avg|mulsum|all",
            "reduction, or all of them (default: sum)", T, op),
    OPT_STR('r', "root", "RANK", "root rank, or all (default: 0)", T, root),
    OPT_STR(0, "backend", "nccl|mpi|self", "library (default: nccl with a GPU, else mpi)", T,
            o.backend),

    OPT_GROUP("Iterations"),
    OPT_INT('n', "iters", "N", "timed iterations (default: 20)", T, o.bench.iters, 1, INT_MAX),
    OPT_INT('w', "warmup_iters", "N", "iterations before, not timed (default: 1)", T,
            o.bench.warmups, 0, INT_MAX),
    OPT_INT('m', "agg_iters", "N", "operations per iteration, started together (default: 1)", T,
            o.bench.agg, 1, INT_MAX),
    OPT_INT('N', "run_cycles", "N", "passes over all sizes (default: 1; 0: endless)", T,
            o.bench.cycles, 0, INT_MAX),
    OPT_INT('c', "check", "N", "checked iterations (default: 1; 0: none)", T, o.bench.checks, 0,
            INT_MAX),
    OPT_DURATION('T', "timeout", "DURATION", "longest wait without progress (default: 0, no limit)",
                 T, timeout_s, 0, INT_MAX),

    OPT_GROUP("Timing"),
    OPT_INT('a', "average", "N",
            "time of 0: rank 0, 1: mean, 2: fastest, 3: slowest rank (default: 1)", T, o.bench.pick,
            0, STATS_PICKS - 1),
    OPT_INT('z', "blocking", "N",
            "after each iteration 1: wait and barrier, 2: wait, 3: as 1, not timed (default: 0)", T,
            o.bench.blocking, 0, 3),
    OPT_INT('C', "report_cputime", "0/1", "time the start of the work only (default: 0)", T,
            o.bench.cpu_time, 0, INT_MAX),
    OPT_INT('I', "per_iter_timing", "0/1", "columns for single iterations (default: 0)", T,
            o.per_iter, INT_MIN, INT_MAX),
    OPT_INT('K', "per_iter_skip", "N", "leave the first N out of them (default: 0)", T, o.skip,
            INT_MIN, INT_MAX),
    OPT_STR(0, "stable", "SHARE", "repeat until the median is known this well: 2%", T, stable),
    OPT_DURATION(0, "max-time", "DURATION", "with --stable, longest time per size (default: 10)", T,
                 o.bench.max_time_s, 0.001, INT_MAX),

    OPT_GROUP("GPUs and buffers"),
    OPT_INT('G', "cudagraph", "N", "launches of a CUDA graph of the iterations (default: 0)", T,
            o.bench.graph, 0, INT_MAX),
    OPT_INT('R', "local_register", "0-2", "register buffers, 1: locally, 2: symmetric (default: 0)",
            T, o.bench.registration, 0, 2),
    OPT_INT('y', "stream_null", "0/1", "use CUDA's default stream (default: 0)", T, o.stream_null,
            0, INT_MAX),
    OPT_INT('u', "unalign", "N", "start buffers at element N (default: 0)", T, o.bench.unalign, 0,
            UNALIGN_MAX),
    OPT_STR(0, "cta_policy", "0-2", "NCCL's CTA policy; also -x 0 to -x 2", T, cta_policy),

    OPT_GROUP("Output"),
    OPT_FLAG(0, "json", "one JSON document instead of the table", T, json),
    OPT_FLAG(0, "csv", "comma-separated values instead of the table", T, csv),
    OPT_STR('J', "output_file", "FILE", "also write JSON in nccl-tests' form", T, o.json_file),
    OPT_INT('S', "report_timestamps", "0/1", "time of day in each row (default: 0)", T, o.stamps, 0,
            INT_MAX),
    OPT_INT('M', "memory", "0/1", "print rank 0's peak memory to stderr (default: 0)", T, o.memory,
            0, INT_MAX),

    OPT_GROUP("Evaluation"),
    OPT_FLAG(0, "verdict", "compare the best busbw with what the hardware should give", T,
             o.verdict),
    OPT_DOUBLE(0, "expect", "GBPS", "compare with GBPS GB/s instead; status 1 if below", T,
               o.expect, 0, INFINITY),
    OPT_STR(0, "save", "NAME", "save the result for this cluster", T, o.save),
    OPT_STR(0, "baseline", "NAME", "compare with a saved result; status 1 if slower", T,
            o.baseline),
    OPT_STR(0, "tolerance", "SHARE", "slowdown that still passes (default: 5%)", T, tolerance),
    OPT_STR(0, "report", "FILE", "write a report, FILE.html or FILE.md", T, o.report),
    OPT_FLAG(0, "pairs", "measure every pair of nodes instead of a collective", T, o.pairs),
    OPT_INT(0, "bisect", "N", "from N nodes on, only suspect pairs (default: 32; 0: never)", T,
            o.bench.bisect_from, 0, RANKS_MAX),

    OPT_GROUP("Ranks"),
    OPT_INT(0, "np", "N", "number of ranks (default: one per GPU, or one per core)", T, o.np, 1,
            RANKS_MAX),
    OPT_INT('g', "ngpus", "N", "multiply the number of ranks by N (default: 1)", T, gpus, 1,
            RANKS_MAX),
    OPT_INT('t', "nthreads", "N", "multiply the number of ranks by N (default: 1)", T, threads, 1,
            RANKS_MAX),
    OPT_WORDS('H', "host|hostfile|machinefile", "LIST", "nodes and slots, as in drover run", T,
              nodes),
    OPT_WORDS(0, "npernode", "N", "ranks per node", T, nodes),
    OPT_WORDS(0, "map-by|bind-to|engine|ssh-args|start-timeout", "VALUE",
              "placement and start, as in drover run", T, o.launch),
    OPT_WORDS(0, "oversubscribe|allow-run-as-root", NULL, "allow more ranks than cores", T,
              o.launch),
    OPT_CALL('x', "x", "NAME[=VALUE]", "pass or set an environment variable", take_x),
    OPT_WORDS(0, "mca", "KEY VALUE", "set a parameter of Open MPI", T, o.launch),

    OPT_GROUP("Accepted for nccl-tests, without effect"),
    OPT_INT('p', "parallel_init", "0/1", "ranks are processes and always start in parallel", T,
            parallel_init, 0, INT_MAX),
    OPT_INT('D', "device_implementation", "N", "kernels are always NCCL's (default: 0)", T,
            device_implementation, 0, INT_MAX),
    OPT_INT('V', "device_cta_count", "N", "CTAs of such kernels (default: 16)", T, device_ctas,
            INT_MIN, INT_MAX),
    OPT_END,
};

static const char examples[] = "drover bench all_reduce -b 8 -e 128M -f 2\n"
                               "drover bench all_reduce -np 2 -b 1M -e 1M --json\n"
                               "drover bench all_gather --hostfile hosts -e 8G -f 2 --verdict\n"
                               "drover bench --pairs --hostfile hosts\n"
                               "drover bench gemm --hostfile hosts --npernode 8\n"
                               "drover bench diff before.json after.json";

/* Sets *out to the bit of the word, or to all bits for "all". The hint is the nearest name. */
static int words(unsigned *out, const char *what, const char *text, const char *const *names, int n,
                 struct err *e)
{
    *out = strcmp(text, "all") == 0 ? (1U << n) - 1 : 0;
    for (int i = 0; i < n; i++)
        *out |= (unsigned)(strcmp(text, names[i]) == 0) << i;
    if (*out)
        return 0;
    const char *near = opt_suggest(text, names, (size_t)n);
    err_set(e, -EINVAL, "unknown %s '%s'", what, text);
    return near ? err_hint(e, "%s", near) : -EINVAL;
}

static const char ring_name[] = "ring";
enum { NAMES_MAX = COLLECTIVES + BENCH_LOCAL_WHATS + 1 };

/* Writes the names that `drover bench` measures to `names`, with room for NAMES_MAX, and with
 * commas to `list`. Returns their number. */
static size_t collective_names(const char **names, struct strbuf *list)
{
    size_t n = 0;
    for (int c = 0; c < COLLECTIVES; c++)
        if (collective_rows[c].busbw_factor)
            names[n++] = collective_rows[c].name;
    names[n++] = BENCH_HYPERCUBE;
    for (int w = BENCH_LOCAL_NONE + 1; w < BENCH_LOCAL_WHATS; w++)
        names[n++] = bench_local_name((enum bench_local_what)w);
    names[n++] = ring_name;
    for (size_t i = 0; i < n; i++)
        strbuf_printf(list, "%s%s", i ? ", " : "", names[i]);
    return n;
}

static int read_coll(struct bench_opts *o, const char *text, struct err *e)
{
    AUTO(free) char *name = xstrdup(text);
    char *perf = strstr(name, "_perf");
    if (perf && (perf[5] == '\0' || perf[5] == '_'))
        *perf = '\0'; /* the names of nccl-tests' programs, also all_reduce_perf_mpi */
    o->hypercube = strcmp(name, BENCH_HYPERCUBE) == 0;
    int c = o->hypercube ? COLLECTIVE_ALL_GATHER : collective_find(name);
    if (c >= 0 && collective_row((enum collective)c)->busbw_factor) {
        o->coll = (enum collective)c;
        return 0;
    }
    const char *names[NAMES_MAX];
    AUTO(strbuf) struct strbuf list = {0};
    const char *near = opt_suggest(name, names, collective_names(names, &list));
    err_set(e, -EINVAL, "unknown collective '%s'", name);
    return err_hint(e, "%s", near ? near : strbuf_str(&list));
}

static int read_sizes(struct bench_opts *o, const struct line *a, struct err *e)
{
    uint64_t min = DEFAULT_BYTES, max = DEFAULT_BYTES;
    o->step_bytes = DEFAULT_STEP;
    if (a->min && byte_size_parse(&min, a->min, e) < 0)
        return err_wrap(e, "-b");
    if (a->max && byte_size_parse(&max, a->max, e) < 0)
        return err_wrap(e, "-e");
    if (a->step && byte_size_parse(&o->step_bytes, a->step, e) < 0)
        return err_wrap(e, "-i");
    if (a->min && !a->max && max < min)
        max = min;
    if (a->max && !a->min && min > max)
        min = max;
    if (min == 0 || min > max)
        return err_set(e, -EINVAL,
                       "invalid sizes: %" PRIu64 " to %" PRIu64 " bytes (see -b and -e)", min, max);
    if (max > SIZE_MAX / 4)
        return err_set(e, -ERANGE, "%s %s: exceeds the address space", a->max ? "-e" : "-b",
                       a->max ? a->max : a->min);
    o->min_bytes = min;
    o->max_bytes = max;
    if (o->factor == 1) /* nccl-tests: 1 means that -i is added */
        o->factor = 0;
    if (o->factor == 0 && o->step_bytes == 0 && min < max)
        return err_set(e, -EINVAL, "-i %s: the step must be at least 1 byte", a->step);
    return 0;
}

static int read_names(struct bench_opts *o, const struct line *a, struct err *e)
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
    else if (a->root && opt_int(&o->root, "-r", a->root, 0, RANKS_MAX - 1, e) < 0)
        return -EINVAL;
    return 0;
}

/* Returns the factor of -g or -t; 1 if it is not given. */
static int factor(int value)
{
    return value ? value : 1;
}

static int read_numbers(struct cmd_bench_opts *o, const struct line *a, struct err *e)
{
    int64_t per_np = (int64_t)factor(a->gpus) * factor(a->threads);
    if (factor(o->np) * per_np > RANKS_MAX)
        return err_set(e, -ERANGE, "-np %d -g %d -t %d: the product exceeds %d ranks", o->np,
                       factor(a->gpus), factor(a->threads), RANKS_MAX);
    o->per_np = (int)per_np;
    o->counts = (a->gpus || a->threads) && strv_len(a->nodes) == 0;
    o->bench.wait_ms = a->timeout_s > 0 ? (int64_t)(a->timeout_s * 1000) : INT64_MAX;
    return 0;
}

/* nccl-tests ignores options without effect and prints a warning; so does drover. */
static void ignore_options(struct cmd_bench_opts *o, const struct line *a)
{
    char ***warnings = &o->warnings;
    int graph = o->bench.graph, iters = o->bench.iters;
    if (o->per_iter != 0 && o->per_iter != 1)
        strv_push(warnings, xasprintf("-I %d is ignored: it is 0 or 1", o->per_iter));
    o->per_iter = o->per_iter == 1;
    if (graph && o->per_iter)
        strv_push(warnings, xstrdup("-I is ignored: iterations in a graph (-G) are not timed"));
    if (graph && o->bench.blocking)
        strv_push(warnings, xstrdup("-z is ignored: a graph (-G) is waited for as a whole"));
    o->per_iter = o->per_iter && !graph;
    o->bench.blocking = graph ? 0 : o->bench.blocking;
    if (o->skip < 0 || o->skip >= iters)
        strv_push(warnings, xasprintf("-K %d is ignored: it must be below -n %d", o->skip, iters));
    else if (o->skip && !o->per_iter)
        strv_push(warnings, xstrdup("-K is ignored: it needs -I 1"));
    o->skip = o->per_iter && o->skip > 0 && o->skip < iters ? o->skip : 0;
    if (a->device_ctas < 1 || a->device_ctas > 128)
        strv_push(warnings,
                  xasprintf("-V %d is ignored: it is at least 1 and at most 128", a->device_ctas));
    if (a->device_implementation)
        strv_push(warnings, xstrdup("-D is ignored: drover uses NCCL's own kernels"));
}

/* Reads the options that nccl-tests has only for NCCL. */
static int read_nccl(struct cmd_bench_opts *o, const struct line *a, struct err *e)
{
    if (o->bench.graph && o->stream_null)
        return err_set(e, -EINVAL, "-G with -y 1: CUDA cannot record its default stream");
    if (a->device_implementation && o->bench.registration != 2)
        return err_set(e, -EINVAL, "-D %d: needs -R 2", a->device_implementation);
    if (a->cta_policy && (strlen(a->cta_policy) != 1 || !strchr("012", a->cta_policy[0])))
        return err_set(e, -EINVAL, "-x %s: neither a variable name nor a CTA policy (0 to 2)",
                       a->cta_policy);
    ignore_options(o, a);
    o->bench.sample_pick = o->per_iter ? STATS_MAX : o->bench.pick;
    if (a->cta_policy)
        o->cta_policy[0] = a->cta_policy[0];
    return 0;
}

/* Reads what the evaluation compares with. */
static int read_evaluation(struct cmd_bench_opts *o, const struct line *a, struct err *e)
{
    const char *names[] = {o->save, o->baseline};
    for (int i = 0; i < 2; i++)
        if (names[i] && (!*names[i] || strchr(names[i], '/')))
            return err_set(e, -EINVAL, "%s '%s': not usable in a file name",
                           i ? "--baseline" : "--save", names[i]);
    if (cmd_bench_diff_parse_share(&o->tolerance, "--tolerance", a->tolerance, e) < 0)
        return e->code;
    if (isnan(o->expect)) {
        o->expect = 0;
        return 0;
    }
    o->verdict = true;
    return o->expect > 0 ? 0
                         : err_set(e, -EINVAL, "--expect %g: must be more than 0 GB/s", o->expect);
}

static int read_rest(struct cmd_bench_opts *o, const struct line *a, struct err *e)
{
    struct bench_opts *b = &o->bench;
    enum report_form form;
    if (a->json && a->csv)
        return err_set(e, -EINVAL, "--json and --csv exclude each other");
    o->form = a->json ? CMD_BENCH_JSON : a->csv ? CMD_BENCH_CSV : CMD_BENCH_TABLE;
    if ((a->stable && cmd_bench_diff_parse_share(&b->stable, "--stable", a->stable, e) < 0) ||
        read_nccl(o, a, e) < 0 || cmd_bench_env_read(o, e) < 0 || read_evaluation(o, a, e) < 0)
        return e->code;
    b->samples = o->form != CMD_BENCH_TABLE || a->stable || o->save || o->baseline || o->per_iter;
    b->rank_samples = o->per_iter && o->json_file;
    if (o->pairs && a->csv)
        return err_set(e, -EINVAL, "--pairs and --csv exclude each other");
    if (o->pairs && !a->max)
        b->max_bytes = 0; /* bench_pairs_bytes() */
    if (o->report && o->pairs)
        return err_set(e, -EINVAL, "--pairs and --report exclude each other");
    return o->report && report_file_form(&form, o->report, e) < 0 ? err_wrap(e, "--report") : 0;
}

/* Reads what differs for gemm, copy and ring: they have no collective's options. */
static int read_local(struct cmd_bench_opts *o, const struct line *a, struct err *e)
{
    const struct {
        const char *name;
        bool given;
    } others[] = {{"--pairs", o->pairs},
                  {"--csv", a->csv},
                  {"--expect", o->expect > 0},
                  {"--verdict", o->verdict},
                  {"--save", o->save},
                  {"--baseline", o->baseline},
                  {"--report", o->report},
                  {"-J", o->json_file},
                  {"-G", o->bench.graph > 0},
                  {"-I", o->per_iter},
                  {"--stable", a->stable},
                  {"-o", a->op},
                  {"-r", a->root},
                  {"-z", o->bench.blocking > 0},
                  {"-R", o->bench.registration > 0}};
    const char *name = o->ring ? ring_name : bench_local_name(o->local);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (others[i].given)
            return err_set(e, -EINVAL, "%s: not possible with %s", others[i].name, name);
    o->local_type = DROVER_TYPES;
    for (int t = 0; t < DROVER_TYPES && a->type; t++)
        if (o->bench.types == 1U << t)
            o->local_type = (enum drover_type)t;
    if (a->type && o->local_type == DROVER_TYPES)
        return err_set(e, -EINVAL, "-d %s: %s measures one type", a->type, name);
    if (!a->min && !a->max)
        o->bench.min_bytes = o->bench.max_bytes = 0;
    else if (!a->max)
        o->bench.max_bytes = o->bench.min_bytes;
    return 0;
}

/* Reads a command line. The collective may be before or after the options: `drover bench all_reduce
 * -b 8`, `drover bench -b 8 all_reduce`. */
static int read_line(struct line *a, int argc, char **argv, struct err *e)
{
    static const struct command command = {.options = options, .words_max = 1};
    struct cmd_bench_opts *o = &a->o;
    AUTO(strv) char **words = NULL;
    int rc = command_parse(&words, &command, a, argc, argv, e);
    if (rc != 0)
        return rc;
    const char *coll = words ? words[0] : o->pairs ? "sendrecv" : NULL;
    if (!coll) {
        err_set(e, -EINVAL, "the collective is missing");
        return err_hint(e, "drover bench all_reduce -b 8 -e 128M -f 2");
    }
    o->local = bench_local_find(coll);
    o->ring = strcmp(coll, ring_name) == 0;
    rc = o->local || o->ring ? 0 : read_coll(&o->bench, coll, e);
    rc = rc < 0 ? rc : read_sizes(&o->bench, a, e);
    rc = rc < 0 ? rc : read_names(&o->bench, a, e);
    rc = rc < 0 ? rc : read_numbers(o, a, e);
    rc = rc < 0 ? rc : read_rest(o, a, e);
    return rc == 0 && (o->local || o->ring) ? read_local(o, a, e) : rc;
}

static void print_help(void)
{
    const char *names[NAMES_MAX];
    AUTO(strbuf) struct strbuf summary = {0};
    strbuf_puts(
        &summary,
        "Measures a collective as nccl-tests does. Starts its ranks itself, or runs "
        "as the ranks of another launcher. gemm and copy measure each GPU by itself, or the "
        "CPU: products of matrices, and copies over its link and within its memory. ring "
        "connects each rank to its neighbours over TCP. OP is one of:\n");
    (void)collective_names(names, &summary);
    strbuf_puts(&summary, "\n\nCommands, each with --help:\n"
                          "  diff A B     compare two measurements\n"
                          "  inspect DIR  busbw of a job by dumps of NCCL Inspector");
    opt_print_help(stdout,
                   &(struct opt_help){.program = "drover bench",
                                      .usage = "OP [options]",
                                      .summary = strbuf_str(&summary),
                                      .examples = examples},
                   options);
}

int cmd_bench_opts_read(struct cmd_bench_opts *o, int argc, char **argv, struct err *e)
{
    struct line a = {.tolerance = "5%", .device_ctas = 16};
    a.o.bench = (struct bench_opts){.iters = 20,
                                    .bisect_from = 32,
                                    .warmups = 1,
                                    .checks = 1,
                                    .agg = 1,
                                    .cycles = 1,
                                    .pick = STATS_MEAN,
                                    .max_time_s = 10};
    a.o.expect = NAN; /* not given */
    int rc = read_line(&a, argc, argv, e);
    if (rc == OPT_HELP)
        print_help();
    for (size_t i = 0; i < strv_len(a.nodes); i++)
        strv_push(&a.o.launch, xstrdup(a.nodes[i]));
    strv_free(a.nodes);
    *o = a.o;
    return rc;
}

void cmd_bench_opts_free(struct cmd_bench_opts *o)
{
    strv_free(o->launch);
    strv_free(o->warnings);
    traffic_free(&o->bench.traffic);
}

int cmd_bench_opts_ranks(const struct cmd_bench_opts *o)
{
    bool chosen = o->np == 0 && o->per_np == 1 && !o->counts;
    return chosen ? 0 : (o->np ? o->np : 1) * o->per_np;
}
