#include "launcher/inspect/trace_buffer.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "collectives/comm/comm_trace.h"
#include "common/clock.h"
#include "tests/unit/test.h"

static struct notebook *book;

static void open_book(int i)
{
    struct err e = {0};
    CHECK_INT(notebook_open(&book, 3, &e), 0);
    AUTO(free) char *address = notebook_address(book, i);
    setenv("DROVER_NOTES", address, 1);
}

static void begin(struct notes_comm *n, enum backend_coll coll, size_t count, int root)
{
    noting_call(n, &(struct backend_call){
                       .coll = coll, .count = count, .type = DROVER_FLOAT, .root = root});
}

static void call(struct notes_comm *n, enum backend_coll coll, size_t count, int root)
{
    begin(n, coll, count, root);
    notes_under_way(n);
}

/* A rank's communicator of three, which has made a call and is done with it. */
static struct notes_comm *one_call_done(enum backend_coll coll, size_t count)
{
    open_book(1);
    struct notes_comm *n = noting_open("world", 1, 3);
    call(n, coll, count, 0);
    notes_done(n, clock_coarse_ms());
    return n;
}

TEST(the_launcher_sees_what_a_rank_is_in_and_what_it_did_before)
{
    struct lineup_at a;
    open_book(1);
    struct notes_comm *n = noting_open("world", 1, 3);
    CHECK(n != NULL);
    for (int i = 0; i < 3000; i++) { /* around the ring and around */
        call(n, BACKEND_ALL_REDUCE, 7, 0);
        if (i % 5 == 4)
            notes_done(n, clock_coarse_ms());
    }
    notebook_read(book, 1, &a);
    CHECK_STR(a.comm, "world");
    CHECK_INT(a.size, 3);
    CHECK_INT(a.waits_ms, 0);
    CHECK_INT(a.count, LINEUP_CALLS);
    CHECK_INT(a.calls[LINEUP_CALLS - 1].nth, 3000);
    CHECK(a.calls[LINEUP_CALLS - 1].done);
    CHECK_STR(a.calls[LINEUP_CALLS - 1].what, "all_reduce of 7 float, sum");
    call(n, BACKEND_RECV, 1, 2);
    call(n, BACKEND_BROADCAST, 4, 2);
    notebook_read(book, 1, &a);
    CHECK(a.waits_ms > 0);
    CHECK_STR(a.calls[LINEUP_CALLS - 1].what, "broadcast of 4 float, root 2");
    CHECK_INT(a.calls[LINEUP_CALLS - 1].nth, 3001);
    CHECK_STR(a.calls[LINEUP_CALLS - 2].what, "recv of 1 float, rank 2");
    CHECK_INT(a.calls[LINEUP_CALLS - 2].nth, 0);
    notebook_read(book, 0, &a);
    CHECK_STR(a.comm, "");
    notebook_close(book);
}

TEST(a_call_that_never_gets_under_way_waits_from_when_it_was_first_seen)
{
    struct lineup_at a;
    struct notes_comm *n = one_call_done(BACKEND_BARRIER, 0);
    begin(n, BACKEND_ALL_REDUCE, 7, 0);
    notebook_read(book, 1, &a);
    CHECK_INT(a.waits_ms, 1);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    notebook_read(book, 1, &a);
    CHECK(a.waits_ms >= 40);
    CHECK_INT(a.count, 2);
    CHECK_STR(a.calls[1].what, "all_reduce of 7 float, sum");
    CHECK(!a.calls[1].done && a.calls[1].ms >= 40);
    notes_under_way(n);
    notes_done(n, clock_coarse_ms());
    begin(n, BACKEND_ALL_REDUCE, 7, 0); /* the next counts anew */
    notebook_read(book, 1, &a);
    CHECK_INT(a.waits_ms, 1);
    notebook_close(book);
}

TEST(a_call_that_was_refused_was_never_made)
{
    struct lineup_at a;
    struct notes_comm *n = one_call_done(BACKEND_ALL_REDUCE, 7);
    begin(n, BACKEND_ALL_GATHER, 8, 0);
    notes_refused(n);
    begin(n, BACKEND_SEND, 1, 2);
    notes_refused(n);
    notebook_read(book, 1, &a);
    CHECK_INT(a.waits_ms, 0);
    CHECK_INT(a.count, 1);
    CHECK_INT(a.calls[0].nth, 1);
    CHECK(a.calls[0].done);
    call(n, BACKEND_BARRIER, 0, 0);
    notebook_read(book, 1, &a);
    CHECK(a.waits_ms > 0);
    CHECK_INT(a.calls[1].nth, 2);
    CHECK_STR(a.calls[1].what, "barrier");
    notebook_close(book);
}

TEST(numbers_that_no_rank_can_have_reached_are_looked_through_all_the_same)
{
    struct lineup_at a;
    open_book(1);
    struct notes_comm *n = noting_open("world", 1, 3);
    call(n, BACKEND_ALL_REDUCE, 7, 0);
    atomic_store(&n->calls, UINT64_MAX);
    atomic_store(&n->done, UINT64_MAX);
    notebook_read(book, 1, &a);
    CHECK_STR(a.comm, "world");
    CHECK_INT(a.count, 0);
    notebook_close(book);
}

