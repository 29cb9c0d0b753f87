/* hang: which jobs hang, and which only seem to. */
#include "launcher/hang/hang.h"

#include "tests/unit/test.h"

enum { RANKS = 4, TIMEOUT_MS = 10000, STEP_MS = 1000 };

struct job {
    struct hang *h;
    struct hang_sample s[RANKS];
    int64_t now_ms;
    bool spins; /* busy ranks touch no new memory */
};

static struct job new_job(void)
{
    struct job j = {.h = hang_new(RANKS, TIMEOUT_MS, 0)};
    for (int i = 0; i < RANKS; i++)
        j.s[i] = (struct hang_sample){.seen = true, .state = 'S'};
    return j;
}

/* Samples `steps` seconds in which each rank of `busy` ("0 2") uses a whole CPU. Returns the last
 * verdict. */
static enum hang_case pass(struct job *j, int steps, const char *busy)
{
    enum hang_case v = HANG_NONE;
    for (int k = 0; k < steps && v == HANG_NONE; k++) {
        j->now_ms += STEP_MS;
        for (int i = 0; i < RANKS; i++)
            if (strchr(busy, '0' + i)) {
                j->s[i].cpu_ms += STEP_MS;
                j->s[i].faults += j->spins ? 0 : 100;
            }
        v = hang_sample_add(j->h, j->s, j->now_ms);
    }
    return v;
}

TEST(all_ranks_idle_and_silent_for_the_timeout_is_a_hang)
{
    struct job j = new_job();
    CHECK_INT(pass(&j, 9, ""), HANG_NONE);
    CHECK_INT(pass(&j, 1, ""), HANG_ALL_IDLE);
    CHECK(hang_is_idle(j.h, 3));
    hang_free(j.h);
}

TEST(one_idle_rank_among_spinning_ones_is_a_hang)
{
    struct job j = new_job();
    CHECK_INT(pass(&j, 30, "0 1 3"), HANG_NONE); /* they touch memory: they compute */
    j = (hang_free(j.h), new_job());
    j.spins = true;
    CHECK_INT(pass(&j, 30, "0 1 3"), HANG_SOME_IDLE);
    CHECK_INT(j.now_ms, TIMEOUT_MS);
    CHECK(hang_is_idle(j.h, 2) && !hang_is_idle(j.h, 1));
    hang_free(j.h);
}

TEST(ranks_that_only_use_their_cpus_may_hang_and_the_stacks_decide)
{
    struct job j = new_job();
    j.spins = true;
    CHECK_INT(pass(&j, 9, "0 1 2 3"), HANG_NONE);
    CHECK_INT(pass(&j, 1, "0 1 2 3"), HANG_POLLS);
    CHECK(!hang_is_idle(j.h, 0));
    hang_activity(j.h, 2, j.now_ms);
    CHECK_INT(pass(&j, 9, "0 1 2 3"), HANG_NONE);
    CHECK_INT(pass(&j, 1, "0 1 2 3"), HANG_POLLS);
    j.s[1].io_bytes += 64 << 10; /* one rank moves data */
    CHECK_INT(pass(&j, 1, "0 1 2 3"), HANG_NONE);
    hang_free(j.h);
}

TEST(one_rank_that_computes_while_the_others_wait_is_none)
{
    struct job j = new_job();
    CHECK_INT(pass(&j, 50, "0"), HANG_NONE);
    CHECK_INT(pass(&j, 50, "0 1"), HANG_NONE); /* half of the ranks are not fewer than half */
    hang_free(j.h);
}

TEST(a_collective_that_all_wait_in_for_the_timeout_is_a_hang_though_they_spin_and_speak)
{
    struct job j = new_job();
    for (int i = 0; i < RANKS; i++)
        j.s[i].waits_ms = TIMEOUT_MS - 1;
    CHECK_INT(pass(&j, 20, "0 1 2 3"), HANG_NONE);
    hang_activity(j.h, 0, j.now_ms);
    j.s[0].waits_ms = TIMEOUT_MS;
    CHECK_INT(pass(&j, 1, "0 1 2 3"), HANG_NONE); /* the others may not have reached it yet */
    for (int i = 0; i < RANKS; i++)
        j.s[i].waits_ms = TIMEOUT_MS;
    CHECK_INT(pass(&j, 1, "0 1 2 3"), HANG_COLLECTIVE);
    hang_free(j.h);
}

