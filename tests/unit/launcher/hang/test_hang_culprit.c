/* hang_culprit: what is known of ranks, and who is the culprit. */
#include "launcher/hang/hang_culprit.h"

#include "tests/unit/test.h"

enum { RANKS = 4 };

struct job {
    struct hang_rank ranks[RANKS];
    struct rank_status status[RANKS];
};

/* Four ranks that wait for each other: in a futex, as those of gloo do. */
static void start(struct job *j)
{
    *j = (struct job){0};
    for (int i = 0; i < RANKS; i++) {
        j->status[i] = (struct rank_status){
            .root = 100 + i,
            .at = {.pid = 100 + i, .state = 'S', .name = "python3", .call = "futex"}};
        j->ranks[i] = (struct hang_rank){
            .node = "c05", .status = &j->status[i], .idle = true, .still_ms = 312000};
    }
}

static void waits_in(struct job *j, int rank, const char *call, const char *target)
{
    struct process_wait *w = &j->status[rank].at;
    snprintf(w->call, sizeof w->call, "%s", call);
    snprintf(w->target, sizeof w->target, "%s", target);
}

static void is_in(struct job *j, int rank, const char *collective)
{
    j->ranks[rank].has_stack = true;
    snprintf(j->ranks[rank].collective, sizeof j->ranks[rank].collective, "%s", collective);
}

static void spins(struct job *j, int rank)
{
    j->status[rank].at.state = 'R';
    j->status[rank].at.call[0] = '\0';
    j->ranks[rank].idle = false;
}

/* Checks the class, the culprits ("1 3"), and words of the sentence. */
static void check(const struct job *j, const char *class, const char *culprits, const char *words)
{
    bool in[RANKS] = {0};
    AUTO(strbuf) struct strbuf got = {0};
    struct hang_culprit c = {.culprits = in};
    hang_culprit_find(&c, j->ranks, RANKS, 0);
    for (int i = 0; i < RANKS; i++)
        if (in[i])
            strbuf_printf(&got, "%s%d", got.len > 0 ? " " : "", i);
    CHECK_STR(c.class, class);
    CHECK_STR(strbuf_str(&got), culprits);
    CHECK_HAS(strbuf_str(&c.sentence), words);
    strbuf_free(&c.sentence);
}

TEST(a_rank_that_reads_a_file_is_named_with_the_file_the_time_and_the_line)
{
    struct job j;
    start(&j);
    waits_in(&j, 3, "read", "FIFO /data/x");
    snprintf(j.ranks[3].place, sizeof j.ranks[3].place, "train.py:212");
    check(&j, "input", "3",
          "rank 3 on c05 waits for input: FIFO /data/x; it has waited in read for 312 s "
          "(train.py:212)");
}

TEST(several_culprits_share_one_sentence)
{
    struct job j;
    start(&j);
    waits_in(&j, 1, "read", "stdin");
    waits_in(&j, 2, "read", "stdin");
    check(&j, "input", "1 2", "ranks 1-2 wait for input: stdin");
}

