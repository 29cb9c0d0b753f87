#include "launcher/engine/trace_buffer.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "collectives/comm/comm_internal.h"
#include "common/clock.h"
#include "tests/unit/test.h"

static struct trace_buffer *book;

static void open_book(int i)
{
    struct err e = {0};
    CHECK_INT(trace_buffer_open(&book, 3, &e), 0);
    AUTO(free) char *address = trace_buffer_env(book, i);
    setenv("DROVER_NOTES", address, 1);
}

static void begin(struct collective_trace_comm *n, enum collective coll, size_t count, int root)
{
    comm_trace_call(n, &(struct backend_call){
                           .coll = coll, .count = count, .type = DROVER_FLOAT, .root = root});
}

static void call(struct collective_trace_comm *n, enum collective coll, size_t count, int root)
{
    begin(n, coll, count, root);
    collective_trace_pending(n);
}

/* A rank's communicator of three ranks that has completed one call. */
static struct collective_trace_comm *one_call_done(enum collective coll, size_t count)
{
    open_book(1);
    struct collective_trace_comm *n = comm_trace_open("world", 1, 3);
    call(n, coll, count, 0);
    collective_trace_done(n, clock_coarse_ms());
    return n;
}

TEST(the_launcher_sees_what_a_rank_is_in_and_what_it_did_before)
{
    struct collective_position a;
    open_book(1);
    struct collective_trace_comm *n = comm_trace_open("world", 1, 3);
    CHECK(n != NULL);
    for (int i = 0; i < 3000; i++) { /* fills the ring several times */
        call(n, COLLECTIVE_ALL_REDUCE, 7, 0);
        if (i % 5 == 4)
            collective_trace_done(n, clock_coarse_ms());
    }
    trace_buffer_read(book, 1, &a);
    CHECK_STR(a.comm, "world");
    CHECK_INT(a.size, 3);
    CHECK_INT(a.waits_ms, 0);
    CHECK_INT(a.count, COLLECTIVE_MISMATCH_CALLS);
    CHECK_INT(a.calls[COLLECTIVE_MISMATCH_CALLS - 1].nth, 3000);
    CHECK(a.calls[COLLECTIVE_MISMATCH_CALLS - 1].done);
    CHECK_STR(a.calls[COLLECTIVE_MISMATCH_CALLS - 1].what, "all_reduce of 7 float, sum");
    call(n, COLLECTIVE_RECV, 1, 2);
    call(n, COLLECTIVE_BROADCAST, 4, 2);
    trace_buffer_read(book, 1, &a);
    CHECK(a.waits_ms > 0);
    CHECK_STR(a.calls[COLLECTIVE_MISMATCH_CALLS - 1].what, "broadcast of 4 float, root 2");
    CHECK_INT(a.calls[COLLECTIVE_MISMATCH_CALLS - 1].nth, 3001);
    CHECK_STR(a.calls[COLLECTIVE_MISMATCH_CALLS - 2].what, "recv of 1 float, rank 2");
    CHECK_INT(a.calls[COLLECTIVE_MISMATCH_CALLS - 2].nth, 0);
    trace_buffer_read(book, 0, &a);
    CHECK_STR(a.comm, "");
    trace_buffer_close(book);
}

TEST(the_time_in_calls_adds_up_over_all_communicators_and_counts_on_while_a_call_waits)
{
    struct collective_position a;
    struct collective_trace_comm *one = one_call_done(COLLECTIVE_BARRIER, 0);
    struct collective_trace_comm *two = comm_trace_open("pairs", 0, 2);
    for (int i = 0; i < 3; i++) {
        call(one, COLLECTIVE_ALL_REDUCE, 7, 0);
        collective_trace_done(one, clock_coarse_ms() + 100); /* 100 ms later */
        collective_trace_done(one, clock_coarse_ms() + 900); /* nothing is left to be done */
    }
    call(two, COLLECTIVE_BARRIER, 0, 0);
    trace_buffer_read(book, 1, &a);
    CHECK_INT(a.calls_done, 4);
    CHECK(a.waited_ms >= 300 && a.waited_ms < 700);
    CHECK(a.read_ms > 0);
    int64_t before_ms = a.waited_ms, read_ms = a.read_ms;
    while (clock_coarse_ms() < read_ms + 20)
        ;
    trace_buffer_read(book, 1, &a);
    CHECK_INT(a.waited_ms - before_ms, a.read_ms - read_ms); /* it is in the second one's call */
    trace_buffer_read(book, 0, &a);
    CHECK_INT(a.read_ms, 0);
    trace_buffer_close(book);
}

