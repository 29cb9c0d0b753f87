#include "collectives/bench/cmd_bench_opts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/bench/busbw.h"
#include "collectives/bench/cmd_bench_diff.h"
#include "common/byte_size.h"
#include "common/mem.h"
#include "common/opt.h"

enum {
    DEFAULT_BYTES = 32 << 20,
    DEFAULT_STEP = 1 << 20,
    PAIRS_BYTES = 4 << 20,
    UNALIGN_MAX = 1 << 20
};

struct args {
    int ranks;
    const char *backend, *min, *max, *step, *type, *op, *root, *json_file;
    int factor, iters, warmups, checks, average, blocking, timeout_s, gpus, threads;
    int agg, cycles, graph, local_register, cpu_time, memory, parallel_init;
    int stream_null, unalign, stamps, per_iter, skip, device_implementation, device_ctas;
    const char *cta_policy;
    bool json, csv, pairs, verdict;
    double expect;
    const char *save, *baseline, *tolerance;
    const char *stable;
    double max_time_s;
    char **launch;
};

/* mpirun's -x is a variable's name, which begins with no digit; nccl-tests' is a policy. */
static int take_x(void *into, char *const *values, struct err *e)
{
    struct args *a = into;
    if (values[0][0] >= '0' && values[0][0] <= '9') {
        a->cta_policy = values[0];
        return 0;
    }
    strv_push(&a->launch, xstrdup("-x"));
    strv_push(&a->launch, xstrdup(values[0]));
    return 0;
}