TEST(a_rank_that_computes_while_the_others_wait_in_a_collective_is_none_and_one_that_sleeps_is)
{
    struct job j = new_job();
    for (int i = 1; i < RANKS; i++)
        j.s[i].waits_ms = 3 * TIMEOUT_MS;
    CHECK_INT(pass(&j, 30, "0 1 2 3"), HANG_NONE);
    CHECK_INT(pass(&j, 9, "1 2"), HANG_NONE);
    CHECK_INT(pass(&j, 1, "1 2"), HANG_COLLECTIVE); /* rank 0 has slept for the timeout */
    hang_free(j.h);
}

TEST(half_of_the_ranks_idle_is_a_hang_if_one_waits_for_what_no_rank_provides)
{
    struct job j = new_job();
    j.spins = true;
    CHECK_INT(pass(&j, 9, "0 1"), HANG_NONE);
    CHECK_INT(pass(&j, 1, "0 1"), HANG_POLLS); /* the others may wait for these */
    j.s[2].waits_alone = true;
    CHECK_INT(pass(&j, 1, "0 1"), HANG_SOME_IDLE);
    hang_free(j.h);
}

TEST(ranks_that_touch_memory_or_read_files_compute_though_another_one_sleeps)
{
    struct job j = new_job();
    j.s[2].waits_alone = j.s[3].waits_alone = true;
    CHECK_INT(pass(&j, 50, "0 1"), HANG_NONE);
    j.spins = true;
    for (int i = 0; i < 50; i++) {
        j.s[0].io_bytes += 1 << 20;
        CHECK_INT(pass(&j, 1, "0 1"), HANG_NONE);
    }
    CHECK_INT(pass(&j, 10, "0 1"), HANG_SOME_IDLE);
    hang_free(j.h);
}

TEST(a_rank_that_only_uses_its_cpu_while_the_others_wait_hangs_after_three_timeouts)
{
    struct job j = new_job();
    j.spins = true;
    while (pass(&j, 1, "0 1") != HANG_STILL)
        CHECK(j.now_ms < 3 * TIMEOUT_MS);
    CHECK_INT(j.now_ms, 3 * TIMEOUT_MS);
    hang_free(j.h);
}

TEST(gpus_that_spin_are_a_hang_whatever_the_cpus_do)
{
    struct job j = new_job();
    j.spins = true;
    for (int i = 0; i < RANKS; i++)
        j.s[i].gpu = i == 2 ? GPU_WAIT_IDLE : GPU_WAIT_SPINS;
    CHECK_INT(pass(&j, 9, "0 1 2 3"), HANG_NONE);
    CHECK_INT(pass(&j, 1, "0 1 2 3"), HANG_GPUS_SPIN);
    CHECK(hang_spins(j.h, 0) && !hang_spins(j.h, 2));
    hang_free(j.h);
}

TEST(a_gpu_that_works_is_no_hang_though_no_cpu_does)
{
    struct job j = new_job();
    for (int i = 0; i < RANKS; i++)
        j.s[i].gpu = i == 2 ? GPU_WAIT_WORKS : GPU_WAIT_SPINS;
    CHECK_INT(pass(&j, 50, ""), HANG_NONE);
    CHECK_INT(pass(&j, 50, "0 1 3"), HANG_NONE);
    hang_free(j.h);
}

TEST(all_busy_is_none)
{
    struct job j = new_job();
    CHECK_INT(pass(&j, 50, "0 1 2 3"), HANG_NONE);
    hang_free(j.h);
}

TEST(a_line_of_any_rank_keeps_idle_ranks_from_being_a_hang)
{
    struct job j = new_job();
    for (int i = 0; i < 5; i++) {
        CHECK_INT(pass(&j, 9, ""), HANG_NONE);
        hang_activity(j.h, 1, j.now_ms);
    }
    CHECK_INT(hang_last_activity_ms(j.h, 1), j.now_ms);
    CHECK_INT(hang_last_activity_ms(j.h, 0), 0);
    CHECK_INT(pass(&j, 9, ""), HANG_NONE);
    CHECK_INT(pass(&j, 1, ""), HANG_ALL_IDLE);
    hang_free(j.h);
}

