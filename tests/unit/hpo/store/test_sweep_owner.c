/* sweep_owner: one process may write to a sweep, also if locks are not shared. */
#include "hpo/store/sweep_owner.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "tests/unit/test.h"

static char dir[64];

static void in_new_dir(void)
{
    strcpy(dir, "/tmp/test_owner.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
}

static void remove_dir(void)
{
    AUTO(free) char *cmd = xasprintf("rm -rf %s", dir);
    CHECK_INT(system(cmd), 0);
}

static char *in_dir(const char *file)
{
    return xasprintf("%s/%s", dir, file);
}

/* Another view of the directory does not see the lock of this one. */
static void in_another_view(void)
{
    AUTO(free) char *lock = in_dir("lock");
    (void)unlink(lock);
}

static struct sweep_owner *own(void)
{
    struct sweep_owner *o = NULL;
    struct err e = {0};
    if (sweep_owner_acquire(&o, dir, NULL, &e) < 0)
        FAIL("%s", e.text);
    return o;
}

/* A line as another machine writes it. */
static void write_line(const char *number, const char *count)
{
    AUTO(free) char *path = in_dir("owner");
    AUTO(free)
    char *text = xasprintf("%s %s 77 4242 other-boot pid:[1] 8.1.2a c03\n", number, count);
    CHECK_INT(file_replace(path, text, strlen(text), 0600), 0);
}

TEST(an_owner_runs_until_it_is_gone_or_stands_still)
{
    static const enum sweep_owner_verdict none = SWEEP_OWNER_NONE, runs = SWEEP_OWNER_RUNS,
                                          wait = SWEEP_OWNER_UNDECIDED;
    static const struct {
        enum sweep_owner_process p;
        enum sweep_owner_verdict first, moved, still, moved_late;
    } rows[] = {
        {SWEEP_OWNER_GONE, none, none, none, none},
        {SWEEP_OWNER_LIVES, runs, runs, runs, runs},
        {SWEEP_OWNER_UNSEEN, wait, runs, none, runs},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_INT(sweep_owner_judge(rows[i].p, false, 0), rows[i].first);
        CHECK_INT(sweep_owner_judge(rows[i].p, false, SWEEP_OWNER_WATCH_MS - 1), rows[i].first);
        CHECK_INT(sweep_owner_judge(rows[i].p, true, 0), rows[i].moved);
        CHECK_INT(sweep_owner_judge(rows[i].p, false, SWEEP_OWNER_WATCH_MS), rows[i].still);
        CHECK_INT(sweep_owner_judge(rows[i].p, true, SWEEP_OWNER_WATCH_MS), rows[i].moved_late);
    }
    CHECK(SWEEP_OWNER_WATCH_MS >= 5 * SWEEP_OWNER_BEAT_MS);
}

TEST(an_owner_on_this_machine_is_refused_at_once_and_succeeded_at_once_when_it_is_killed)
{
    in_new_dir();
    int ready[2];
    CHECK_INT(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        own();
        (void)!write(ready[1], "y", 1);
        for (;;)
            pause();
    }
    char c;
    CHECK_INT(read(ready[0], &c, 1), 1);
    in_another_view();
    kill(pid, SIGSTOP); /* it still is the owner */
    struct err e = {0};
    struct sweep_owner *o = NULL;
    AUTO(free) char *name = xasprintf("process %d on ", (int)pid);
    int64_t before = clock_ms();
    CHECK_INT(sweep_owner_acquire(&o, dir, NULL, &e), -EBUSY);
    CHECK_HAS(e.text, name);
    struct lockfile_owner seen = sweep_owner_read(dir);
    CHECK(seen.held);
    CHECK_INT(seen.pid, pid);
    kill(pid, SIGKILL);
    siginfo_t info;
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0); /* nobody has reaped it */
    CHECK(!sweep_owner_read(dir).held);
    sweep_owner_release(own());
    CHECK(clock_ms() - before < SWEEP_OWNER_WATCH_MS);
    waitpid(pid, NULL, 0);
    remove_dir();
}

TEST(the_owner_of_a_sweep_is_not_that_of_its_copy)
{
    in_new_dir();
    AUTO(free) char *copy = xasprintf("%s.copy", dir), *was = xstrdup(dir);
    struct sweep_owner *o = own();
    AUTO(free) char *cp = xasprintf("cp -a %s %s", dir, copy);
    CHECK_INT(system(cp), 0);
    strcpy(dir, copy);
    CHECK(!sweep_owner_read(dir).held);
    int64_t before = clock_ms();
    sweep_owner_release(own());
    CHECK(clock_ms() - before < 1000);
    remove_dir();
    strcpy(dir, was);
    CHECK(sweep_owner_read(dir).held);
    CHECK_INT(sweep_owner_check(o, NULL), 0);
    sweep_owner_release(o);
    remove_dir();
}

