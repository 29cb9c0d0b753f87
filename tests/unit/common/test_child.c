#include "common/child.h"

#include <fcntl.h>
#include <pthread.h>

#include "common/clock.h"
#include "common/mem.h"
#include "tests/unit/test.h"

static int shell(struct child_result *r, const char *script, struct child_opts o, struct err *e)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
    o.argv = argv;
    return child_run(r, &o, e);
}

static const struct child_opts both = {.out = CHILD_PIPE, .messages = CHILD_PIPE};

TEST(both_outputs_and_the_status_are_collected)
{
    AUTO(child_result) struct child_result r = {0};
    CHECK_INT(shell(&r, "echo one; echo two >&2; echo three; exit 7", both, NULL), 0);
    CHECK_STR(strbuf_str(&r.out), "one\nthree\n");
    CHECK_STR(strbuf_str(&r.messages), "two\n");
    CHECK_INT(r.status, 7);
}

TEST(more_than_a_pipe_holds_is_collected_from_both_outputs)
{
    AUTO(child_result) struct child_result r = {0};
    CHECK_INT(shell(&r, "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero", both, NULL), 0);
    CHECK(r.out.len == 300000 && r.messages.len == 300000);
}

TEST(stderr_may_go_where_stdout_goes)
{
    AUTO(child_result) struct child_result r = {0};
    const struct child_opts o = {.out = CHILD_PIPE, .messages = CHILD_OUT};
    CHECK_INT(shell(&r, "echo one; echo two >&2; echo three", o, NULL), 0);
    CHECK_STR(strbuf_str(&r.out), "one\ntwo\nthree\n");
    CHECK_INT(r.messages.len, 0);
}

TEST(the_standard_descriptors_are_empty_unless_asked_for)
{
    AUTO(child_result) struct child_result r = {0};
    int ends[2];
    CHECK(pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == 0); /* a read of it blocks */
    const struct child_opts null = {.out = CHILD_NULL};
    CHECK_INT(shell(&r, "cat; test -c /proc/self/fd/1 -a -c /proc/self/fd/2", null, NULL), 0);
    CHECK_INT(r.status, 0);
    CHECK_INT(write(ends[1], "kept\n", 5), 5);
    CHECK_INT(shell(&r, "read a; echo $a", (struct child_opts){.in = CHILD_KEEP, .out = CHILD_PIPE},
                    NULL),
              0);
    CHECK_STR(strbuf_str(&r.out), "kept\n");
}

TEST(a_signal_that_ends_it_is_its_status)
{
    AUTO(child_result) struct child_result r = {0};
    CHECK_INT(shell(&r, "kill -TERM $$", both, NULL), 0);
    CHECK_INT(r.status, 128 + SIGTERM);
}

TEST(a_program_that_does_not_exist_is_named_and_no_descriptor_is_left)
{
    struct err e = {0};
    AUTO(child_result) struct child_result r = {0};
    char *argv[] = {(char *)"/absent/program", NULL};
    struct child_opts o = both;
    o.argv = argv;
    AUTO(fd) int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_INT(child_run(&r, &o, &e), -ENOENT);
    CHECK_STR(e.text, "/absent/program: No such file or directory");
    AUTO(fd) int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_INT(after, before + 1);
}

TEST(the_environment_is_the_one_that_is_given)
{
    AUTO(child_result) struct child_result r = {0};
    char *env[] = {(char *)"A=1", NULL};
    const struct child_opts o = {.env = env, .out = CHILD_PIPE};
    setenv("B", "2", 1);
    CHECK_INT(shell(&r, "echo \"$A-$B\"", o, NULL), 0);
    CHECK_STR(strbuf_str(&r.out), "1-\n");
}

TEST(at_the_deadline_its_whole_group_is_killed)
{
    struct err e = {0};
    AUTO(child_result) struct child_result r = {0};
    const struct child_opts o = {.out = CHILD_PIPE, .group = true, .deadline_ms = 300};
    int64_t began_ms = clock_ms();
    CHECK_INT(shell(&r, "sleep 100 & echo $! $$; wait", o, &e), -ETIMEDOUT);
    CHECK_STR(e.text, "sh: no end within 0.3 s");
    CHECK(clock_ms() - began_ms < 30000);
    int sleeper = 0, leader = 0;
    CHECK_INT(sscanf(strbuf_str(&r.out), "%d %d", &sleeper, &leader), 2);
    CHECK(kill(leader, 0) < 0 && errno == ESRCH); /* it is reaped */
    for (int i = 0; kill(sleeper, 0) == 0 && i < 1000; i++) {
        AUTO(free) char *path = xasprintf("/proc/%d/stat", sleeper);
        AUTO(file) FILE *f = fopen(path, "re");
        char state = 0;
        if (f && fscanf(f, "%*d %*s %c", &state) == 1 && state == 'Z')
            break; /* nobody reaps it in a container without init */
        usleep(10000);
        CHECK(i < 999);
    }
}

TEST(a_child_is_started_with_a_pipe_to_its_stdin)
{
    struct child c;
    char *argv[] = {(char *)"cat", NULL}, line[8] = "";
    const struct child_opts o = {
        .argv = argv, .in = CHILD_PIPE, .out = CHILD_PIPE, .messages = CHILD_KEEP, .group = true};
    CHECK_INT(child_start(&c, &o, NULL), 0);
    CHECK_INT(c.messages, -1);
    CHECK_INT(getpgid(c.pid), c.pid);
    CHECK_INT(write(c.in, "ping", 4), 4);
    CHECK_INT(read(c.out, line, sizeof line - 1), 4);
    CHECK_STR(line, "ping");
    close(c.in);
    CHECK_INT(read(c.out, line, sizeof line), 0);
    CHECK_INT(child_wait(c.pid), 0);
    close(c.out);
}

static void *run_one(void *arg)
{
    AUTO(child_result) struct child_result r = {0};
    AUTO(free) char *script = xasprintf("echo %d; exit %d", *(int *)arg, *(int *)arg);
    CHECK_INT(shell(&r, script, both, NULL), 0);
    CHECK_INT(atoi(strbuf_str(&r.out)), *(int *)arg);
    CHECK_INT(r.status, *(int *)arg);
    return NULL;
}

TEST(threads_run_children_at_the_same_time)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_INT(pthread_create(&threads[i], NULL, run_one, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(threads[i], NULL), 0);
}
