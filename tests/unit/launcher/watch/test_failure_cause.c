/* failure_cause: known texts and signals, and which of several causes explains the others. */
#include "launcher/watch/failure_cause.h"

#include <signal.h>

#include "launcher/watch/failure_table.h"
#include "tests/unit/test.h"

static const struct rank_end exited_1 = {.status = 1};

static const char *cause_of(const struct rank_end *r, const char *const *lines, const char *written)
{
    struct failure_cause c;
    return failure_cause_find(&c, r, lines, written) ? c.what : "nothing";
}

static const char *what(const struct rank_end *r, const char *const *lines)
{
    return cause_of(r, lines, NULL);
}

static const char *advice(const struct rank_end *r, const char *const *lines)
{
    struct failure_cause c;
    return failure_cause_find(&c, r, lines, NULL) && c.advice ? c.advice : "nothing";
}

TEST(an_unknown_failure_has_no_cause)
{
    CHECK_STR(what(&exited_1, NULL), "nothing");
    CHECK_STR(what(&exited_1, (const char *[]){"Traceback (most recent call last):", NULL}),
              "nothing");
}

TEST(a_known_text_is_found_in_any_line)
{
    const char *lines[] = {
        "Traceback (most recent call last):",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "[W reducer.cpp] something", NULL};
    CHECK_HAS(what(&exited_1, lines), "GPU memory");
    CHECK_HAS(advice(&exited_1, lines), "smaller batch");
}

TEST(an_exit_without_init_or_finalize_is_explained_unless_a_text_explains_it)
{
    const char *lines[] = {"MemoryError", NULL},
               *gpu[] = {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
                         NULL};
    CHECK_HAS(what(&(struct rank_end){.status = 1, .mpi_fault = JOB_MPI_NO_INIT}, lines),
              "MPI_Init");
    const struct rank_end early = {.status = 1, .mpi_fault = JOB_MPI_NO_FINALIZE};
    CHECK_HAS(what(&early, lines), "exited early");
    CHECK_HAS(what(&early, gpu), "GPU memory");
    CHECK_HAS(advice(&early, NULL), "MPI_Finalize");
}

TEST(an_mpich_that_is_served_no_pmi1_is_told_where_it_is)
{
    const char *lines[] = {
        "check_MPIR_CVAR_PMI_VERSION(167):  Runtime environment uses unsupported "
        "PMI version PMIx. Aborting.",
        NULL};
    CHECK_HAS(what(&(struct rank_end){.status = 16}, lines), "which drover serves on one node");
}

TEST(what_follows_from_another_failure_counts_last)
{
    const char *lines[] = {"ncclRemoteError: A call failed possibly due to a network error",
                           "RuntimeError: No space left on device", NULL};
    CHECK_HAS(what(&exited_1, lines), "disk is full");
    lines[1] = "bye";
    CHECK_HAS(what(&exited_1, lines), "ended first");
}

TEST(signals_tell_by_themselves)
{
    CHECK_HAS(what(&(struct rank_end){.status = -1, .signal = SIGBUS}, NULL), "/dev/shm");
    CHECK_HAS(what(&(struct rank_end){.status = -1, .signal = SIGILL}, NULL), "newer CPU");
    CHECK_HAS(what(&(struct rank_end){.status = -1, .signal = SIGKILL, .oom_killed = true}, NULL),
              "host memory");
    CHECK_STR(what(&(struct rank_end){.status = -1, .signal = SIGKILL}, NULL), "nothing");
}

TEST(a_missing_library_needs_the_loaders_status)
{
    const char *lines[] = {"./a: error while loading shared libraries: libx.so: cannot open", NULL};
    CHECK_HAS(what(&(struct rank_end){.status = 127}, lines), "shared library");
    CHECK_STR(what(&(struct rank_end){.status = 3}, lines), "nothing");
}

TEST(a_program_for_another_cpu_is_told_from_its_start)
{
    struct rank_end r = {
        .status = -1, .start_status = 126, .start_error = "exec './a': Exec format error"};
    CHECK_HAS(what(&r, NULL), "another kind of CPU");
}

