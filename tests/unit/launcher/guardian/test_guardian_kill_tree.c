#include "launcher/guardian/guardian.h"

#include "launcher/guardian/process_tree.h"
#include "tests/unit/kit_guardian.h"

static struct kit k;

/* ---- helpers that the tests start as ranks: this program again, with KIT_ROLE --------------- */

/* Escapes every scan: each process lives only until it has forked the next, in a
 * session of its own. Ends by itself after some seconds, so that a failure leaves nothing. */
static void comet(void)
{
    (void)!write(1, "up\n", 3);
    for (int i = 0; i < 20000; i++) {
        pid_t pid = fork();
        if (pid != 0)
            _exit(0);
        setsid();
    }
    _exit(0);
}

/* Exits at the same time as the parent of the daemon that it leaves. */
static void shed(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            setsid();
            poll(NULL, 0, 20000);
        }
        _exit(0);
    }
    for (volatile int i = getpid() % 64 * 2000; i > 0; i--)
        ;
    _exit(0);
}

__attribute__((constructor)) static void role(void)
{
    const char *want = getenv("KIT_ROLE");
    if (want && strcmp(want, "comet") == 0)
        comet();
    if (want && strcmp(want, "shed") == 0)
        shed();
}

/* ---- what is killed ------------------------------------------------------------------------- */

TEST(the_last_exit_of_a_job_that_leaves_nothing_reports_it_as_reaped)
{
    kit_open(&k);
    int in[2];
    CHECK(pipe2(in, O_CLOEXEC) == 0);
    char script[64];
    snprintf(script, sizeof script, "read x < /proc/%d/fd/%d", (int)getpid(), in[0]);
    kit_spawn(&k, 3, 0, script);
    kit_spawn(&k, 3, 1, "exit 5");
    CHECK(!kit_await(&k, KIT_EXITED, 3, 1)->reaped); /* the other runs */
    kit_spawn(&k, 4, 0, "true");
    CHECK(kit_await(&k, KIT_EXITED, 4, 0)->reaped);
    CHECK(write(in[1], "\n", 1) == 1);
    CHECK(kit_await(&k, KIT_EXITED, 3, 0)->reaped);
    kit_spawn(&k, 5, 0, DAEMON "exit 0");
    CHECK(!kit_await(&k, KIT_EXITED, 5, 0)->reaped);
    kit_kill_tree(&k, 3); /* not needed, and harmless */
    kit_kill_tree(&k, 5);
    close(in[0]);
    close(in[1]);
    kit_close(&k);
}

TEST(a_job_with_another_requested_rank_is_not_reaped)
{
    kit_open(&k);
    for (int job = 1; job <= 30; job++) { /* the first may exit before the second has started */
        kit_spawn(&k, (uint32_t)job, 0, "true");
        kit_spawn(&k, (uint32_t)job, 1, "exec sleep 1000");
        CHECK(!kit_await(&k, KIT_EXITED, (uint32_t)job, 0)->reaped);
        kit_await(&k, KIT_STARTED, (uint32_t)job, 1);
        kit_kill_tree(&k, (uint32_t)job);
        CHECK(kit_find(&k, KIT_EXITED, (uint32_t)job, 1));
    }
    char *no[] = {"no-such-program", NULL};
    kit_spawn_argv(&k, 40, 0, no);
    kit_spawn(&k, 40, 1, "true");
    CHECK(kit_await(&k, KIT_EXITED, 40, 1)->reaped);
    kit_spawn(&k, 41, 0, "true");
    kit_spawn_argv(&k, 41, 1, no);
    const struct kit_event *none = kit_await(&k, KIT_NOT_STARTED, 41, 1);
    const struct kit_event *end = kit_await(&k, KIT_EXITED, 41, 0);
    CHECK(end->reaped == (end > none)); /* reported after it */
    kit_kill_tree(&k, 41);
    kit_close(&k);
}

TEST(an_unknown_job_is_reaped)
{
    kit_open(&k);
    kit_kill_tree(&k, 77);
    kit_close(&k);
}

TEST(kill_tree_ends_a_daemon_that_a_rank_left)
{
    kit_open(&k);
    int fd = kit_spawn(&k, 1, 0, DAEMON "exit 0");
    CHECK_STR(kit_line(&k, fd), "up");
    kit_await(&k, KIT_EXITED, 1, 0);
    kit_await_living(k.mark, 1);
    kit_kill_tree(&k, 1);
    CHECK_INT(kit_living(k.mark), 0);
    kit_close(&k);
}

TEST(kill_tree_ends_ranks_that_still_run_and_reports_their_exits_first)
{
    kit_open(&k);
    for (int i = 0; i < 4; i++) {
        int fd = kit_spawn(&k, 1, i, "trap '' TERM INT HUP; " DAEMON "wait");
        CHECK_STR(kit_line(&k, fd), "up");
    }
    kit_kill_tree(&k, 1);
    CHECK_INT(kit_living(k.mark), 0);
    for (int i = 0; i < 4; i++)
        CHECK_INT(WTERMSIG(kit_find(&k, KIT_EXITED, 1, i)->value), SIGKILL);
    CHECK_INT(k.events[k.count - 1].kind, KIT_REAPED);
    kit_close(&k);
}