TEST(a_released_sweep_has_no_owner_whoever_it_was)
{
    in_new_dir();
    write_line("00000000000000aa", "released  ");
    struct sweep_owner_watch w = {0};
    struct sweep_owner *o = NULL;
    CHECK_INT(sweep_owner_acquire(&o, dir, &w, NULL), 0);
    CHECK(sweep_owner_read(dir).held);
    sweep_owner_release(o);
    CHECK(!sweep_owner_read(dir).held);
    sweep_owner_release(own());
    remove_dir();
}

TEST(an_owner_of_another_machine_is_watched_until_its_counter_moves_or_the_time_is_over)
{
    in_new_dir();
    struct err e = {0};
    struct sweep_owner *o = NULL;
    struct sweep_owner_watch w = {0}, other = {0};
    write_line("00000000000000aa", "0000000007");
    CHECK_INT(sweep_owner_acquire(&o, dir, &w, &e), -EBUSY);
    CHECK(w.undecided);
    CHECK_HAS(e.text, "process 77 on c03");
    CHECK(sweep_owner_read(dir).held);
    write_line("00000000000000aa", "0000000008");
    CHECK_INT(sweep_owner_acquire(&o, dir, &w, &e), -EBUSY);
    CHECK(!w.undecided);
    CHECK_INT(sweep_owner_acquire(&o, dir, &other, &e), -EBUSY);
    other.since_ms -= SWEEP_OWNER_WATCH_MS;
    write_line("00000000000000bb", "0000000008"); /* another opening has its own time */
    CHECK_INT(sweep_owner_acquire(&o, dir, &other, &e), -EBUSY);
    CHECK(other.undecided);
    other.since_ms -= SWEEP_OWNER_WATCH_MS;
    CHECK_INT(sweep_owner_acquire(&o, dir, &other, &e), 0);
    CHECK(!other.undecided);
    CHECK_INT(sweep_owner_check(o, &e), 0);
    sweep_owner_release(o);
    remove_dir();
}

TEST(an_owner_that_was_succeeded_notices_and_leaves_the_line_alone)
{
    in_new_dir();
    struct err e = {0};
    struct sweep_owner *o = own();
    CHECK_INT(sweep_owner_check(o, &e), 0);
    CHECK_INT(sweep_owner_beat(o, &e), 0);
    write_line("00000000000000cc", "0000000003");
    AUTO(free) char *path = in_dir("owner"), *line = file_line(path);
    CHECK_INT(sweep_owner_check(o, &e), -EOWNERDEAD);
    CHECK_HAS(e.text, "process 77 on c03 has taken over");
    sweep_owner_release(o);
    AUTO(free) char *after = file_line(path);
    CHECK_STR(after, line);
    remove_dir();
}

TEST(an_owner_that_died_between_its_two_steps_is_found_and_succeeded)
{
    in_new_dir();
    write_line("00000000000000aa", "0000000007");
    AUTO(free) char *path = in_dir("owner"), *next = in_dir("owner.00000000000000aa");
    AUTO(free) char *after = in_dir("owner.00000000000000bb");
    AUTO(free) char *text = file_text(path);
    memcpy(text, "00000000000000bb", 16);
    memcpy(text + 17, "released  ", 10);
    CHECK_INT(file_replace(next, text, strlen(text), 0600), 0);
    struct sweep_owner *o = own();
    CHECK_INT(sweep_owner_check(o, NULL), 0);
    CHECK(access(after, F_OK) < 0);
    sweep_owner_release(o);
    remove_dir();
}

enum { ROUNDS = 60, AT_ONCE = 5 };

TEST(of_several_at_the_same_moment_one_becomes_the_owner)
{
    for (int i = 0; i < ROUNDS; i++) {
        in_new_dir();
        if (i % 2)
            write_line("00000000000000aa", "released  ");
        int go[2], done[2], owners = 0, busy = 0;
        CHECK_INT(pipe(go), 0);
        CHECK_INT(pipe(done), 0);
        pid_t pids[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) {
            pids[k] = fork();
            if (pids[k] == 0) {
                struct sweep_owner *o = NULL;
                char c;
                close(go[1]);
                (void)!read(go[0], &c, 1);
                int rc;
                do { /* the lock of another view may be there for a moment */
                    struct err e = {0};
                    in_another_view();
                    rc = sweep_owner_acquire(&o, dir, NULL, &e);
                    c = rc == 0 ? 'o' : strstr(e.text, "/owner") ? 'b' : '?';
                } while (c == '?');
                (void)!write(done[1], &c, 1);
                for (;;)
                    pause();
            }
        }
        close(go[0]);
        close(go[1]);
        for (int k = 0; k < AT_ONCE; k++) {
            char c;
            CHECK_INT(read(done[0], &c, 1), 1);
            owners += c == 'o';
            busy += c == 'b';
        }
        CHECK_INT(owners, 1);
        CHECK_INT(busy, AT_ONCE - 1);
        for (int k = 0; k < AT_ONCE; k++) {
            kill(pids[k], SIGKILL);
            waitpid(pids[k], NULL, 0);
        }
        close(done[0]);
        close(done[1]);
        AUTO(free) char *left = xasprintf("test -z \"$(ls %s | grep '[.]')\"", dir);
        CHECK_INT(system(left), 0); /* no file but `owner` and `lock` */
        remove_dir();
    }
}