TEST(a_call_that_never_gets_under_way_waits_from_when_it_was_first_seen)
{
    struct collective_position a;
    struct collective_trace_comm *n = one_call_done(COLLECTIVE_BARRIER, 0);
    begin(n, COLLECTIVE_ALL_REDUCE, 7, 0);
    trace_buffer_read(book, 1, &a);
    CHECK_INT(a.waits_ms, 1);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    trace_buffer_read(book, 1, &a);
    CHECK(a.waits_ms >= 40);
    CHECK_INT(a.count, 2);
    CHECK_STR(a.calls[1].what, "all_reduce of 7 float, sum");
    CHECK(!a.calls[1].done && a.calls[1].ms >= 40);
    collective_trace_pending(n);
    collective_trace_done(n, clock_coarse_ms());
    begin(n, COLLECTIVE_ALL_REDUCE, 7, 0); /* the next call counts again */
    trace_buffer_read(book, 1, &a);
    CHECK_INT(a.waits_ms, 1);
    trace_buffer_close(book);
}

TEST(a_call_that_was_refused_was_never_made)
{
    struct collective_position a;
    struct collective_trace_comm *n = one_call_done(COLLECTIVE_ALL_REDUCE, 7);
    begin(n, COLLECTIVE_ALL_GATHER, 8, 0);
    collective_trace_refused(n);
    begin(n, COLLECTIVE_SEND, 1, 2);
    collective_trace_refused(n);
    trace_buffer_read(book, 1, &a);
    CHECK_INT(a.waits_ms, 0);
    CHECK_INT(a.count, 1);
    CHECK_INT(a.calls[0].nth, 1);
    CHECK(a.calls[0].done);
    call(n, COLLECTIVE_BARRIER, 0, 0);
    trace_buffer_read(book, 1, &a);
    CHECK(a.waits_ms > 0);
    CHECK_INT(a.calls[1].nth, 2);
    CHECK_STR(a.calls[1].what, "barrier");
    trace_buffer_close(book);
}

TEST(numbers_that_no_rank_can_have_reached_are_looked_through_all_the_same)
{
    struct collective_position a;
    open_book(1);
    struct collective_trace_comm *n = comm_trace_open("world", 1, 3);
    call(n, COLLECTIVE_ALL_REDUCE, 7, 0);
    atomic_store(&n->calls, UINT64_MAX);
    atomic_store(&n->done, UINT64_MAX);
    trace_buffer_read(book, 1, &a);
    CHECK_STR(a.comm, "world");
    CHECK_INT(a.count, 0);
    trace_buffer_close(book);
}

TEST(to_look_at_a_rank_that_notes_nothing_takes_no_memory)
{
    struct collective_position a;
    struct stat st;
    open_book(1);
    AUTO(free) char *file = trace_buffer_env(book, 0);
    *strchr(file, ':') = '\0';
    for (int i = 0; i < 3; i++) {
        trace_buffer_read(book, i, &a);
        CHECK_STR(a.comm, "");
    }
    CHECK_INT(stat(file, &st), 0);
    CHECK_INT(st.st_blocks, 0);
    struct collective_trace_comm *n = comm_trace_open("world", 1, 3);
    trace_buffer_read(book, 1, &a);
    CHECK_STR(a.comm, "world");
    CHECK_INT(stat(file, &st), 0);
    blkcnt_t of_one = st.st_blocks;
    trace_buffer_read(book, 0, &a);
    trace_buffer_read(book, 2, &a);
    CHECK_INT(stat(file, &st), 0);
    CHECK_INT(st.st_blocks, of_one);
    CHECK(n != NULL && of_one > 0);
    trace_buffer_close(book);
}