TEST(a_stopped_rank_is_a_hang_whatever_the_others_say)
{
    struct job j = new_job();
    j.s[3].state = 'T';
    for (int i = 0; i < 9; i++) {
        CHECK_INT(pass(&j, 1, "0 1 2"), HANG_NONE);
        hang_activity(j.h, 0, j.now_ms);
    }
    CHECK_INT(pass(&j, 1, "0 1 2"), HANG_STOPPED);
    hang_free(j.h);
}

TEST(a_rank_that_was_stopped_for_a_while_is_none)
{
    struct job j = new_job();
    for (int i = 0; i < 5; i++) {
        j.s[3].state = 'T';
        CHECK_INT(pass(&j, 8, "0 1 2"), HANG_NONE);
        j.s[3].state = 'R';
        CHECK_INT(pass(&j, 1, "0 1 2 3"), HANG_NONE);
    }
    hang_free(j.h);
}

TEST(a_rank_that_a_debugger_holds_is_no_hang)
{
    struct job j = new_job();
    j.s[1].state = 't';
    CHECK_INT(pass(&j, 50, ""), HANG_NONE);
    hang_free(j.h);
}

TEST(ranks_that_cannot_be_seen_are_not_judged)
{
    struct job j = new_job();
    j.s[1].seen = false;
    CHECK_INT(pass(&j, 50, ""), HANG_NONE);
    hang_free(j.h);
}

TEST(ranks_that_have_ended_do_not_count)
{
    struct job j = new_job();
    j.s[0] = j.s[1] = (struct hang_sample){.exited = true};
    CHECK_INT(pass(&j, 50, "2 3"), HANG_NONE);
    CHECK_INT(pass(&j, 10, ""), HANG_ALL_IDLE);
    j.s[2] = j.s[3] = (struct hang_sample){.exited = true};
    CHECK_INT(pass(&j, 50, ""), HANG_NONE);
    hang_free(j.h);
}

TEST(a_timer_that_ticks_is_no_progress)
{
    struct job j = new_job();
    enum hang_case v = HANG_NONE;
    for (int k = 0; k < 30 && v == HANG_NONE; k++) {
        j.now_ms += STEP_MS;
        for (int i = 0; i < RANKS; i++)
            j.s[i].cpu_ms += 10; /* 1 % */
        v = hang_sample_add(j.h, j.s, j.now_ms);
    }
    CHECK_INT(v, HANG_ALL_IDLE);
    hang_free(j.h);
}

TEST(after_a_suspension_all_times_start_anew)
{
    struct job j = new_job();
    CHECK_INT(pass(&j, 9, ""), HANG_NONE);
    j.now_ms += 3600 * 1000;
    CHECK_INT(pass(&j, 9, ""), HANG_NONE);
    hang_free(j.h);
}

TEST(the_interval_is_a_tenth_within_limits)
{
    static const int want[][2] = {{1000, 500}, {20000, 2000}, {600000, 10000}};
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        AUTO(hang) struct hang *h = hang_new(1, want[i][0], 0);
        CHECK_INT(hang_interval_ms(h), want[i][1]);
    }
}

static void check_differs(const char *const *where, int n, const char *want)
{
    bool differs[8];
    char got[16] = "";
    hang_differs(differs, where, n);
    for (int i = 0; i < n; i++)
        if (differs[i])
            strcat(got, (char[]){(char)('0' + i), '\0'});
    CHECK_STR(got, want);
}

TEST(who_stands_elsewhere_than_most_differs)
{
    check_differs((const char *[]){"a", "a", "b", "a"}, 4, "2");
    check_differs((const char *[]){"b", "a", "a", "c", "a"}, 5, "03");
    check_differs((const char *[]){"a", "a", "a"}, 3, "");
    check_differs((const char *[]){NULL, "b", "a", "a"}, 4, "1");
}

TEST(without_a_majority_nobody_differs)
{
    check_differs((const char *[]){"a", "b"}, 2, "");
    check_differs((const char *[]){"a", "b", "c"}, 3, "");
    check_differs((const char *[]){NULL, NULL}, 2, "");
}