TEST(the_texts_of_many_libraries_are_known)
{
    static const char *const known[][2] = {
        {"RuntimeError: CUDA error: out of memory", "GPU memory"},
        {"cuda failure: cudaErrorIllegalAddress", "outside its memory"},
        {"ncclUnhandledCudaError: Call to CUDA function failed.", "inside NCCL"},
        {"./a: /lib/libc.so.6: version `GLIBC_2.38' not found (required by ./a)", "newer C"},
        {"OSError: [Errno 24] Too many open files: 'x'", "open files"},
        {"OSError: [Errno 98] Address already in use", "a port is in use"},
        {"RuntimeError: [/pytorch/gloo/pair.cc:598] Connection closed by peer [10.0.0.1]:4",
         "ended first"},
        {"RuntimeError: [unbound_buffer.cc:81] Timed out waiting 1800000ms for recv", "in time"},
        {"RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", "data loader"},
        {"ConnectionRefusedError: [Errno 111] Connection refused", "no process listens"},
        {"RuntimeError: can't start new thread", "limit of threads"},
        {"PermissionError: [Errno 13] Permission denied: '/data'", "is denied"}};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        const char *lines[] = {"before", known[i][0], NULL};
        CHECK_HAS(what(&exited_1, lines), known[i][1]);
    }
}

TEST(a_limit_is_known_by_its_signal)
{
    CHECK_HAS(what(&(struct rank_end){.status = -1, .signal = SIGXCPU}, NULL), "CPU time");
    CHECK_HAS(what(&(struct rank_end){.status = -1, .signal = SIGXFSZ}, NULL), "file size");
}

TEST(the_exception_is_the_line_that_ends_the_last_traceback)
{
    const char *chained[] = {"Traceback (most recent call last):",
                             "  File \"a.py\", line 1, in <module>",
                             "KeyError: 'x'",
                             "",
                             "During handling of the above exception, another one occurred:",
                             "",
                             "Traceback (most recent call last):",
                             "  File \"a.py\", line 3, in <module>",
                             "    f()",
                             "mylib.errors.Bad: no: good",
                             "[W] some noise: later",
                             NULL};
    CHECK_STR(what(&exited_1, chained), "mylib.errors.Bad: no: good");
    const char *marked[] = {"[rank1]: Traceback (most recent call last):",
                            "[rank1]:   File \"a.py\", line 1, in <module>",
                            "[rank1]: ValueError: bad", NULL};
    CHECK_STR(what(&exited_1, marked), "ValueError: bad");
}

TEST(messages_of_rust_go_julia_and_cxx_are_exceptions)
{
    const char *new_rust[] = {"thread 'main' panicked at src/main.rs:2:5:", "no row 7", NULL},
               *old_rust[] = {"thread 'main' panicked at 'no row 8', src/main.rs:2:5", NULL},
               *cut[] = {"thread 'main' panicked at src/main.rs:2:5:", NULL},
               *go[] = {"panic: no row 9", "", "goroutine 1 [running]:", NULL},
               *cxx[] = {"  what():  disk: No space left on device", NULL};
    CHECK_STR(what(&exited_1, new_rust), "no row 7");
    CHECK_HAS(what(&exited_1, old_rust), "'no row 8'");
    CHECK_STR(what(&exited_1, cut), "nothing");
    CHECK_STR(what(&exited_1, go), "no row 9");
    CHECK_STR(what(&(struct rank_end){.status = -1, .signal = SIGABRT}, cxx), "a disk is full");
}

TEST(a_signal_that_a_shell_reports_is_a_signal)
{
    CHECK_HAS(what(&(struct rank_end){.status = 128 + SIGBUS}, NULL), "bus error");
}

