#include "launcher/guardian/process_tree.h"

#include <sys/prctl.h>

#include "tests/unit/test.h"

/* Forks a child that waits until it is killed. Returns when the child is ready. `name` may be
 * NULL. */
static pid_t child(const char *name, void (*first)(void))
{
    int ready[2];
    CHECK_INT(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(TEST_LIMIT_S);
        if (name)
            prctl(PR_SET_NAME, name);
        if (first)
            first();
        (void)!write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    char byte;
    close(ready[1]);
    CHECK_INT(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static int status_of(pid_t pid)
{
    int status;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return status;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    status_of(pid);
}

static void lead_a_session(void)
{
    setsid();
}

TEST(a_process_is_read_with_its_parent_group_and_session)
{
    uint64_t before = process_tree_clock();
    pid_t pid = child(NULL, lead_a_session);
    struct process_tree_proc w;
    CHECK_INT(process_tree_read(&w, pid), 0);
    CHECK_INT(w.pid, pid);
    CHECK_INT(w.parent, getpid());
    CHECK_INT(w.group, pid);
    CHECK_INT(w.session, pid);
    CHECK(w.start >= before && w.start <= process_tree_clock());
    end(pid);
    CHECK_INT(process_tree_read(&w, pid), -ESRCH);
}

TEST(a_name_with_brackets_and_spaces_is_read)
{
    pid_t pid = child(") Z 1 1 1 (", NULL);
    struct process_tree_proc w;
    CHECK_INT(process_tree_read(&w, pid), 0);
    CHECK_INT(w.parent, getpid());
    CHECK(w.state != 'Z');
    end(pid);
}

TEST(a_dead_process_is_a_zombie_until_it_is_reaped)
{
    pid_t pid = child(NULL, NULL);
    kill(pid, SIGKILL);
    siginfo_t si;
    CHECK_INT(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
    struct process_tree_proc w;
    CHECK_INT(process_tree_read(&w, pid), 0);
    CHECK_INT(w.state, 'Z');
    status_of(pid);
}

/* Starts a program with this environment. Returns when the program has answered. */
static pid_t program_with(char *const env[])
{
    int to[2], from[2];
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        execle("/bin/cat", "cat", NULL, env);
        _exit(1);
    }
    char byte = 'x';
    CHECK(write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1);
    return pid;
}

TEST(a_child_and_this_process_descend_from_it_and_its_parent_does_not)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(TEST_LIMIT_S);
        pause();
        _exit(0);
    }
    CHECK(process_tree_is_descendant(pid));
    CHECK(process_tree_is_descendant(getpid()));
    CHECK(!process_tree_is_descendant(getppid()));
    CHECK(!process_tree_is_descendant(1));
    CHECK(!process_tree_is_descendant(1 << 30));
    kill(pid, SIGKILL);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

TEST(a_variable_is_read_from_another_process)
{
    pid_t pid = program_with((char *[]){"NOT_WARD=1", "WARD=a value=x", "WARD=2", NULL});
    char *value;
    CHECK_INT(process_tree_env(&value, pid, "WARD"), 0);
    CHECK_STR(value, "a value=x");
    free(value);
    CHECK(process_tree_env(&value, pid, "WAR") == 0 && !value);
    end(pid);
    CHECK(process_tree_env(&value, pid, "WARD") == 0 && !value);
}

TEST(an_empty_environment_is_distinguished_from_one_that_is_not_set_up_yet)
{
    pid_t pid = program_with((char *[]){NULL});
    char *value;
    CHECK(process_tree_env(&value, pid, "WARD") == 0 && !value);
    end(pid);
}

/* This program again, in the role of KIT_ROLE: it executes itself all the time. */
__attribute__((constructor)) static void role(void)
{
    const char *want = getenv("KIT_ROLE");
    if (want && strcmp(want, "again") == 0) {
        execl("/proc/self/exe", "again", NULL);
        _exit(1);
    }
}

TEST(a_variable_is_not_missed_during_execve)
{
    setenv("KIT_ROLE", "again", 1);
    setenv("WARD", "here", 1);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(TEST_LIMIT_S);
        /* After the first byte: a fork shows the environment that this test was started with. */
        execl("/proc/self/exe", "again", NULL);
        _exit(1);
    }
    int seen = 0, unknown = 0;
    char *value;
    while (process_tree_env(&value, pid, "WARD") < 0 || !value) /* until the first exec */
        ;
    free(value);
    for (int i = 0; i < 20000; i++) {
        int rc = process_tree_env(&value, pid, "WARD");
        CHECK(rc == -EAGAIN || (rc == 0 && value));
        seen += rc == 0;
        unknown += rc < 0;
        free(value);
    }
    fprintf(stderr, "# seen %d times, %d times not yet\n", seen, unknown);
    CHECK(seen > 0);
    end(pid);
}

TEST(all_children_are_listed)
{
    enum { N = 300 };
    pid_t pids[N];
    for (int i = 0; i < N; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            alarm(TEST_LIMIT_S);
            pause();
            _exit(0);
        }
    }
    pid_t *listed = NULL;
    CHECK_INT(process_tree_children(&listed), N);
    for (int i = 0; i < N; i++) {
        int found = 0;
        for (int j = 0; j < N; j++)
            found += listed[j] == pids[i];
        CHECK_INT(found, 1);
    }
    free(listed);
    for (int i = 0; i < N; i++)
        end(pids[i]);
    CHECK_INT(process_tree_children(&listed), 0);
    free(listed);
}

