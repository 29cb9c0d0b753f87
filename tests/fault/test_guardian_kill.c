/* SIGKILL to the launcher, its guardian and the monitor at random moments, and forks, pipes and
 * descriptors that fail: no process stays, nothing leaks, and a rank that could not be started is
 * reported. */
#include <sys/resource.h>

#include "launcher/guardian/guardian.h"
#include "tests/unit/kit_guardian.h"

enum { RANKS = 4, KILLS = 30, SETTLE_MS = 1000, MOMENTS_US = 12000 };

static struct kit k;

/* The seed is printed; DROVER_SEED sets it. */
static unsigned seed(void)
{
    const char *given = getenv("DROVER_SEED");
    unsigned s = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)kit_now_ms();
    fprintf(stderr, "# DROVER_SEED=%u\n", s);
    return s;
}

/* Each rank has a daemon in its own session. */
static const char with_daemon[] = "setsid sleep 1000 & trap '' TERM; wait; sleep 1000";
/* And one without the rank's environment, which only its parents connect to the job. */
static const char with_daemons[] = "setsid sleep 1000 & "
                                   "(env -i /usr/bin/setsid /bin/sleep 1000 &) & "
                                   "trap '' TERM; wait; sleep 1000";

static void spawn_all(const char *script)
{
    for (int i = 0; i < RANKS; i++)
        close(kit_spawn(&k, 1, i, script));
}

/* The three processes that may be killed. */
struct family {
    pid_t launcher, guardian, monitor;
};

/* A launcher with ranks: writes the pids to `to` and then runs until the guardian has died. */
static _Noreturn void be_launcher(int to, const char *script)
{
    alarm(TEST_LIMIT_S);
    kit_open(&k);
    struct family f = {getpid(), kit_guardian(k.g), guardian_monitor_pid(k.g)};
    CHECK(write(to, &f, sizeof f) == sizeof f);
    spawn_all(script);
    while (!kit_find(&k, KIT_DIED, 0, -1))
        uv_run(&k.loop, UV_RUN_ONCE);
    _exit(0);
}

/* This process is a subreaper: whatever a killed launcher leaves, living or dead, becomes its
 * child. True once it has none. */
static bool nothing_left(void)
{
    int64_t deadline = kit_now_ms() + SETTLE_MS;
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0)
        if (pid == 0) {
            if (kit_now_ms() > deadline)
                return false;
            poll(NULL, 0, 1);
        }
    return true;
}

/* Waits a random time: the moments that are tried, not a synchronisation. */
static void random_moment(unsigned *s)
{
    struct timespec t = {.tv_nsec = (rand_r(s) % MOMENTS_US) * 1000L};
    nanosleep(&t, NULL);
}

static struct family start_launcher(const char *script)
{
    int ends[2];
    struct family f;
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    if (fork() == 0)
        be_launcher(ends[1], script);
    close(ends[1]);
    CHECK_INT(read(ends[0], &f, sizeof f), sizeof f);
    close(ends[0]);
    return f;
}

/* Kills them at once, in this order, again and again. */
static void kill_all_of(bool launcher, bool guardian, bool monitor)
{
    CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    unsigned s = seed();
    for (int i = 0; i < KILLS; i++) {
        /* Without both, the launcher cannot distinguish a daemon of unknown origin from its own
         * children. */
        struct family f = start_launcher(guardian && monitor ? with_daemon : with_daemons);
        random_moment(&s);
        if (i % 2 && launcher)
            kill(f.launcher, SIGKILL);
        if (guardian)
            kill(f.guardian, SIGKILL);
        if (monitor)
            kill(f.monitor, SIGKILL);
        if (launcher)
            kill(f.launcher, SIGKILL);
        if (!launcher && !guardian) { /* the job continues until the launcher dies */
            random_moment(&s);
            kill(f.launcher, SIGKILL);
        }
        if (!nothing_left())
            FAIL("kill %d: processes are left after %d ms", i, SETTLE_MS);
    }
}

TEST(nothing_survives_a_launcher_that_is_killed_at_any_moment)
{
    kill_all_of(true, false, false);
}

TEST(nothing_survives_a_launcher_and_its_guardian_that_are_killed_at_the_same_instant)
{
    kill_all_of(true, true, false);
}

TEST(nothing_survives_a_launcher_and_the_monitor_that_are_killed_at_the_same_instant)
{
    kill_all_of(true, false, true);
}

TEST(nothing_survives_a_guardian_and_the_monitor_that_are_killed_at_the_same_instant)
{
    kill_all_of(false, true, true);
}

TEST(a_job_whose_monitor_is_killed_is_still_ended_with_its_launcher)
{
    kill_all_of(false, false, true);
}