TEST(to_look_at_a_rank_that_notes_nothing_takes_no_memory)
{
    struct lineup_at a;
    struct stat st;
    open_book(1);
    AUTO(free) char *file = notebook_address(book, 0);
    *strchr(file, ':') = '\0';
    for (int i = 0; i < 3; i++) {
        notebook_read(book, i, &a);
        CHECK_STR(a.comm, "");
    }
    CHECK_INT(stat(file, &st), 0);
    CHECK_INT(st.st_blocks, 0);
    struct notes_comm *n = noting_open("world", 1, 3);
    notebook_read(book, 1, &a);
    CHECK_STR(a.comm, "world");
    CHECK_INT(stat(file, &st), 0);
    blkcnt_t of_one = st.st_blocks;
    notebook_read(book, 0, &a);
    notebook_read(book, 2, &a);
    CHECK_INT(stat(file, &st), 0);
    CHECK_INT(st.st_blocks, of_one);
    CHECK(n != NULL && of_one > 0);
    notebook_close(book);
}

TEST(what_a_dead_rank_was_in_is_still_there)
{
    struct lineup_at a;
    open_book(2);
    pid_t pid = fork();
    if (pid == 0) {
        call(noting_open("world", 2, 3), BACKEND_BARRIER, 0, 0);
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, NULL, 0) == pid);
    notebook_read(book, 2, &a);
    CHECK_STR(a.calls[0].what, "barrier");
    CHECK(a.waits_ms > 0 && !a.calls[0].done);
    notebook_close(book);
}

TEST(a_communicator_that_is_closed_makes_room_and_one_that_has_failed_stays)
{
    struct lineup_at a;
    open_book(0);
    for (int i = 0; i < 3 * NOTES_COMMS; i++) {
        struct notes_comm *n = noting_open("one of many", 0, 1);
        CHECK(n != NULL);
        notes_close(n);
    }
    struct notes_comm *n = noting_open("bad", 0, 1);
    call(n, BACKEND_BARRIER, 0, 0);
    notes_failed(n, -ETIMEDOUT);
    notes_close(n);
    notebook_read(book, 0, &a);
    CHECK_STR(a.comm, "bad");
    CHECK_INT(a.failed, -ETIMEDOUT);
    struct notes_comm *next = noting_open("next", 0, 1);
    call(next, BACKEND_BARRIER, 0, 0);
    notebook_read(book, 0, &a);
    CHECK_STR(a.comm, "next");
    for (int i = 2; i < NOTES_COMMS; i++)
        CHECK(noting_open("more", 0, 1) != NULL);
    CHECK(noting_open("too many", 0, 1) == NULL);
    notes_close(NULL);
    notes_failed(NULL, 1);
    notebook_close(book);
}

TEST(without_a_launcher_and_with_nonsense_nothing_is_noted)
{
    const char *const odd[] = {"", "x", ":", "/proc/1/fd/99999:0", "/dev/null:0", "/etc/hosts:1"};
    struct lineup_at a;
    unsetenv("DROVER_NOTES");
    CHECK(noting_open("world", 0, 1) == NULL);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        setenv("DROVER_NOTES", odd[i], 1);
        CHECK(noting_open("world", 0, 1) == NULL);
    }
    call(NULL, BACKEND_BARRIER, 0, 0);
    notebook_read(NULL, 0, &a);
    CHECK_STR(a.comm, "");
}

TEST(a_rank_cannot_cut_the_launchers_memory)
{
    open_book(0);
    char path[64];
    AUTO(free) char *address = notebook_address(book, 0);
    snprintf(path, sizeof path, "%.*s", (int)strcspn(address, ":"), address);
    CHECK(truncate(path, 0) < 0);
    notebook_close(book);
}

/* Prints what a call costs; the limit is wide, since machines are busy. */
TEST(a_call_costs_tens_of_nanoseconds)
{
    struct timespec t[2];
    double best = 1e9;
    open_book(0);
    struct notes_comm *n = noting_open("world", 0, 1);
    for (int turn = 0; turn < 20; turn++) {
        clock_gettime(CLOCK_MONOTONIC, &t[0]);
        for (int i = 0; i < 10000; i++) {
            call(n, BACKEND_ALL_REDUCE, 7, 0);
            notes_done(n, clock_coarse_ms());
        }
        clock_gettime(CLOCK_MONOTONIC, &t[1]);
        double ns =
            ((double)(t[1].tv_sec - t[0].tv_sec) * 1e9 + (double)(t[1].tv_nsec - t[0].tv_nsec)) /
            10000;
        best = ns < best ? ns : best;
    }
    printf("# %.1f ns a call\n", best);
    CHECK(best < 1000);
    notebook_close(book);
}