TEST(an_error_file_has_a_message_and_a_traceback)
{
    static const struct {
        const char *text, *says; /* NULL: not such a file */
    } files[] = {
        {"{\"message\": {\"message\": \"RuntimeError: bad\", \"extraInfo\": {\"py_callstack\": "
         "\"Traceback (most recent call last):\\n  File \\\"t.py\\\", line 3\\nRuntimeError: "
         "bad\\n\", \"timestamp\": \"1\"}}}",
         "RuntimeError: bad"},
        {"{\"message\": {\"message\": \"failed\", \"extraInfo\": {\"py_callstack\": "
         "\"Traceback\\n  x\\nValueError: worse\\n\"}}}",
         "failed (ValueError: worse)"},
        {"{\"message\": {\"message\": \"no traceback\", \"extraInfo\": {}}}", "no traceback"},
        {"{\"message\": \"two\\nlines\"}", "two"},
        {"{\"message\": \"\"}", NULL},
        {"{\"message\": 3}", NULL},
        {"{\"other\": \"x\"}", NULL},
        {"[]", NULL},
        {"{\"message\": \"cut", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        AUTO(free) char *says = failure_cause_error_file(files[i].text);
        if (files[i].says)
            CHECK_STR(says, files[i].says);
        else
            CHECK(says == NULL);
    }
}

TEST(without_a_traceback_there_is_no_exception)
{
    CHECK_STR(what(&exited_1, (const char *[]){"ValueError: said by somebody", NULL}), "nothing");
    CHECK_STR(
        what(&exited_1, (const char *[]){"Traceback (most recent call last):", "  File", NULL}),
        "nothing");
}

/* ---- trust ---------------------------------------------------------------------------------- */

static const char undefined[] =
    "/opt/plugin/libnccl-net.so: undefined symbol: ncclProfilerStart_v5"; /* of a line */
static const char not_fit[] = "versions of two libraries";

static const char *const facts[] = {
    "drover bench: ranks 0 and 1 on node c01 have the same GPU, 0000:3b:00.0", NULL};
static const char *const exceptions[] = {
    "Traceback (most recent call last):", "  File \"t.py\", line 3, in <module>",
    "ValueError: the batch is odd", NULL};
static const char *const raised[] = {
    "c01:17:17 [0] misc/socket.cc:484 NCCL WARN Bootstrap : no socket interface found", NULL};
static const char *const any[] = {undefined, NULL};

TEST(every_row_says_how_far_its_texts_are_trusted)
{
    for (size_t i = 0; i < failure_table_rows; i++)
        CHECK(failure_table[i].trust >= FAILURE_FACT && failure_table[i].trust <= FAILURE_LINE);
    CHECK(failure_table_rows >= 66);
}

/* Joins two texts, each of which ends with NULL. */
static const char *both(const struct rank_end *r, const char *const *a, const char *const *b)
{
    const char *lines[12] = {NULL};
    int n = 0;
    for (; *a; a++)
        lines[n++] = *a;
    for (; *b; b++)
        lines[n++] = *b;
    return what(r, lines);
}

TEST(of_two_levels_the_more_trusted_one_has_the_cause_in_both_orders)
{
    static const struct {
        const char *const *lines;
        const char *says;
    } levels[] = {{facts, "two ranks use the same GPU"},
                  {exceptions, "ValueError: the batch is odd"},
                  {raised, "does not name an interface"},
                  {any, not_fit}};
    for (size_t high = 0; high < COUNT_OF(levels); high++)
        for (size_t low = high; low < COUNT_OF(levels); low++) {
            CHECK_HAS(both(&exited_1, levels[high].lines, levels[low].lines), levels[high].says);
            CHECK_HAS(both(&exited_1, levels[low].lines, levels[high].lines), levels[high].says);
        }
}

TEST(signals_and_the_kernel_are_trusted_before_all_texts_and_faults_of_mpi_before_any_line)
{
    const struct rank_end bus = {.status = -1, .signal = SIGBUS},
                          killed = {.status = -1, .signal = SIGKILL, .oom_killed = true},
                          early = {.status = 1, .mpi_fault = JOB_MPI_NO_INIT};
    const char *const *const texts[] = {exceptions, raised, any};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        CHECK_HAS(what(&bus, texts[i]), "/dev/shm");
        CHECK_HAS(what(&killed, texts[i]), "host memory");
    }
    CHECK_HAS(what(&early, any), "MPI_Init");
    CHECK_STR(what(&early, exceptions), exceptions[2]);
}

TEST(the_error_file_is_trusted_as_an_exception)
{
    CHECK_STR(cause_of(&exited_1, any, "RuntimeError: bad"), "RuntimeError: bad");
    CHECK_STR(cause_of(&exited_1, raised, "RuntimeError: bad"), "RuntimeError: bad");
    CHECK_HAS(cause_of(&exited_1, any, "RuntimeError: CUDA error: out of memory"), "GPU memory");
    CHECK_HAS(cause_of(&exited_1, facts, "RuntimeError: bad"), "same GPU");
}

TEST(information_and_warnings_are_no_causes)
{
    static const char *const notes[] = {
        "c01:17:17 [0] NCCL INFO NET/Plugin: dlerror=libnccl-net.so: undefined symbol: x",
        "c01:17:17 [0] NCCL INFO Failed to open libibverbs.so[.1]: Permission denied",
        "c01:17:17 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. No space left on "
        "device",
        "/v/torchvision/io/image.py:14: UserWarning: Failed to load image Python extension: "
        "'/v/torchvision/image.so: undefined symbol: _ZN3c1017RegisterOperatorsD1Ev'If you",
        "libfabric:17:1764444000::core:core:ofi_reg_dl_prov():675<warn> dlopen(/opt/libefa.so): "
        "undefined symbol: ibv_x",
        "[W1127 10:00:00.123456 socket.cpp:752] [c10d] The client socket has failed to connect to "
        "[c01]:29500 (errno: 111 - Connection refused).",
        "[rank1]:[W1127 10:00:00.123456 ProcessGroupNCCL.cpp:4115] Cannot allocate memory",
        "WARNING:root:cannot import apex: undefined symbol: x",
        "drover bench: warn: cannot load the profiler: undefined symbol: x"};
    for (size_t i = 0; i < COUNT_OF(notes); i++) {
        const char *lines[] = {notes[i], "bye", NULL};
        CHECK_STR(what(&exited_1, lines), "nothing");
        CHECK_HAS(both(&exited_1, lines, any), not_fit);
    }
}