TEST(nothing_survives_a_guardian_that_is_killed_at_any_moment)
{
    unsigned s = seed();
    for (int i = 0; i < KILLS; i++) {
        kit_open(&k);
        spawn_all(with_daemons);
        int64_t until = kit_now_ms() + rand_r(&s) % (MOMENTS_US / 1000);
        while (kit_now_ms() < until)
            uv_run(&k.loop, UV_RUN_NOWAIT);
        kill(kit_guardian(k.g), SIGKILL);
        int64_t killed = kit_now_ms();
        kit_await(&k, KIT_DIED, 0, -1);
        CHECK(kit_now_ms() - killed < SETTLE_MS);
        kit_close(&k);
        CHECK(wait(NULL) < 0 && errno == ECHILD); /* nothing lives, nothing is left to reap */
    }
}

/* ---- what fails on the way ------------------------------------------------------------------ */

static int open_fds(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    CHECK(d);
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void limit_guardian(int what, rlim_t value)
{
    struct rlimit r;
    CHECK_INT(prlimit(kit_guardian(k.g), what, NULL, &r), 0);
    r.rlim_cur = value;
    CHECK_INT(prlimit(kit_guardian(k.g), what, &r, NULL), 0);
}

/* Started and ended, or not started at "fork": one of them, for each rank. Returns how many
 * were. */
static int outcomes(uint32_t job, int error)
{
    int started = 0;
    for (int i = 0; i < RANKS; i++) {
        uv_timer_start(&k.deadline, kit_too_late, KIT_LIMIT_MS, 0);
        struct kit_event *no = NULL;
        while (!kit_find(&k, KIT_EXITED, job, i) && !(no = kit_find(&k, KIT_NOT_STARTED, job, i)))
            uv_run(&k.loop, UV_RUN_ONCE);
        uv_timer_stop(&k.deadline);
        started += !no;
        CHECK(!no == !!kit_find(&k, KIT_STARTED, job, i));
        if (no) {
            CHECK_STR(no->step, "fork");
            CHECK_INT(no->value, error);
        }
    }
    return started;
}

static int spawn_short(uint32_t job, int error)
{
    for (int i = 0; i < RANKS; i++)
        close(kit_spawn(&k, job, i, "exit 0"));
    return outcomes(job, error);
}

TEST(a_rank_without_descriptors_is_reported_and_nothing_leaks)
{
    kit_open(&k);
    CHECK_INT(spawn_short(1, 0), RANKS);
    kit_kill_tree(&k, 1);
    int before = open_fds(kit_guardian(k.g)), none = 0, all = 0;
    struct rlimit old;
    CHECK_INT(prlimit(kit_guardian(k.g), RLIMIT_NOFILE, NULL, &old), 0);
    uint32_t job = 2;
    for (rlim_t limit = 3; limit < 24; limit++, job++) {
        limit_guardian(RLIMIT_NOFILE, limit);
        int started = spawn_short(job, EMFILE);
        none += started == 0;
        all += started == RANKS;
        limit_guardian(RLIMIT_NOFILE, old.rlim_cur);
        kit_kill_tree(&k, job);
        CHECK_INT(open_fds(kit_guardian(k.g)), before);
    }
    CHECK(none > 0 && all > 0);
    kit_close(&k);
    CHECK_INT(kit_living(k.mark), 0);
}

#ifndef __SANITIZE_THREAD__ /* it starts a thread in each fork, which the limit counts */
/* The limit on processes does not bind root, so the test gives root up, for a user that nobody is:
 * then only our own processes count. */
TEST(a_failed_fork_is_reported_and_the_other_ranks_run)
{
    uid_t nobody = 0x40000000 + (uid_t)getpid();
    if (setuid(nobody) < 0)
        SKIP("needs root, to become a user without other processes");
    prctl(PR_SET_DUMPABLE, 1); /* /proc/PID/fd must be readable */
    kit_open(&k);
    for (int i = 0; i < RANKS; i++) /* they hold the places, so that the k-th fork is the k-th */
        close(kit_spawn(&k, 99, i, "exec sleep 1000"));
    for (int i = 0; i < RANKS; i++)
        kit_await(&k, KIT_STARTED, 99, i);
    kit_kill_tree(&k, 98); /* answered after all of the above */
    int before = open_fds(kit_guardian(k.g));
    for (int room = 0; room <= RANKS; room++) {
        limit_guardian(RLIMIT_NPROC,
                       (rlim_t)(3 + RANKS + room)); /* this process, monitor, guardian */
        uint32_t job = (uint32_t)room + 1;
        for (int i = 0; i < RANKS; i++)
            close(kit_spawn(&k, job, i, "exec sleep 1000"));
        for (int i = 0; i < RANKS; i++) {
            if (i < room) {
                kit_await(&k, KIT_STARTED, job, i);
                continue;
            }
            struct kit_event *no = kit_await(&k, KIT_NOT_STARTED, job, i);
            CHECK_STR(no->step, "fork");
            CHECK_INT(no->value, EAGAIN);
        }
        kit_kill_tree(&k, job);
        CHECK_INT(open_fds(kit_guardian(k.g)), before);
    }
    CHECK(!kit_find(&k, KIT_EXITED, 99, 0));
    kit_close(&k);
    CHECK_INT(kit_living(k.mark), 0);
}
#endif
