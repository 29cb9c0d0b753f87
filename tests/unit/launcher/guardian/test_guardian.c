#include "launcher/guardian/guardian.h"

#include <fcntl.h>
#include <poll.h>

#include "launcher/guardian/process_tree.h"
#include "tests/unit/kit_guardian.h"

static struct kit k;

static struct err refuse(struct guardian_rank r)
{
    struct err e = {0};
    CHECK(guardian_spawn(k.g, 1, &r, &e) < 0);
    return e;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

/* Tells if the other end of a pipe is closed in all processes. */
static bool is_closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

TEST(kept_descriptors_stay_open_until_no_rank_is_left_and_ranks_do_not_have_them)
{
    enum { KEPT = 3 };
    int ends[KEPT][2], kept[KEPT];
    struct guardian *g = NULL;
    struct err e = {0};
    for (int i = 0; i < KEPT; i++) {
        CHECK_INT(pipe2(ends[i], O_CLOEXEC), 0);
        kept[i] = ends[i][1];
    }
    CHECK_INT(guardian_start_keeping(&g, kept, KEPT, &e), 0);
    for (int i = 0; i < KEPT; i++)
        close(ends[i][1]);
    memset(&k, 0, sizeof k);
    k.g = g;
    snprintf(k.mark, sizeof k.mark, "KIT_MARK=%d", (int)getpid());
    CHECK_INT(uv_loop_init(&k.loop), 0);
    uv_timer_init(&k.loop, &k.deadline);
    CHECK_INT(guardian_attach(g, &k.loop, &kit_watcher, &k, &e), 0);
    kit_spawn(&k, 1, 0, "test $(ls /proc/self/fd | wc -l) -le 4"); /* 0 1 2, and that of ls */
    int status = kit_await(&k, KIT_EXITED, 1, 0)->value;
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < KEPT; i++)
        CHECK(!is_closed(ends[i][0]));
    kit_close(&k);
    for (int i = 0; i < KEPT; i++)
        CHECK(is_closed(ends[i][0]));
}

/* ---- starts and exits ----------------------------------------------------------------------- */

TEST(the_exit_status_of_a_rank_is_reported)
{
    kit_open(&k);
    kit_spawn(&k, 5, 3, "exit 7");
    CHECK(kit_await(&k, KIT_STARTED, 5, 3)->value > 0);
    int status = kit_await(&k, KIT_EXITED, 5, 3)->value;
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK_INT(k.count, 2);
    CHECK_INT(k.events[0].kind, KIT_STARTED);
    kit_kill_tree(&k, 5);
    kit_close(&k);
}

TEST(the_signal_that_killed_a_rank_is_reported)
{
    kit_open(&k);
    kit_spawn(&k, 1, 0, "kill -SEGV $$");
    int status = kit_await(&k, KIT_EXITED, 1, 0)->value;
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    kit_close(&k);
}

TEST(a_rank_that_cannot_be_started_is_reported_with_the_step_and_has_no_exit)
{
    kit_open(&k);
    char *env[] = {"PATH=/usr/bin:/bin", NULL};
    struct {
        const char *program, *wdir, *cpus, *step;
        int error;
    } cases[] = {{"no-such-program", NULL, NULL, "exec", ENOENT},
                 {"/etc/passwd", NULL, NULL, "exec", EACCES},
                 {"true", "/no/such/directory", NULL, "chdir", ENOENT},
                 {"true", NULL, "nonsense", "bind", EINVAL}};
    for (int i = 0; i < (int)COUNT_OF(cases); i++) {
        char *argv[] = {(char *)cases[i].program, NULL};
        struct guardian_rank r = {.rank = i,
                                  .argv = argv,
                                  .env = env,
                                  .wdir = cases[i].wdir,
                                  .cpus = cases[i].cpus,
                                  .fds = {0, 1, 2},
                                  .report_fd = -1,
                                  .pmi_fd = -1};
        struct err e = {0};
        CHECK_INT(guardian_spawn(k.g, 1, &r, &e), 0);
        struct kit_event *ev = kit_await(&k, KIT_NOT_STARTED, 1, i);
        CHECK_STR(ev->step, cases[i].step);
        CHECK_INT(ev->value, cases[i].error);
    }
    kit_kill_tree(&k, 1);
    CHECK_INT(k.count, COUNT_OF(cases) + 1);
    kit_close(&k);
}