TEST(an_error_of_a_program_of_drover_is_the_cause_with_its_own_advice)
{
    const char *lines[] = {undefined, "drover bench: NCCL_SOCKET_IFNAME=ib9 matches no interface",
                           "  try: eth0", "drover run: metrics at http://127.0.0.1:9400/metrics",
                           NULL};
    CHECK_STR(what(&exited_1, lines), "NCCL_SOCKET_IFNAME=ib9 matches no interface");
    CHECK_STR(advice(&exited_1, lines), "eth0");
    lines[2] = "bye";
    CHECK_HAS(what(&exited_1, lines), not_fit);
}

TEST(exceptions_that_led_to_the_last_one_count_and_survived_ones_do_not)
{
    const char *chained[] = {"Traceback (most recent call last):",
                             "  File \"a.py\", line 1",
                             "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.",
                             "",
                             "The above exception was the direct cause of the following exception:",
                             "",
                             "Traceback (most recent call last):",
                             "  File \"a.py\", line 3",
                             "RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly",
                             NULL};
    CHECK_HAS(what(&exited_1, chained), "data loader worker");
    chained[4] = "trying again with no workers";
    CHECK_HAS(what(&exited_1, chained), "exited unexpectedly");
    chained[8] = "subprocess.CalledProcessError: Command 'python3 a.py' returned 1";
    CHECK_HAS(what(&exited_1, chained), "data loader worker");
}

TEST(an_exception_of_a_rank_that_a_signal_has_ended_may_be_survived)
{
    const struct rank_end aborted = {.status = -1, .signal = SIGABRT};
    const char *lines[] = {exceptions[0], exceptions[1], "ImportError: apex is not here",
                           "  what():  CUDA error: an illegal memory access was encountered", NULL};
    CHECK_HAS(what(&aborted, lines), "outside its memory");
    CHECK_HAS(what(&exited_1, lines), "apex");
    lines[3] = undefined;
    CHECK_HAS(what(&aborted, lines), "apex");
}

TEST(of_an_error_of_nccl_its_own_lines_say_the_reason)
{
    const char *lines[] = {"Traceback (most recent call last):",
                           "  File \"a.py\", line 1",
                           "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, "
                           "invalid usage, NCCL version 2.28.9",
                           "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
                           "Last error:",
                           "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
                           undefined,
                           NULL};
    CHECK_HAS(what(&exited_1, lines), "same GPU");
    lines[5] = "none";
    CHECK_HAS(what(&exited_1, lines), "called incorrectly");
    CHECK_HAS(both(&exited_1, raised, lines), "does not name an interface");
}

static void check_core(const char *pattern, bool uses_pid, const char *expected)
{
    struct failure_cause_core c = {.pattern = pattern,
                                   .program = "./bin/train",
                                   .wdir = "/w",
                                   .host = "n1",
                                   .uses_pid = uses_pid,
                                   .pid = 17,
                                   .uid = 5,
                                   .signal = 11};
    AUTO(free) char *got = failure_cause_core(&c);
    CHECK_STR(got, expected);
}

TEST(a_core_lies_where_the_kernels_pattern_says)
{
    check_core("core", false, "/w/core");
    check_core("core", true, "/w/core.17");
    check_core("/cores/%e-%p-%s.%h", true, "/cores/train-17-11.n1");
    check_core("/cores/%t.%u%%", false, "/cores/*.5%");
    check_core("x%", false, "/w/x");
}

TEST(a_core_that_a_program_takes_is_found_through_it)
{
    check_core("|/usr/lib/systemd/systemd-coredump %P %u", false,
               "handled by systemd-coredump: coredumpctl info 17");
    check_core("|/usr/share/apport/apport -p%p", false,
               "handled by apport: see /var/crash and /var/lib/apport/coredump (process 17)");
    check_core("|/opt/keep %p", false, "handled by /opt/keep (process 17)");
}
