#include "collectives/bench/cmd/cmd_bench.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bench/cmd/bench_job.h"
#include "collectives/bench/cmd/cmd_bench_control.h"
#include "collectives/bench/cmd/cmd_bench_diff.h"
#include "collectives/bench/cmd/cmd_bench_internal.h"
#include "common/byte_size.h"
#include "common/log.h"
#include "common/opt.h"
#include "launcher/client/client_internal.h"

enum { STATUS_USAGE = 2, SIGNALLED = 128 };

/* Set for the ranks that this process starts: that it started them, and whether its stderr and
 * stdout are terminals. */
static const char own_env[] = "DROVER_BENCH_OWN=1", progress_env[] = "DROVER_BENCH_WATCHED=1",
                  color_env[] = "DROVER_BENCH_COLOR=1";

/* Passed to ranks on other nodes too, since all ranks must behave alike. */
static const char *const passed_env[] = {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK",
                                         "NCCL_TESTS_DEVICE", CMD_BENCH_CONTROL_ENV};

/* Checks that each group can run the collective. All ranks get the same result. */
static int check_ranks(const struct bench_opts *o, int ranks, struct err *e)
{
    int smallest, size = 1;
    (void)rank_groups_groups(&o->split, ranks, &smallest);
    if (collective_has_root(o->coll) && o->root >= smallest)
        return err_set(e, -EINVAL, "-r: %d is out of range (0 to %d)", o->root, smallest - 1);
    for (int r = 0; r < ranks && o->hypercube && (size & (size - 1)) == 0; r++)
        size = rank_groups_group(NULL, &o->split, ranks, r);
    if ((size & (size - 1)) == 0)
        return 0;
    err_set(e, -EINVAL, "hypercube needs a power of 2 as the number of ranks, %s has %d",
            o->split.op ? "a group" : "this job", size);
    return err_hint(e, "all_gather, which moves the same data over any number of ranks");
}

/* Lowers -e to what fits into memory. All ranks get the same result. */
static void lower_max(struct bench_opts *o, const struct bench_report_device *devices, int n,
                      bool warns)
{
    uint64_t max_bytes = bench_max_bytes(o, devices, n);
    if (o->max_bytes <= max_bytes)
        return;
    char before[32], after[32];
    if (warns)
        log_warn("-e %s is lowered to %s, the most that fits into memory",
                 byte_size_format(before, sizeof before, o->max_bytes),
                 byte_size_format(after, sizeof after, max_bytes));
    o->max_bytes = max_bytes;
    o->min_bytes = o->min_bytes < max_bytes ? o->min_bytes : max_bytes;
}

/* True if control runs can tell the transport at fault. */
static bool is_controlled(const struct cmd_bench_opts *o, const char *backend)
{
    return o->verdict && getenv("DROVER_BENCH_OWN") && strcmp(backend, "nccl") == 0;
}

/* True if a collective failed, in contrast to a call that is not possible. */
static bool is_failure(int rc)
{
    return rc == -ETIMEDOUT || rc == -EIO || rc == -ECONNRESET;
}

static int run_rank(struct drover *d, struct drover_comm *c, struct cmd_bench_opts *o, char **argv,
                    struct err *e)
{
    int rank = drover_rank(d), size = drover_size(d), smallest;
    int rc = check_ranks(&o->bench, size, e);
    if (rc < 0)
        return rc;
    AUTO(free) struct bench_report_device *devices = xcalloc((size_t)size, sizeof *devices);
    struct cmd_bench_printer p = {.o = o, .ranks = size, .devices = devices};
    p.groups = rank_groups_groups(&o->bench.split, size, &smallest);
    p.shows_progress = isatty(STDERR_FILENO) || getenv("DROVER_BENCH_WATCHED");
    struct bench_report_summary summary = {0};
    AUTO(strbuf) struct strbuf verdict = {0};
    rc = bench_devices(&o->bench, d, c, devices, e);
    if (rc == 0)
        lower_max(&o->bench, devices, size, rank == 0);
    if (rc == 0 && rank == 0)
        cmd_bench_printer_start(&p, argv, c);
    const struct bench_sink sink = cmd_bench_printer_sink(&p);
    if (rc == 0)
        rc = bench_run(&o->bench, d, c, &sink, &summary, e);
    summary.min_busbw = o->min_busbw;
    if (rc == 0 && o->verdict && (rc = cmd_bench_printer_verdict(&p, d, c, &verdict)) < 0)
        *e = *client_err(d);
    if (rc == 0 && rank == 0)
        rc = cmd_bench_printer_finish(&p, &summary, e);
    if (rc == 0 && o->form == CMD_BENCH_TABLE)
        cmd_bench_print(&verdict);
    else if (rc == 0)
        fputs(strbuf_str(&verdict), stderr);
    cmd_bench_printer_close(&p);
    if (rc < 0)
        return rc;
    /* Rank 0 alone decides the exit status. */
    if (rank == 0 && summary.bad > 0 && is_controlled(o, comm_backend(c)->name))
        return CMD_BENCH_CONTROL_STATUS;
    return rank == 0 && (summary.bad > 0 || !bench_report_reaches_min(&summary) || p.failed);
}

