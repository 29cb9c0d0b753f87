/* stack_text: stacks as gdb 13 and py-spy 0.4 print them. */
#include "launcher/hang/stack_text.h"

#include "common/mem.h"

#include "tests/unit/test.h"

static const char gdb_mpi[] =
    "#0  0x00007f01 in opal_progress () from /lib/x86_64-linux-gnu/libopen-pal.so.40\n"
    "#1  0x00007f02 in PMPI_Barrier () from /lib/x86_64-linux-gnu/libmpi.so.40\n"
    "#2  0x00005501 in step (n=3) at src/train.c:57\n"
    "#3  0x00005502 in main (argc=1, argv=0x7ff) at src/train.c:90\n";
static const char gdb_torch[] =
    "#0  __futex_abstimed_wait_common64 (private=0) at ./nptl/futex-internal.c:57\n"
    "#4  ___pthread_cond_wait (cond=0x1, mutex=0x2) at ./nptl/pthread_cond_wait.c:618\n"
    "#5  0x00007f03 in c10d::ProcessGroupGloo::RecvWork::wait(std::chrono::duration<long>) () from "
    "/lib/libtorch_cpu.so.1.13\n"
    "#8  0x0000000000547b96 in ?? ()\n"
    "#9  0x0000000000517fc3 in _PyObject_MakeTpCall ()\n";
static const char py_spy[] = "Process 7: python3 train.py\nPython v3.11.2 (/usr/bin/python3.11)\n"
                             "Thread 7 (idle): \"MainThread\"\n"
                             "    wait (threading.py:320)\n"
                             "    all_reduce (torch/distributed/distributed_c10d.py:1322)\n"
                             "    step (a/train.py:212)\n"
                             "    <module> (a/train.py:300)\n";

static void check(const char *stack, const char *collective, const char *place, const char *text)
{
    char got[96];
    AUTO(strbuf) struct strbuf b = {0};
    CHECK_INT(stack_text_collective(got, sizeof got, stack), collective[0] != '\0');
    CHECK_STR(got, collective);
    CHECK_INT(stack_text_place(got, sizeof got, stack), place[0] != '\0');
    CHECK_STR(got, place);
    stack_text_trim(&b, stack);
    CHECK_STR(strbuf_str(&b), text);
}

TEST(two_stacks_are_the_same_wait_if_they_are_equal_from_the_collective_outwards)
{
    static const char inner[] = "#0  0x01 in ?? () from /lib/mca_btl_vader.so\n"
                                "#1  0x02 in opal_progress () from /lib/libopen-pal.so.40\n",
                      call[] = "0x03 in PMPI_Recv () from /lib/libmpi.so.40\n",
                      other[] = "0x03 in PMPI_Send () from /lib/libmpi.so.40\n",
                      outer[] = "0x04 in step (n=3) at train.c:57\n",
                      later[] = "0x04 in step (n=4) at "
                                "train.c:57\n";
    static const struct {
        const char *inner, *call, *outer, *state;
        bool same;
    } cases[] = {
        {inner, call, outer, "1", true},   {"", call, outer, "1", true},
        {inner, other, outer, "1", false}, {inner, call, later, "1", false},
        {inner, call, outer, "2", false},  {inner, "", outer, "1", false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char a[512], b[512];
        bool numbered = cases[i].inner[0];
        snprintf(a, sizeof a, "%s#2  %s#3  %sstate: 1\n", inner, call, outer);
        snprintf(b, sizeof b, "%s%s%s%s%sstate: %s\n", cases[i].inner,
                 cases[i].call[0] ? numbered ? "#2  " : "#0  " : "", cases[i].call,
                 numbered ? "#3  " : "#1  ", cases[i].outer, cases[i].state);
        CHECK_INT(stack_text_same_wait(a, b), cases[i].same);
        CHECK_INT(stack_text_same_wait(b, a), cases[i].same);
    }
    CHECK(!stack_text_same_wait("", ""));
    CHECK(!stack_text_same_wait("#0  0x04 in step () at train.c:57\n",
                                "#0  0x04 in step () at train.c:57\n")); /* computes */
}

TEST(frames_of_libraries_are_cut_and_the_collective_stays)
{
    check(gdb_mpi, "MPI_Barrier", "train.c:57",
          "PMPI_Barrier\nstep (train.c:57)\nmain (train.c:90)\n");
    check(py_spy, "all_reduce", "train.py:212",
          "all_reduce\nstep (train.py:212)\n<module> (train.py:300)\n");
}

TEST(a_stack_without_lines_of_python_shows_the_wait_of_pytorch)
{
    check(gdb_torch, "recv", "", "c10d::ProcessGroupGloo::RecvWork::wait\n");
}

TEST(without_a_frame_of_its_own_the_first_ones_stay)
{
    check("#0  0x01 in read () from /lib/libc.so.6\n#1  0x02 in _PyEval_EvalFrameDefault ()\ntry: "
          "x\n",
          "", "", "read\n");
    check("", "", "", "");
}