TEST(kill_tree_of_one_job_leaves_the_daemons_of_another)
{
    kit_open(&k);
    for (int job = 1; job <= 2; job++) {
        int fd = kit_spawn(&k, (uint32_t)job, 0, DAEMON "exit 0");
        CHECK_STR(kit_line(&k, fd), "up");
        kit_await(&k, KIT_EXITED, (uint32_t)job, 0);
    }
    kit_await_living(k.mark, 2);
    kit_kill_tree(&k, 1);
    kit_await_living(k.mark, 1);
    char second[64];
    snprintf(second, sizeof second, "DROVER_JOB_ID=job-2-%d", (int)getpid());
    kit_await_living(second, 1);
    kit_kill_tree(&k, 2);
    CHECK_INT(kit_living(k.mark), 0);
    kit_close(&k);
}

TEST(kill_tree_ends_the_descendants_of_a_daemon_that_dropped_its_environment)
{
    kit_open(&k);
    kit_spawn(&k, 2, 0, "exec sleep 1000"); /* so that unknown orphans are left alone */
    kit_await(&k, KIT_STARTED, 2, 0);
    int fd = kit_spawn(&k, 1, 0,
                       "env -i /usr/bin/setsid /bin/sh -c 'setsid sleep %s & echo up; wait' "
                       "& wait");
    CHECK_STR(kit_line(&k, fd), "up");
    kit_kill_tree(&k, 1);
    CHECK_INT(kit_living(k.seconds), 0);
    CHECK(!kit_find(&k, KIT_EXITED, 2, 0));
    kit_close(&k);
}

TEST(an_orphan_without_a_mark_is_known_by_the_group_of_its_rank)
{
    kit_open(&k);
    kit_spawn(&k, 2, 0, "exec sleep 1000");
    kit_await(&k, KIT_STARTED, 2, 0);
    int fd = kit_spawn(&k, 1, 0, "env -i /bin/sh -c 'echo up; exec /bin/sleep %s' & exit 0");
    CHECK_STR(kit_line(&k, fd), "up");
    kit_await(&k, KIT_EXITED, 1, 0);
    kit_kill_tree(&k, 1);
    CHECK_INT(kit_living(k.seconds), 0);
    CHECK(!kit_find(&k, KIT_EXITED, 2, 0));
    kit_close(&k);
}

TEST(a_daemon_of_unknown_origin_is_killed_with_the_last_job_that_existed_at_its_start)
{
    kit_open(&k);
    kit_spawn(&k, 1, 0, "exec sleep 1000");
    kit_await(&k, KIT_STARTED, 1, 0);
    int fd = kit_spawn(&k, 2, 0, NAMELESS_DAEMON "exit 0");
    CHECK_STR(kit_line(&k, fd), "up");
    kit_await(&k, KIT_EXITED, 2, 0);
    uint64_t born = process_tree_clock();
    kit_kill_tree(&k, 2);
    kit_await_living(k.seconds, 1);      /* it may be job 1's */
    while (process_tree_clock() <= born) /* the kernel counts starts in hundredths of a second */
        ;
    kit_spawn(&k, 3, 0, "exec sleep 1000"); /* started later: not its own */
    kit_await(&k, KIT_STARTED, 3, 0);
    kit_kill_tree(&k, 1);
    CHECK_INT(kit_living(k.seconds), 0);
    CHECK(!kit_find(&k, KIT_EXITED, 3, 0));
    kit_close(&k);
}

TEST(a_process_that_forks_all_the_time_is_killed)
{
    kit_open(&k);
    int fd = kit_spawn(&k, 1, 0,
                       "echo up; i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); setsid sleep 1000 & "
                       "(sleep 1000 &) done");
    CHECK_STR(kit_line(&k, fd), "up");
    kit_kill_tree(&k, 1);
    CHECK_INT(kit_living(k.mark), 0);
    kit_close(&k);
}

/* `kit_role`: "KIT_ROLE=comet", of those above. */
static int spawn_role(uint32_t job, const char *kit_role)
{
    char id[64];
    snprintf(id, sizeof id, "DROVER_JOB_ID=job-%u-%d", job, (int)getpid());
    char *argv[] = {"/proc/self/exe", NULL};
    char exe[512] = "";
    CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    argv[0] = exe;
    char *env[] = {(char *)kit_role, id, k.mark, NULL};
    int ends[2];
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    struct guardian_rank r = {
        .argv = argv, .env = env, .fds = {0, ends[1], 2}, .report_fd = -1, .pmi_fd = -1};
    struct err e = {0};
    CHECK_INT(guardian_spawn(k.g, job, &r, &e), 0);
    close(ends[1]);
    return ends[0];
}

TEST(a_process_that_escapes_scans_by_forking_is_killed)
{
    kit_open(&k);
    int fd = spawn_role(1, "KIT_ROLE=comet");
    CHECK_STR(kit_line(&k, fd), "up");
    kit_kill_tree(&k, 1);
    CHECK_INT(kit_living(k.mark), 0);
    kit_close(&k);
}

TEST(a_daemon_whose_parent_ends_with_the_rank_is_not_overlooked)
{
    kit_open(&k);
    kit_spawn(&k, 1, 0,
              "exec sleep 1000"); /* an orphan of unknown origin would be killed with it */
    kit_await(&k, KIT_STARTED, 1, 0);
    for (uint32_t job = 2; job < 600; job++) {
        close(spawn_role(job, "KIT_ROLE=shed"));
        if (!kit_await(&k, KIT_EXITED, job, 0)->reaped)
            kit_kill_tree(&k, job);
        CHECK_INT(kit_living(k.mark), 1);
    }
    kit_kill_tree(&k, 1);
    kit_close(&k);
}