TEST(what_a_dead_rank_was_in_is_still_there)
{
    struct collective_position a;
    open_book(2);
    pid_t pid = fork();
    if (pid == 0) {
        call(comm_trace_open("world", 2, 3), COLLECTIVE_BARRIER, 0, 0);
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, NULL, 0) == pid);
    trace_buffer_read(book, 2, &a);
    CHECK_STR(a.calls[0].what, "barrier");
    CHECK(a.waits_ms > 0 && !a.calls[0].done);
    trace_buffer_close(book);
}

TEST(a_communicator_that_is_closed_makes_room_and_one_that_has_failed_stays)
{
    struct collective_position a;
    open_book(0);
    for (int i = 0; i < 3 * COLLECTIVE_TRACE_COMMS; i++) {
        struct collective_trace_comm *n = comm_trace_open("one of many", 0, 1);
        CHECK(n != NULL);
        collective_trace_close(n);
    }
    struct collective_trace_comm *n = comm_trace_open("bad", 0, 1);
    call(n, COLLECTIVE_BARRIER, 0, 0);
    collective_trace_failed(n, -ETIMEDOUT);
    collective_trace_close(n);
    trace_buffer_read(book, 0, &a);
    CHECK_STR(a.comm, "bad");
    CHECK_INT(a.failed, -ETIMEDOUT);
    struct collective_trace_comm *next = comm_trace_open("next", 0, 1);
    call(next, COLLECTIVE_BARRIER, 0, 0);
    trace_buffer_read(book, 0, &a);
    CHECK_STR(a.comm, "next");
    for (int i = 2; i < COLLECTIVE_TRACE_COMMS; i++)
        CHECK(comm_trace_open("more", 0, 1) != NULL);
    CHECK(comm_trace_open("too many", 0, 1) == NULL);
    collective_trace_close(NULL);
    collective_trace_failed(NULL, 1);
    trace_buffer_close(book);
}

TEST(without_a_launcher_and_with_nonsense_nothing_is_noted)
{
    const char *const odd[] = {"", "x", ":", "/proc/1/fd/99999:0", "/dev/null:0", "/etc/hosts:1"};
    struct collective_position a;
    unsetenv("DROVER_NOTES");
    CHECK(comm_trace_open("world", 0, 1) == NULL);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        setenv("DROVER_NOTES", odd[i], 1);
        CHECK(comm_trace_open("world", 0, 1) == NULL);
    }
    call(NULL, COLLECTIVE_BARRIER, 0, 0);
    trace_buffer_read(NULL, 0, &a);
    CHECK_STR(a.comm, "");
}

TEST(a_rank_cannot_cut_the_launchers_memory)
{
    open_book(0);
    char path[64];
    AUTO(free) char *address = trace_buffer_env(book, 0);
    snprintf(path, sizeof path, "%.*s", (int)strcspn(address, ":"), address);
    CHECK(truncate(path, 0) < 0);
    trace_buffer_close(book);
}

/* Prints the cost of a call. The limit is generous, since the machine may be busy. */
TEST(a_call_costs_tens_of_nanoseconds)
{
    struct timespec t[2];
    double best = 1e9;
    open_book(0);
    struct collective_trace_comm *n = comm_trace_open("world", 0, 1);
    for (int turn = 0; turn < 20; turn++) {
        clock_gettime(CLOCK_MONOTONIC, &t[0]);
        for (int i = 0; i < 10000; i++) {
            call(n, COLLECTIVE_ALL_REDUCE, 7, 0);
            collective_trace_done(n, clock_coarse_ms());
        }
        clock_gettime(CLOCK_MONOTONIC, &t[1]);
        double ns =
            ((double)(t[1].tv_sec - t[0].tv_sec) * 1e9 + (double)(t[1].tv_nsec - t[0].tv_nsec)) /
            10000;
        best = ns < best ? ns : best;
    }
    printf("# %.1f ns a call\n", best);
    CHECK_TIME(best < 1000);
    trace_buffer_close(book);
}