TEST(what_a_rank_waits_for_alone_has_a_class)
{
    static const struct {
        const char *call, *target, *class;
    } cases[] = {
        {"nanosleep", "", "missing"},
        {"poll", "nothing", "missing"},
        {"openat", "/x", "input"},
        {"write", "stdout", "output"},
        {"wait4", "", "child"},
        {"recvfrom", "TCP 10.0.0.1:80", "remote"},
        {"poll", "TCP 10.0.0.1:80", "remote"},
        {"connect", "TCP 10.0.0.1:80, connecting", "network"},
        {"flock", "/x", "file lock"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct job j;
        start(&j);
        waits_in(&j, 2, cases[i].call, cases[i].target);
        check(&j, cases[i].class, "2", "rank 2 on c05 ");
    }
}

TEST(the_holder_of_a_file_lock_is_the_culprit_and_not_those_that_wait)
{
    struct job j;
    start(&j);
    for (int i = 1; i < RANKS; i++) {
        waits_in(&j, i, "flock", "/cache.lock");
        j.status[i].holder = 500;
        j.status[i].holder_root = 100;
    }
    check(&j, "file lock", "0",
          "rank 0 on c05 holds the lock of /cache.lock, for which ranks 1-3 wait");
    j.ranks[0].node = "c06"; /* the same pid on another node is another process */
    check(&j, "file lock", "1 2 3", "process 500 holds");
}

TEST(a_rank_that_is_stopped_or_uninterruptible_is_the_culprit)
{
    struct job j;
    start(&j);
    j.status[1].at.state = 'T';
    check(&j, "stopped", "1", "is stopped");
    j.status[1].at.state = 'D';
    check(&j, "file system", "1", "does not answer");
}

TEST(a_worker_that_waits_makes_its_rank_the_culprit)
{
    struct job j;
    start(&j);
    waits_in(&j, 0, "poll", "pipe");
    j.status[0].child =
        (struct process_wait){.pid = 9, .state = 'S', .name = "pt_data_worker", .call = "read"};
    snprintf(j.status[0].child.target, sizeof j.status[0].child.target, "FIFO /x");
    check(&j, "data", "0", "process 9 (pt_data_worker), which waits in read of FIFO /x");
    snprintf(j.status[0].child.call, sizeof j.status[0].child.call, "futex");
    check(&j, "data", "0", "which waits in futex");
}

TEST(a_traceback_that_ends_the_output_is_stronger_than_a_wait)
{
    struct job j;
    start(&j);
    j.ranks[2].lines =
        (struct hang_lines){.traceback = HANG_TRACEBACK_ENDED, .error = "ValueError: x"};
    waits_in(&j, 3, "nanosleep", "");
    check(&j, "failed, not ended", "2", "ValueError: x, and the process has not ended");
}

TEST(ranks_that_have_ended_are_gone_unless_they_are_the_most)
{
    struct job j;
    start(&j);
    j.ranks[1].ended = true;
    check(&j, "gone", "1", "rank 1 on c05 has ended with status 0");
    j.ranks[2].ended = j.ranks[3].ended = true;
    check(&j, "uneven data", "1 2 3", "more steps or batches");
}

TEST(the_fewer_ones_in_another_call_are_the_culprits_and_of_two_both)
{
    struct job j;
    start(&j);
    for (int i = 0; i < RANKS; i++)
        is_in(&j, i, i == 2 ? "broadcast" : "all_reduce");
    check(&j, "different call", "2", "is in broadcast while most ranks are in all_reduce");
    for (int i = 0; i < RANKS; i++)
        is_in(&j, i, i < 2 ? "broadcast" : "all_reduce");
    check(&j, "different call", "0 1 2 3", "broadcast and broadcast and all_reduce");
}

TEST(a_rank_outside_of_the_collective_waits_for_a_lock_or_loops)
{
    struct job j;
    start(&j);
    for (int i = 0; i < RANKS; i++)
        is_in(&j, i, i == 1 ? "" : "all_reduce");
    check(&j, "lock", "1", "for a lock or a thread");
    spins(&j, 1);
    check(&j, "loop", "1", "an endless loop");
}

TEST(one_idle_rank_among_spinning_ones_has_not_come)
{
    struct job j;
    start(&j);
    for (int i = 0; i < RANKS; i++)
        if (i != 2)
            spins(&j, i);
    waits_in(&j, 2, "nanosleep", "");
    is_in(&j, 0, "MPI_Barrier");
    check(&j, "missing", "2",
          "rank 2 on c05 did not reach MPI_Barrier; it has waited in nanosleep");
    waits_in(&j, 2, "epoll_wait", "");
    j.ranks[0].has_stack = false;
    j.ranks[0].collective[0] = '\0';
    check(&j, "missing", "2", "did not reach the point where the other ranks wait");
}

TEST(who_does_not_come_to_the_rendezvous_is_named_and_not_who_waits_there)
{
    struct job j;
    start(&j);
    for (int i = 0; i < RANKS; i++) {
        waits_in(&j, i, i == 3 ? "nanosleep" : "recvfrom",
                 i == 3 ? "" : "TCP ::ffff:10.0.0.1:29500");
        j.status[i].at_rendezvous = i != 3;
    }
    check(&j, "start", "3", "did not come to the start of the job");
}

TEST(a_ring_of_receives_and_gpus_that_all_spin_have_no_culprit)
{
    struct job j;
    start(&j);
    check(&j, "unknown", "", "nothing tells one from the others");
    for (int i = 0; i < RANKS; i++)
        is_in(&j, i, "recv");
    check(&j, "cycle", "", "wait for a message of each other");
    start(&j);
    for (int i = 0; i < RANKS; i++) {
        spins(&j, i);
        j.ranks[i].gpu_spins = true;
    }
    check(&j, "network", "", "all GPUs wait in a collective");
    j.ranks[1].ras = RAS_BEHIND;
    check(&j, "missing", "1", "behind the other ranks in NCCL");
    j.ranks[1].gpu_lost = true;
    check(&j, "GPU", "1", "lost the GPU");
}
