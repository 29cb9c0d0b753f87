/* drover-bench: `drover bench …` hands over to it with its arguments as they were. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bench/cmd/bench_processes.h"
#include "collectives/bench/cmd/cmd_bench_internal.h"
#include "common/byte_size.h"
#include "common/command.h"
#include "common/log.h"
#include "common/own_process.h"
#include "common/plural.h"
#include "launcher/client/client_internal.h"

enum { SIGNALLED = 128, OPEN_MS = 300000 /* time limit without -T */ };

/* Variables for the ranks that this process starts: the number of ranks that a process of
 * nccl-tests would have on a node, and if this process's stderr and stdout are terminals. */
static const char own_env[] = BENCH_PROCESSES_ENV, progress_env[] = "DROVER_BENCH_WATCHED=1",
                  color_env[] = "DROVER_BENCH_COLOR=1";

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

/* Sets the size of an alltoallv with a matrix, the same on all ranks. */
static int use_matrix(struct bench_opts *o, int ranks, struct err *e)
{
    int largest = 0;
    for (int r = 0; r < ranks; r++) {
        int size = rank_groups_group(NULL, &o->split, ranks, r);
        largest = size > largest ? size : largest;
    }
    if (largest > o->traffic.size)
        return err_set(e, -EINVAL, "NCCL_TESTS_ALLTOALLV_MATRIX_FILE: %d row%s, but %d rank%s",
                       o->traffic.size, plural_s(o->traffic.size), largest, plural_s(largest));
    const struct traffic_call c = {&o->traffic, largest, 1, 0};
    o->min_bytes = o->max_bytes = traffic_max_bytes(&c);
    return o->max_bytes ? 0
                        : err_set(e, -EINVAL,
                                  "NCCL_TESTS_ALLTOALLV_MATRIX_FILE: all parts are "
                                  "below 16 bytes");
}

/* Lowers -e to what fits into memory. All ranks get the same result. */
static int lower_max(struct bench_opts *o, const struct bench_report_device *devices, int n,
                     bool warns, struct err *e)
{
    uint64_t max_bytes = bench_max_bytes(o, devices, n);
    char before[32], after[32];
    if (o->max_bytes <= max_bytes)
        return 0;
    if (o->traffic.matrix)
        return err_set(e, -ENOMEM, "the matrix needs %s, and %s fit into memory",
                       byte_size_format(before, sizeof before, o->max_bytes),
                       byte_size_format(after, sizeof after, max_bytes));
    if (warns)
        log_warn("-e %s is lowered to %s, the most that fits into memory",
                 byte_size_format(before, sizeof before, o->max_bytes),
                 byte_size_format(after, sizeof after, max_bytes));
    o->max_bytes = max_bytes;
    o->min_bytes = o->min_bytes < max_bytes ? o->min_bytes : max_bytes;
    return 0;
}