TEST(a_rank_has_what_it_was_given_and_no_other_descriptor)
{
    CHECK(fcntl(2, F_DUPFD, 50) == 50); /* inheritable on purpose, before the guardian is forked */
    kit_open(&k);
    int out[2], report[2], null = open("/dev/null", O_RDONLY);
    CHECK(pipe(out) == 0 && pipe(report) == 0);
    char *argv[] = {"sh", "-c", "env | sort; pwd; echo r >&3; exec ls /proc/self/fd", NULL};
    char *env[] = {"PATH=/usr/bin:/bin", "DROVER_REPORT_FD=3", NULL};
    struct guardian_rank r = {.argv = argv,
                              .env = env,
                              .wdir = "/usr",
                              .fds = {null, out[1], out[1]},
                              .report_fd = report[1],
                              .pmi_fd = -1};
    struct err e = {0};
    CHECK_INT(guardian_spawn(k.g, 1, &r, &e), 0);
    close(out[1]);
    close(report[1]);
    char *text = kit_output(&k, out[0]);
    CHECK_STR(text, "DROVER_REPORT_FD=3\nPATH=/usr/bin:/bin\nPWD=/usr\n/usr\n0\n1\n2\n3\n4\n");
    free(text);
    text = kit_output(&k, report[0]);
    CHECK_STR(text, "r\n");
    free(text);
    kit_close(&k);
}

TEST(a_rank_leads_a_group_in_our_session)
{
    kit_open(&k);
    kit_spawn(&k, 1, 0, "exec sleep 1000");
    pid_t pid = kit_await(&k, KIT_STARTED, 1, 0)->value;
    CHECK_INT(getpgid(pid), pid);
    CHECK_INT(getsid(pid), getsid(0));
    CHECK_INT(getpgid(kit_guardian(k.g)), guardian_monitor_pid(k.g));
    kit_close(&k);
    CHECK_INT(kit_living(k.mark), 0);
}

TEST(a_signal_reaches_the_groups_of_its_ranks)
{
    kit_open(&k);
    const char *script = "trap 'exit 5' TERM; sh -c 'trap \"echo child; exit\" TERM; echo up; "
                         "sleep 1000 & wait' & while :; do wait; done";
    int fd[3];
    for (int i = 0; i < 3; i++) {
        fd[i] = kit_spawn(&k, i < 2 ? 1 : 2, i, script);
        CHECK_STR(kit_line(&k, fd[i]), "up");
    }
    guardian_signal(k.g, 1, 1, SIGTERM);
    CHECK_STR(kit_line(&k, fd[1]), "child");
    CHECK_INT(WEXITSTATUS(kit_await(&k, KIT_EXITED, 1, 1)->value), 5);
    CHECK(!kit_find(&k, KIT_EXITED, 1, 0));
    guardian_signal(k.g, 1, -1, SIGTERM);
    CHECK_STR(kit_line(&k, fd[0]), "child");
    kit_await(&k, KIT_EXITED, 1, 0);
    guardian_signal(k.g, 1, 7, SIGKILL);  /* no such rank */
    guardian_signal(k.g, 9, -1, SIGKILL); /* no such job */
    kit_spawn(&k, 3, 0, "exit 0");
    kit_await(&k, KIT_EXITED, 3, 0);
    CHECK(!kit_find(&k, KIT_EXITED, 2, 2));
    kit_close(&k);
}

TEST(many_large_ranks_are_queued_and_started_in_order)
{
    enum { RANKS = 16, BYTES = 100 << 10 };
    kit_open(&k);
    char *big = xzalloc(BYTES);
    memset(big, 'x', BYTES - 1);
    memcpy(big, "BIG=", 4);
    char *argv[] = {"sh", "-c", "exit ${#BIG}", NULL}; /* modulo 256 */
    char *env[] = {"PATH=/usr/bin:/bin", big, NULL};
    for (int i = 0; i < RANKS; i++) {
        struct guardian_rank r = {
            .rank = i, .argv = argv, .env = env, .fds = {0, 1, 2}, .report_fd = -1, .pmi_fd = -1};
        struct err e = {0};
        CHECK_INT(guardian_spawn(k.g, 1, &r, &e), 0);
    }
    guardian_signal(k.g, 1, -1, SIGCONT); /* queued behind them */
    for (int i = 0; i < RANKS; i++)
        CHECK_INT(WEXITSTATUS(kit_await(&k, KIT_EXITED, 1, i)->value), (BYTES - 5) % 256);
    free(big);
    kit_close(&k);
}