static const char *pick_backend(const struct drover *d)
{
    if (access("/dev/nvidiactl", F_OK) == 0) /* the driver's; it exists on every node with a GPU */
        return "nccl";
    return drover_size(d) == 1 ? "self" : "mpi";
}

/* -np, -g and -t have no effect on ranks that another launcher has started. */
static int check_started(const struct drover *d, const struct cmd_bench_opts *o, struct err *e)
{
    int size = drover_size(d), rank = drover_rank(d);
    if (getenv("DROVER_BENCH_OWN"))
        return 0;
    if (o->np && o->np != size) {
        err_set(e, -EINVAL, "-np %d: this process is already rank %d of %d", o->np, rank, size);
        return err_hint(e, "give the number of ranks to the launcher that started them");
    }
    if (o->per_np == 1)
        return 0;
    err_set(e, -EINVAL, "-g times -t is %d: each rank has one GPU and one thread", o->per_np);
    return err_hint(e, "-g 1 -t 1, with %d times as many ranks", o->per_np);
}

/* Drops the options that this backend does not support; rank 0 prints a warning. */
static void drop_unsupported(struct cmd_bench_opts *o, struct drover_comm *c)
{
    const struct backend *b = comm_backend(c);
    bool gpu = b->caps(comm_inner(c)) & BACKEND_REGISTERS, warns = drover_comm_rank(c) == 0;
    if (warns && o->bench.graph && !b->record)
        log_warn("-G %d is ignored: backend %s has no CUDA graphs", o->bench.graph, b->name);
    if (warns && o->bench.registration && !gpu)
        log_warn("-R %d is ignored: backend %s does not register buffers", o->bench.registration,
                 b->name);
    if (warns && (o->cta_policy[0] || o->stream_null) && !gpu)
        log_warn("-x and -y are ignored: backend %s does not use GPUs", b->name);
    if (warns && o->pairs && o->bench.split.op)
        log_warn("NCCL_TESTS_SPLIT is ignored: --pairs measures all pairs");
    for (size_t i = 0; warns && i < strv_len(o->warnings); i++)
        log_warn("%s", o->warnings[i]);
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
    drop_unsupported(o, c);
    rc = o->pairs ? cmd_bench_pairs(d, c, o, e) : run_rank(d, c, o, argv, e);
    drover_comm_close(c);
    return rc;
}

static int status_of(int rc, const struct drover *d, const struct cmd_bench_opts *o)
{
    const char *backend = o->backend ? o->backend : pick_backend(d);
    return is_failure(rc) && is_controlled(o, backend) ? CMD_BENCH_CONTROL_STATUS
           : rc == CMD_BENCH_CONTROL_STATUS            ? rc
                                                       : rc != 0;
}

/* A rank that crashed counts as a failure, the user's Ctrl-C does not. */
static int after_job(int status, char **argv, const struct cmd_bench_opts *o)
{
    bool crashed = status > SIGNALLED && status != SIGNALLED + SIGINT &&
                   status != SIGNALLED + SIGTERM && status != SIGNALLED + SIGKILL;
    if (getenv(CMD_BENCH_CONTROL_ENV) || !(status == CMD_BENCH_CONTROL_STATUS || crashed))
        return status;
    if (o->verdict)
        cmd_bench_control(argv, o);
    return status == CMD_BENCH_CONTROL_STATUS ? 1 : status;
}

static int start_job(char **argv, const struct cmd_bench_opts *o, struct err *e)
{
    AUTO(strv) char **env = NULL;
    struct bench_job b = {.argv = argv, .launch = o->launch, .ranks = cmd_bench_opts_ranks(o)};
    strv_push(&env, xstrdup(own_env));
    if (isatty(STDERR_FILENO))
        strv_push(&env, xstrdup(progress_env));
    if (isatty(STDOUT_FILENO))
        strv_push(&env, xstrdup(color_env));
    for (size_t i = 0; i < COUNT_OF(passed_env); i++)
        if (getenv(passed_env[i]))
            strv_push(&env, xasprintf("%s=%s", passed_env[i], getenv(passed_env[i])));
    b.env = env;
    if (o->per_np > 1)
        fprintf(stderr, "drover bench: %d ranks, one per GPU, for -g times -t = %d\n", b.ranks,
                o->per_np);
    int status = bench_job_run(&b, e);
    if (status >= 0)
        return after_job(status, argv, o);
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
    if (getenv(CMD_BENCH_CONTROL_ENV))
        o->save = o->baseline = o->json_file = NULL;
    if (client_is_rank(d)) {
        rc = as_rank(d, o, argv, &e);
        if (rc < 0)
            err_print(&e, "drover bench");
        rc = status_of(rc, d, o);
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