#define T struct args
static const struct opt options[] = {
    OPT_INT(0, "np", "N", "ranks to start (one a GPU, or one a core)", T, ranks),
    OPT_STR(0, "backend", "NAME", "nccl, mpi or self (nccl where there is a GPU, else mpi)", T,
            backend),
    OPT_STR('b', "minbytes", "SIZE", "smallest size (32M)", T, min),
    OPT_STR('e', "maxbytes", "SIZE", "largest size (32M)", T, max),
    OPT_STR('i', "stepbytes", "SIZE", "add so much from size to size (1M)", T, step),
    OPT_INT('f', "stepfactor", "N", "or multiply by so much", T, factor),
    OPT_INT('n', "iters", "N", "iterations timed (20)", T, iters),
    OPT_INT('w', "warmup_iters", "N", "iterations before, not timed (1)", T, warmups),
    OPT_INT('m', "agg_iters", "N", "operations begun together in each iteration (1)", T, agg),
    OPT_INT('N', "run_cycles", "N", "times that all sizes are gone through (1; 0: without end)", T,
            cycles),
    OPT_INT('c', "check", "N", "iterations checked (1; 0: none)", T, checks),
    OPT_STR('d', "datatype", "TYPE", "int8 … f8e5m2, or all (float)", T, type),
    OPT_STR('o', "op", "OP", "sum, prod, min, max, avg, mulsum, or all (sum)", T, op),
    OPT_STR('r', "root", "RANK", "root of broadcast, reduce, gather and scatter, or all (0)", T,
            root),
    OPT_INT('a', "average", "N", "time of 0 rank 0, 1 the mean, 2 the fastest, 3 the slowest (1)",
            T, average),
    OPT_INT('z', "blocking", "N",
            "1 wait and barrier, 2 wait after each iteration, 3 wait and barrier not counted (0)",
            T, blocking),
    OPT_INT('C', "report_cputime", "0/1", "time that starting the work takes, not its end (0)", T,
            cpu_time),
    OPT_INT('g', "ngpus", "N", "times so many ranks: each GPU has a rank of its own (1)", T, gpus),
    OPT_INT('t', "nthreads", "N", "times so many ranks, too (1)", T, threads),
    OPT_INT('p', "parallel_init", "0/1", "taken, and always so: each rank is a process", T,
            parallel_init),
    OPT_INT('G', "cudagraph", "N", "launch a CUDA graph of the iterations so often (0: none)", T,
            graph),
    OPT_INT('R', "local_register", "0-2", "register buffers, 1 at each rank, 2 symmetric (0)", T,
            local_register),
    OPT_INT('y', "stream_null", "0/1", "work on CUDA's default stream (0)", T, stream_null),
    OPT_INT('u', "unalign", "N", "buffers begin with their element N (0)", T, unalign),
    OPT_INT('I', "per_iter_timing", "0/1", "columns of single iterations (0)", T, per_iter),
    OPT_INT('K', "per_iter_skip", "N", "without the first N of them (0)", T, skip),
    OPT_INT('S', "report_timestamps", "0/1", "the time of day in each row (0)", T, stamps),
    OPT_STR(0, "cta_policy", "0-2", "NCCL's CTA policy; -x 0 to -x 2 are the same", T, cta_policy),
    OPT_INT('D', "device_implementation", "N", "taken with a warning: kernels are NCCL's (0)", T,
            device_implementation),
    OPT_INT('V', "device_cta_count", "N", "taken: of those kernels of one's own (16)", T,
            device_ctas),
    OPT_INT('M', "memory", "0/1", "say on stderr what memory rank 0 has used (0)", T, memory),
    OPT_INT('T', "timeout", "SECONDS", "give up when ranks wait for so long (300)", T, timeout_s),
    OPT_STR('J', "output_file", "FILE", "write JSON as nccl-tests writes it, too", T, json_file),
    OPT_STR(0, "stable", "SHARE",
            "time single iterations too, until their median is known within so much (2%)", T,
            stable),
    OPT_DOUBLE(0, "max-time", "SECONDS", "but for each size no longer than that (10)", T,
               max_time_s),
    OPT_FLAG(0, "verdict", "hold the best busbw against what this hardware should give", T,
             verdict),
    OPT_DOUBLE(0, "expect", "GBPS", "or against that many GB/s; status 1 below", T, expect),
    OPT_STR(0, "save", "NAME", "keep the result, for this cluster", T, save),
    OPT_STR(0, "baseline", "NAME", "compare with what was kept so; status 1 where it is worse", T,
            baseline),
    OPT_STR(0, "tolerance", "SHARE", "so much slower is not worse (5%)", T, tolerance),
    OPT_FLAG(0, "pairs", "every node with every other, in place of a collective", T, pairs),
    OPT_FLAG(0, "json", "one JSON document instead of the table", T, json),
    OPT_FLAG(0, "csv", "comma-separated values instead of the table", T, csv),
    OPT_WORDS('H', "host|hostfile|machinefile", "LIST",
              "nodes and their slots, as drover run has "
              "them",
              T, launch),
    OPT_CALL('x', "x", "NAME[=VALUE]", "pass a variable to the ranks, or set it", take_x),
    OPT_WORDS(0, "mca", "KEY VALUE", "set a parameter of Open MPI", T, launch),
    OPT_WORDS(0, "map-by|bind-to|engine|npernode|start-timeout", "VALUE",
              "where ranks run, as drover run has it", T, launch),
    OPT_WORDS(0, "oversubscribe|allow-run-as-root", NULL, "more ranks than cores are fine", T,
              launch),
    OPT_END,
};

static const char about[] =
    "Measures a collective as nccl-tests does: all_reduce, broadcast, reduce, all_gather, "
    "reduce_scatter, alltoall,\ngather, scatter, alltoallv, sendrecv or hypercube. Started alone, "
    "it starts its ranks.";

