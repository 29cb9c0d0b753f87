/* failure_cause: known texts and signals, and which of several causes explains the others. */
#include "launcher/watch/failure_cause.h"

#include <signal.h>

#include "tests/unit/test.h"

static const struct rank_end exited_1 = {.status = 1};

static const char *what(const struct rank_end *r, const char *const *lines)
{
    const struct failure_cause *c = failure_cause_find(r, lines);
    return c ? c->what : "nothing";
}

TEST(an_unknown_failure_has_no_cause)
{
    CHECK(failure_cause_find(&exited_1, NULL) == NULL);
    CHECK(failure_cause_find(&exited_1,
                             (const char *[]){"Traceback (most recent call last):", NULL}) == NULL);
}

TEST(a_known_text_is_found_in_any_line)
{
    const char *lines[] = {
        "Traceback (most recent call last):",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "[W reducer.cpp] something", NULL};
    CHECK_HAS(what(&exited_1, lines), "GPU memory");
    CHECK_HAS(failure_cause_find(&exited_1, lines)->advice, "smaller batch");
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
    CHECK_HAS(failure_cause_find(&early, NULL)->advice, "MPI_Finalize");
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
    CHECK_STR(failure_cause_python_exception(chained), "mylib.errors.Bad: no: good");
    const char *marked[] = {"[rank1]: Traceback (most recent call last):",
                            "[rank1]:   File \"a.py\", line 1, in <module>",
                            "[rank1]: ValueError: bad", NULL};
    CHECK_STR(failure_cause_python_exception(marked), "ValueError: bad");
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
    CHECK(failure_cause_python_exception(NULL) == NULL);
    CHECK(failure_cause_python_exception((const char *[]){"ValueError: said by somebody", NULL}) ==
          NULL);
    CHECK(failure_cause_python_exception(
              (const char *[]){"Traceback (most recent call last):", "  File", NULL}) == NULL);
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