/* A scan of processes that do not exist. */
static void picture(struct process_tree *w, const int (*pid_parent)[2], size_t n)
{
    *w = (struct process_tree){.all = xcalloc(n, sizeof *w->all), .count = n};
    for (size_t i = 0; i < n; i++)
        w->all[i] = (struct process_tree_proc){.pid = pid_parent[i][0], .parent = pid_parent[i][1]};
}

TEST(descendants_of_a_marked_process_are_marked_though_pids_have_wrapped)
{
    static const int tree[][2] = {{1, 0}, {3, 900}, {5, 3}, {20, 1}, {30, 20}, {900, 20}, {950, 1}};
    struct process_tree w;
    picture(&w, tree, COUNT_OF(tree));
    process_tree_find(&w, 20)->marked = true;
    process_tree_select_below(&w);
    for (size_t i = 0; i < w.count; i++)
        CHECK_INT(w.all[i].marked, w.all[i].pid != 1 && w.all[i].pid != 950);
    process_tree_keep_selected(&w);
    CHECK_INT(w.count, 5);
    CHECK(process_tree_find(&w, 950) == NULL);
    CHECK_INT(process_tree_find(&w, 900)->parent, 20);
    process_tree_free(&w);
}

TEST(a_marked_process_and_its_group_are_killed_and_no_other)
{
    pid_t leader = child(NULL, NULL), member = child(NULL, NULL), other = child(NULL, NULL);
    CHECK(setpgid(leader, leader) == 0 && setpgid(member, leader) == 0);
    struct process_tree w;
    CHECK_INT(process_tree_scan(&w), 0);
    process_tree_find(&w, leader)->marked = true;
    process_tree_kill_selected(&w);
    process_tree_free(&w);
    CHECK_INT(WTERMSIG(status_of(leader)), SIGKILL);
    CHECK_INT(WTERMSIG(status_of(member)), SIGKILL);
    CHECK_INT(waitpid(other, NULL, WNOHANG), 0);
    end(other);
}

TEST(a_process_with_a_reused_pid_is_not_killed)
{
    pid_t pid = child(NULL, lead_a_session);
    struct process_tree w = {.all = xzalloc(sizeof *w.all), .count = 1};
    CHECK_INT(process_tree_read(w.all, pid), 0);
    w.all->marked = true;
    w.all->start--;
    process_tree_kill_selected(&w);
    kill(pid, SIGTERM); /* the first signal ends it */
    CHECK_INT(WTERMSIG(status_of(pid)), SIGTERM);
    process_tree_free(&w);
}