/* The number of the word among names[0 … n-1], or -EINVAL with the nearest one as a hint. */
static int word(const char *what, const char *text, const char *const *names, int n, struct err *e)
{
    for (int i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    const char *near = opt_suggest(text, names, (size_t)n);
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

/* Writes the names that `drover bench` measures to `names`, with room for COLLECTIVES + 1. Returns
 * their number. */
static size_t collective_names(const char **names)
{
    size_t n = 0;
    for (int c = 0; c < COLLECTIVES; c++)
        if (collective_rows[c].busbw_factor)
            names[n++] = collective_rows[c].name;
    names[n++] = BENCH_HYPERCUBE;
    return n;
}

static int read_coll(struct bench_opts *o, const char *text, struct err *e)
{
    AUTO(free) char *name = xstrdup(text);
    char *perf = strstr(name, "_perf");
    if (perf && perf[5] == '\0')
        *perf = '\0'; /* the names of nccl-tests' programs */
    o->hypercube = strcmp(name, BENCH_HYPERCUBE) == 0;
    int c = o->hypercube ? COLLECTIVE_ALL_GATHER : collective_find(name);
    if (c >= 0 && collective_row((enum collective)c)->busbw_factor) {
        o->coll = (enum collective)c;
        return 0;
    }
    const char *names[COLLECTIVES + 1];
    size_t n = collective_names(names);
    const char *near = opt_suggest(name, names, n);
    err_set(e, -EINVAL, "unknown collective '%s'", name);
    if (near)
        return err_hint(e, "%s", near);
    AUTO(strbuf) struct strbuf list = {0};
    for (size_t i = 0; i < n; i++)
        strbuf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    return err_hint(e, "%s", strbuf_str(&list));
}

static int read_sizes(struct bench_opts *o, const struct args *a, struct err *e)
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

static int read_numbers(struct bench_opts *o, const struct args *a, struct err *e)
{
    if (a->gpus < 1 || a->threads < 1)
        return err_set(e, -EINVAL, "-g and -t are at least 1");
    if (a->iters < 1 || a->agg < 1 || a->timeout_s < 1)
        return err_set(e, -EINVAL, "-n, -m and -T are at least 1");
    if (a->warmups < 0 || a->checks < 0 || a->ranks < 0 || a->cycles < 0)
        return err_set(e, -EINVAL, "-w, -c, -N and -np are at least 0");
    if (a->average < 0 || a->average >= STATS_PICKS || a->blocking < 0 || a->blocking > 3)
        return err_set(e, -EINVAL, "-a and -z are 0 to 3");
    if ((int64_t)(a->ranks ? a->ranks : 1) * a->gpus * a->threads > 1 << 20)
        return err_set(e, -ERANGE, "-np %d times -g %d times -t %d: too many ranks", a->ranks,
                       a->gpus, a->threads);
    o->iters = a->iters;
    o->warmups = a->warmups;
    o->checks = a->checks;
    o->agg = a->agg;
    o->pick = (enum stats_pick)a->average;
    o->blocking = a->blocking;
    o->cpu_time = a->cpu_time != 0;
    o->wait_ms = (int64_t)a->timeout_s * 1000;
    o->cycles = a->cycles;
    return 0;
}

/* What cannot be, nccl-tests leaves out with a word; so do we. */
static void leave_out(char ***notes, struct args *a)
{
    if (a->graph && a->per_iter)
        strv_push(notes, xstrdup("-I: single iterations are not timed inside of a graph (-G)"));
    if (a->graph && a->blocking)
        strv_push(notes, xstrdup("-z: a graph (-G) is waited for as a whole"));
    a->per_iter = a->per_iter && !a->graph;
    a->blocking = a->graph ? 0 : a->blocking;
    if (a->skip && !a->per_iter)
        strv_push(notes, xstrdup("-K: goes with -I 1"));
    a->skip = a->per_iter ? a->skip : 0;
    if (a->device_implementation)
        strv_push(notes, xstrdup("-D: operations are NCCL's own; there are no other kernels here"));
}

/* What nccl-tests has for NCCL alone. */
static int read_nccl(struct cmd_bench_opts *o, struct args *a, struct err *e)
{
    if (a->graph < 0 || a->local_register < 0 || a->local_register > 2)
        return err_set(e, -EINVAL, "-G is at least 0, and -R is 0 to 2");
    if (a->graph && a->stream_null)
        return err_set(e, -EINVAL, "-G and -y 1: CUDA makes no graph of its default stream's work");
    if (a->unalign < 0 || a->unalign > UNALIGN_MAX)
        return err_set(e, -EINVAL, "-u is 0 to %d", UNALIGN_MAX);
    if (a->skip < 0 || a->skip >= a->iters)
        return err_set(e, -EINVAL, "-K is 0 to %d, less than -n", a->iters - 1);
    if (a->device_implementation < 0 || a->device_ctas < 1 || a->device_ctas > 128)
        return err_set(e, -EINVAL, "-D is at least 0, and -V is 1 to 128");
    if (a->device_implementation && a->local_register != 2)
        return err_set(e, -EINVAL, "-D goes with -R 2");
    if (a->cta_policy && (strlen(a->cta_policy) != 1 || !strchr("012", a->cta_policy[0])))
        return err_set(e, -EINVAL, "-x %s is no variable, and no CTA policy: those are 0 to 2",
                       a->cta_policy);
    leave_out(&o->notes, a);
    o->bench.graph = a->graph;
    o->bench.blocking = a->blocking;
    o->bench.registration = a->local_register;
    o->bench.unalign = a->unalign;
    o->bench.sample_pick = a->per_iter ? STATS_MAX : o->bench.pick;
    o->per_iter = a->per_iter;
    o->skip = a->skip;
    o->stamps = a->stamps != 0;
    o->stream_null = a->stream_null != 0;
    if (a->cta_policy)
        o->cta_policy[0] = a->cta_policy[0];
    return 0;
}

static int read_inject(struct bench_opts *o, const char *text)
{
    static const char *const hows[] = {"bit", "before", "after", "absent"};
    char how[16] = "bit";
    o->inject_rank = -1;
    if (!text)
        return 0;
    if (sscanf(text, "%d:%d:%15s", &o->inject_rank, &o->inject_at, how) < 2 || o->inject_at < 0)
        return -EINVAL;
    for (size_t i = 0; i < COUNT_OF(hows); i++)
        if (strcmp(how, hows[i]) == 0) {
            o->inject = (enum buffers_fault)i;
            return 0;
        }
    return -EINVAL;
}

static int read_stable(struct bench_opts *o, const struct args *a, struct err *e)
{
    o->max_time_s = a->max_time_s;
    if (!(a->max_time_s > 0))
        return err_set(e, -EINVAL, "--max-time is more than 0");
    return a->stable ? cmd_bench_diff_share(&o->stable, "--stable", a->stable, e) : 0;
}

/* What nccl-tests takes from the environment. */
static int read_env(struct cmd_bench_opts *o, const struct cmd_bench_env *env, struct err *e)
{
    char *end = NULL;
    o->first_device = -1;
    if (env->min_bw) {
        o->min_busbw = strtod(env->min_bw, &end);
        if (end == env->min_bw || *end || !(o->min_busbw >= 0) || isinf(o->min_busbw))
            return err_set(e, -EINVAL, "NCCL_TESTS_MIN_BW is '%s', which is no rate in GB/s",
                           env->min_bw);
    }
    if (env->device &&
        opt_int(&o->first_device, "NCCL_TESTS_DEVICE", env->device, 0, 1 << 20, e) < 0)
        return e->code;
    return rank_groups_read(&o->bench.split, env->split, env->split_mask, e);
}

static int read_rest(struct cmd_bench_opts *o, struct args *a, const struct cmd_bench_env *env,
                     struct err *e)
{
    struct bench_opts *b = &o->bench;
    if (a->json && a->csv)
        return err_set(e, -EINVAL, "--json or --csv, not both");
    o->form = a->json ? CMD_BENCH_JSON : a->csv ? CMD_BENCH_CSV : CMD_BENCH_TABLE;
    if (read_inject(b, env->inject) < 0)
        return err_set(e, -EINVAL,
                       "DROVER_BENCH_INJECT is '%s', no RANK:ELEMENT[:before|:after|:absent]",
                       env->inject);
    if (read_stable(b, a, e) < 0 || read_nccl(o, a, e) < 0 || read_env(o, env, e) < 0)
        return e->code;
    b->samples = o->form != CMD_BENCH_TABLE || a->stable || a->save || a->baseline || o->per_iter;
    o->save = a->save;
    o->baseline = a->baseline;
    const char *names[] = {a->save, a->baseline};
    for (int i = 0; i < 2; i++)
        if (names[i] && (!*names[i] || strchr(names[i], '/')))
            return err_set(e, -EINVAL, "'%s' is no name: it becomes part of a file's", names[i]);
    if (cmd_bench_diff_share(&o->tolerance, "--tolerance", a->tolerance, e) < 0)
        return e->code;
    o->pairs = a->pairs;
    o->verdict = a->verdict || a->expect > 0;
    o->expect = a->expect;
    if (a->expect < 0)
        return err_set(e, -EINVAL, "--expect is more than 0");
    if (a->pairs && a->csv)
        return err_set(e, -EINVAL, "--pairs has a map or --json, no --csv");
    if (a->pairs && !a->max)
        b->max_bytes = PAIRS_BYTES;
    o->backend = a->backend;
    o->np = a->ranks;
    o->per_np = a->gpus * a->threads;
    b->rank_samples = o->per_iter && a->json_file;
    o->memory = a->memory != 0;
    o->json_file = a->json_file;
    return 0;
}

/* `drover bench all_reduce -b 8` and `drover bench -b 8 all_reduce`. */
static int read_line(struct cmd_bench_opts *o, struct args *a, int argc, char **argv, struct err *e)
{
    const char *coll = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    int skip = coll ? 1 : 0, rest = 0;
    int rc = opt_parse(options, a, argc - skip, argv + skip, &rest, e);
    if (rc != 0)
        return rc;
    rest += skip;
    if (!coll && rest < argc)
        coll = argv[rest++];
    if (a->pairs && !coll)
        coll = "sendrecv";
    if (!coll) {
        err_set(e, -EINVAL, "no collective was named");
        return err_hint(e, "drover bench all_reduce -b 8 -e 128M -f 2");
    }
    if (rest < argc)
        return err_set(e, -EINVAL, "'%s' is one word too many", argv[rest]);
    rc = read_coll(&o->bench, coll, e);
    rc = rc < 0 ? rc : read_sizes(&o->bench, a, e);
    rc = rc < 0 ? rc : read_names(&o->bench, a, e);
    return rc < 0 ? rc : read_numbers(&o->bench, a, e);
}

int cmd_bench_opts_read(struct cmd_bench_opts *o, int argc, char **argv,
                        const struct cmd_bench_env *env, struct err *e)
{
    struct args a = {.iters = 20, .warmups = 1, .checks = 1, .average = STATS_MEAN};
    a.timeout_s = 300;
    a.max_time_s = 10;
    a.tolerance = "5%";
    a.gpus = a.threads = a.agg = a.cycles = 1;
    a.device_ctas = 16;
    *o = (struct cmd_bench_opts){0};
    int rc = read_line(o, &a, argc, argv, e);
    if (rc == OPT_HELP)
        opt_help(stdout, "drover bench", "OP [options]", about, options);
    o->launch = a.launch;
    return rc == 0 ? read_rest(o, &a, env, e) : rc;
}

void cmd_bench_opts_free(struct cmd_bench_opts *o)
{
    strv_free(o->launch);
    strv_free(o->notes);
}

int cmd_bench_opts_ranks(const struct cmd_bench_opts *o)
{
    return o->np == 0 && o->per_np == 1 ? 0 : (o->np ? o->np : 1) * o->per_np;
}