TEST(a_rank_that_cannot_be_requested_is_rejected_at_once)
{
    kit_open(&k);
    char *argv[] = {"true", NULL}, *env[] = {NULL}, *none[] = {NULL};
    struct guardian_rank r = {
        .argv = argv, .env = env, .fds = {0, 1, 999}, .report_fd = -1, .pmi_fd = -1};
    CHECK_HAS(refuse(r).text, "descriptor 999");
    r.fds[2] = 2;
    r.argv = none;
    CHECK_INT(refuse(r).code, -EINVAL);
    char *big = xzalloc(5 << 20);
    memset(big, 'x', (5 << 20) - 1);
    r.argv = (char *[]){"true", big, NULL};
    CHECK_INT(refuse(r).code, -E2BIG);
    free(big);
    kit_close(&k);
}

TEST(orphans_that_end_are_reaped)
{
    kit_open(&k);
    int fd = kit_spawn(&k, 1, 0,
                       "for i in 1 2 3 4 5; do (sh -c 'exit 0' &) & done; wait; echo up; "
                       "exec sleep 1000");
    CHECK_STR(kit_line(&k, fd), "up");
    int64_t deadline = kit_now_ms() + KIT_LIMIT_MS;
    for (int children = 0; children != 1;) { /* the rank */
        struct process_tree w;
        CHECK_INT(process_tree_scan(&w), 0);
        children = 0;
        for (size_t i = 0; i < w.count; i++)
            children += w.all[i].parent == kit_guardian(k.g);
        process_tree_free(&w);
        CHECK(kit_now_ms() < deadline);
    }
    kit_await(&k, KIT_STARTED, 1, 0);
    CHECK_INT(k.count, 1);
    kit_close(&k);
}

/* ---- exits of the guardian ------------------------------------------------------------------ */

TEST(stopping_ends_ranks_and_daemons_and_leaves_no_process)
{
    kit_open(&k);
    for (int i = 0; i < 4; i++) {
        int fd = kit_spawn(&k, 1, i, DAEMON NAMELESS_DAEMON "wait");
        CHECK_STR(kit_line(&k, fd), "up");
        CHECK_STR(kit_line(&k, fd), "up");
    }
    int64_t before = kit_now_ms();
    kit_close(&k);
    int64_t took = kit_now_ms() - before;
    fprintf(stderr, "# 4 ranks with 8 daemons ended in %lld ms\n", (long long)took);
    CHECK(took < 2000); /* some 10 ms on a quiet machine */
    CHECK_INT(kit_living(k.mark), 0);
    CHECK_INT(kit_living(k.seconds), 0);
    CHECK(wait(NULL) < 0 && errno == ECHILD);
}

TEST(a_guardian_that_was_never_attached_stops)
{
    struct guardian *g = NULL;
    struct err e = {0};
    CHECK_INT(guardian_start(&g, &e), 0);
    char *argv[] = {"sleep", "1000", NULL}, *env[] = {"PATH=/usr/bin:/bin", NULL};
    struct guardian_rank r = {
        .argv = argv, .env = env, .fds = {0, 1, 2}, .report_fd = -1, .pmi_fd = -1};
    CHECK_INT(guardian_spawn(g, 1, &r, &e), 0);
    guardian_stop(g);
    guardian_stop(NULL);
    CHECK(wait(NULL) < 0 && errno == ECHILD);
}

TEST(two_guardians_of_a_process_are_independent)
{
    static struct kit a, b;
    kit_open(&a);
    kit_open(&b);
    snprintf(b.mark, sizeof b.mark, "KIT_MARK=b.%d", (int)getpid());
    kit_spawn(&a, 1, 0, "exec sleep 1000");
    kit_spawn(&b, 1, 0, "exec sleep 1000");
    kit_await(&a, KIT_STARTED, 1, 0);
    kit_await(&b, KIT_STARTED, 1, 0);
    kit_close(&a); /* its lifeline has no copy in the other */
    CHECK_INT(kit_living(a.mark), 0);
    kit_await_living(b.mark, 1);
    kit_close(&b);
    CHECK_INT(kit_living(b.mark), 0);
}