/* True if control runs can tell the transport at fault. */
static bool is_controlled(const struct cmd_bench_opts *o, const char *backend)
{
    return o->verdict && getenv(own_env) && strcmp(backend, "nccl") == 0;
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
    if (rc == 0 && o->bench.traffic.matrix)
        rc = use_matrix(&o->bench, size, e);
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
        rc = lower_max(&o->bench, devices, size, rank == 0, e);
    if (rc == 0 && rank == 0)
        rc = cmd_bench_printer_start(&p, argv, c, e);
    const struct bench_sink sink = {cmd_bench_printer_row, cmd_bench_printer_begin, &p};
    if (rc == 0)
        rc = bench_run(&o->bench, d, c, &sink, &summary, e);
    summary.min_busbw = o->min_busbw;
    if (rc == 0 && o->verdict && (rc = cmd_bench_printer_verdict(&p, d, c, &verdict)) < 0)
        *e = *client_err(d);
    if (rc < 0)
        cmd_bench_printer_fail(&p, e);
    else if (rank == 0)
        rc = cmd_bench_printer_finish(&p, &summary, e);
    if (rc == 0 && o->form == CMD_BENCH_TABLE)
        rc = cmd_bench_print(&verdict, e);
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

static const char *pick_backend(const struct drover *d, const struct cmd_bench_opts *o)
{
    if (o->backend)
        return o->backend;
    /* The driver's file, which exists on every node with a GPU */
    if (access("/dev/nvidiactl", F_OK) == 0)
        return "nccl";
    return drover_size(d) == 1 ? "self" : "mpi";
}

/* Checks -np if another launcher has started the ranks, since -np then has no effect. */
static int check_started(const struct drover *d, const struct cmd_bench_opts *o, struct err *e)
{
    int size = drover_size(d), rank = drover_rank(d);
    if (getenv(own_env) || !o->np || o->np == size)
        return 0;
    err_set(e, -EINVAL, "-np %d: this process is already rank %d of %d", o->np, rank, size);
    return err_hint(e, "give the number of ranks to the launcher that started them");
}

/* Returns the GPU of this rank, or -1 if NCCL_TESTS_DEVICE is not given. The variable names the GPU
 * of the first rank of each process; its further ranks have the next GPUs. */
static int device(const struct drover *d, const struct cmd_bench_opts *o)
{
    const char *own = getenv(own_env);
    int per_process = own ? atoi(own) : 1;
    return o->first_device < 0 || per_process < 1
               ? o->first_device
               : o->first_device + drover_local_rank(d) % per_process;
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

/* Sets the variables from which NCCL reads the settings that nccl-tests makes in a communicator's
 * configuration. Variables that the user has set stay. */
static void configure_nccl(const struct cmd_bench_opts *o)
{
    if (o->cta_policy[0])
        setenv("NCCL_CTA_POLICY", o->cta_policy, true);
    setenv("NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", "1", false); /* nvlinkCentricSched */
    if (o->bench.coll == COLLECTIVE_SENDRECV && !o->pairs) /* the next rank, and the previous one */
        setenv("NCCL_P2P_MAX_PEERS", "2", false);          /* maxP2pPeers */
}

static int as_rank(struct drover *d, struct cmd_bench_opts *o, char **argv, struct err *e)
{
    configure_nccl(o);
    struct drover_comm_opts co = {.backend = pick_backend(d, o),
                                  .stream = o->stream_null ? NULL : BACKEND_OWN_STREAM,
                                  .device = device(d, o),
                                  .open_ms =
                                      o->bench.wait_ms == INT64_MAX ? OPEN_MS : o->bench.wait_ms};
    struct drover_comm *c = NULL;
    int rc = drover_comm_open(&c, d, &co);
    if (rc < 0) {
        *e = *client_err(d);
        return rc;
    }
    drop_unsupported(o, c);
    rc = o->pairs ? cmd_bench_pairs(d, c, o, e) : run_rank(d, c, o, argv, e);
    if (rc < 0) /* the other ranks may wait for this one, so it must not wait for them */
        (void)drover_comm_abort(c);
    drover_comm_close(c);
    return rc;
}

/* A rank that crashed counts as a failure. The user's Ctrl-C does not, nor does a reader that
 * closed the output. Control runs need the whole job, not the part of one process. */
static int after_job(int status, char **argv, const struct cmd_bench_opts *o, bool part)
{
    bool crashed = status > SIGNALLED && status != SIGNALLED + SIGINT &&
                   status != SIGNALLED + SIGTERM && status != SIGNALLED + SIGKILL &&
                   status != SIGNALLED + SIGPIPE;
    if (getenv(CMD_BENCH_CONTROL_ENV) || !(status == CMD_BENCH_CONTROL_STATUS || crashed))
        return status;
    if (o->verdict && !part)
        cmd_bench_control(argv, o);
    return status == CMD_BENCH_CONTROL_STATUS ? 1 : status;
}

/* Launches the ranks. If another launcher has started this process, launches only the ranks of this
 * process. */
static int start_job(struct drover *d, char **argv, const struct cmd_bench_opts *o, struct err *e)
{
    AUTO(strv) char **env = NULL;
    int ranks = cmd_bench_opts_ranks(o), status;
    bool part = client_is_rank(d);
    strv_push(&env, xasprintf("%s=%d", own_env, part ? o->per_np : INT_MAX));
    if (isatty(STDERR_FILENO))
        strv_push(&env, xstrdup(progress_env));
    if (isatty(STDOUT_FILENO))
        strv_push(&env, xstrdup(color_env));
    if (!part) /* otherwise each process has its own variables */
        cmd_bench_env_pass(&env);
    if (o->per_np > 1 && drover_rank(d) == 0)
        fprintf(stderr, "drover bench: %d ranks, one per GPU, for -g times -t = %d\n",
                part ? drover_size(d) * o->per_np : ranks, o->per_np);
    if (part) {
        const struct bench_processes all = {.me = client_identity(d),
                                            .per_process = o->per_np,
                                            .gpus = strcmp(pick_backend(d, o), "nccl") == 0};
        status = bench_processes_run(argv, env, &all, e);
    } else {
        const struct bench_job job = {
            .argv = argv, .launch = o->launch, .env = env, .ranks = ranks};
        status = bench_job_run(&job, e);
    }
    if (status >= 0)
        return after_job(status, argv, o, part);
    return status == -ENOENT ? -EINVAL : status; /* a missing host file, for example */
}

static int run(int argc, char **argv, struct cmd_bench_opts *o)
{
    struct err e = {0};
    struct drover *d = NULL;
    bench_processes_set_env();
    int rc = cmd_bench_opts_read(o, argc - 1, argv + 1, &e);
    if (rc == OPT_HELP)
        return 0;
    if (rc == 0 && drover_init(&d) < 0)
        rc = (e = *client_err(NULL)).code;
    if (rc < 0) {
        err_print(&e, "drover bench");
        return EXIT_STATUS_USAGE;
    }
    if (getenv(CMD_BENCH_CONTROL_ENV))
        o->save = o->baseline = o->json_file = o->report = NULL;
    bool is_rank = client_is_rank(d);
    rc = is_rank ? check_started(d, o, &e) : 0;
    bool measures = is_rank && (o->per_np == 1 || getenv(own_env));
    if (rc == 0 && measures && o->local)
        rc = cmd_bench_local(client_identity(d), o, strcmp(pick_backend(d, o), "nccl") == 0, &e);
    else if (rc == 0 && measures && o->ring)
        rc = cmd_bench_ring(client_identity(d), o, &e);
    else if (rc == 0)
        rc = measures ? as_rank(d, o, argv, &e) : start_job(d, argv, o, &e);
    bool control = is_failure(rc) && is_controlled(o, pick_backend(d, o));
    drover_close(d);
    if (rc >= 0)
        return rc;
    err_print(&e, "drover bench");
    return control         ? CMD_BENCH_CONTROL_STATUS
           : rc == -EINVAL ? EXIT_STATUS_USAGE
                           : EXIT_STATUS_FAILED;
}

static int dispatch(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        puts("drover-bench " DROVER_VERSION);
        return 0;
    }
    if (argc < 2 || strcmp(argv[1], "bench") != 0) {
        fputs("drover-bench is called by drover: drover bench OP [options]\n", stderr);
        return 2;
    }
    if (argc > 2 && strcmp(argv[2], "diff") == 0)
        return cmd_bench_diff(argc - 2, argv + 2);
    if (argc > 2 && strcmp(argv[2], "inspect") == 0)
        return cmd_bench_inspect(argc - 2, argv + 2);
    struct cmd_bench_opts o;
    int status = run(argc, argv, &o);
    cmd_bench_opts_free(&o);
    return status;
}

int main(int argc, char **argv)
{
    own_process_exit_without_memory();
    log_open("drover bench");
    return own_process_flush(dispatch(argc, argv));
}