TEST(the_guardian_keeps_nothing_of_the_launcher_open)
{
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    kit_open(&k);
    kit_spawn(&k, 1, 0, "exec sleep 1000");
    kit_await(&k, KIT_STARTED, 1, 0);
    close(ends[1]);
    char byte;
    CHECK_INT(read(ends[0], &byte, 1), 0);
    kit_close(&k);
}

TEST(the_guardian_ignores_signals)
{
    kit_open(&k);
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2, SIGTSTP};
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        CHECK_INT(kill(kit_guardian(k.g), signals[i]), 0);
    kit_spawn(&k, 1, 0, "exit 3");
    CHECK_INT(WEXITSTATUS(kit_await(&k, KIT_EXITED, 1, 0)->value), 3);
    kit_close(&k);
}

TEST(ranks_do_not_ignore_what_the_launcher_ignores)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    kit_open(&k);
    kit_spawn(&k, 1, 0, "grep -q '^SigIgn:.0000000000000000$' /proc/self/status");
    CHECK_INT(kit_await(&k, KIT_EXITED, 1, 0)->value, 0);
    kit_close(&k);
}

static void kill_guardian(pid_t guardian)
{
    for (int i = 0; i < 4; i++) {
        int fd = kit_spawn(&k, 1, i, "trap '' TERM; " DAEMON "wait");
        CHECK_STR(kit_line(&k, fd), "up");
    }
    pid_t own = fork();
    if (own == 0) {
        setsid();
        alarm(TEST_LIMIT_S);
        for (;;)
            pause();
    }
    kill(guardian, SIGKILL);
    kit_await(&k, KIT_DIED, 0, -1);
    CHECK_INT(kit_living(k.mark), 0);
    CHECK_INT(waitpid(own, NULL, WNOHANG), 0);
    struct err e = {0};
    char *argv[] = {"true", NULL}, *env[] = {NULL};
    struct guardian_rank r = {
        .argv = argv, .env = env, .fds = {0, 1, 2}, .report_fd = -1, .pmi_fd = -1};
    CHECK_INT(guardian_spawn(k.g, 2, &r, &e), -EPIPE);
    guardian_signal(k.g, 1, -1, SIGTERM);
    guardian_kill_tree(k.g, 1);
    kill(own, SIGKILL);
    CHECK_INT(waitpid(own, NULL, 0), own);
    CHECK(wait(NULL) < 0 && errno == ECHILD); /* nothing is left to reap either */
    kit_close(&k);
}

TEST(when_the_guardian_is_killed_all_its_processes_end_and_ours_do_not)
{
    kit_open(&k);
    kill_guardian(kit_guardian(k.g));
}

TEST(without_a_monitor_the_launcher_ends_what_a_killed_guardian_left)
{
    kit_open_with(&k, guardian_start_unmonitored);
    kill_guardian(guardian_monitor_pid(k.g));
}

TEST(a_guardian_without_a_monitor_ends_all_with_its_launcher)
{
    kit_open_with(&k, guardian_start_unmonitored);
    int fd = kit_spawn(&k, 1, 0, DAEMON "wait");
    CHECK_STR(kit_line(&k, fd), "up");
    kit_close(&k);
    CHECK_INT(kit_living(k.mark), 0);
    CHECK(wait(NULL) < 0 && errno == ECHILD);
}

TEST(stopping_a_guardian_that_was_killed_ends_what_it_left)
{
    kit_open(&k);
    int fd = kit_spawn(&k, 1, 0, DAEMON "wait");
    CHECK_STR(kit_line(&k, fd), "up");
    kill(kit_guardian(k.g), SIGKILL);
    kit_close(&k);
    CHECK_INT(kit_living(k.mark), 0);
    CHECK(wait(NULL) < 0 && errno == ECHILD);
}

TEST(a_guardian_that_was_shut_down_ends_without_being_waited_for)
{
    struct guardian *g = NULL;
    CHECK_INT(guardian_start(&g, NULL), 0);
    guardian_shutdown(g);
    siginfo_t end = {0};
    CHECK_INT(waitid(P_PID, (id_t)guardian_monitor_pid(g), &end, WEXITED | WNOWAIT), 0);
    CHECK_INT(end.si_code, CLD_EXITED);
    CHECK_INT(end.si_status, 0);
    guardian_stop(g);
    guardian_shutdown(NULL);
}
