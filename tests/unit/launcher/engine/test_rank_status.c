/* rank_status: real processes, and what they wait in. */
#include "launcher/engine/rank_status.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include "tests/unit/test.h"

#ifdef __SANITIZE_THREAD__ /* the sanitizer starts a thread in each fork */
enum { THREADS = 2 };
#else
enum { THREADS = 1 };
#endif

static pid_t start(void (*what)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        what();
        _exit(0);
    }
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

static struct rank_status look(pid_t pid)
{
    struct rank_status s;
    CHECK_INT(rank_status_sample(&s, &pid, 1), 0);
    return s;
}

/* Samples until the process waits where it is expected. */
static struct rank_status until(pid_t pid, char state, const char *call)
{
    for (;;) { /* the test's limit ends the loop */
        struct rank_status s = look(pid);
        if (s.at.state == state && (!call || strcmp(s.at.call, call) == 0))
            return s;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void wait_on_futex(void)
{
    uint32_t word = 0;
    syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void spin(void)
{
    for (volatile unsigned n = 0;; n++)
        ;
}

static void run_shell(void)
{
    execl("/bin/sh", "sh", "-c", "sleep 100; :", (char *)NULL);
}

static void run_two(void)
{
    execl("/bin/sh", "sh", "-c", "sleep 100 & sleep 101 & wait", (char *)NULL);
}

TEST(a_rank_in_a_futex_is_seen_there)
{
    pid_t pid = start(wait_on_futex);
    struct rank_status s = until(pid, 'S', "futex");
    CHECK_INT(s.at.pid, pid);
    CHECK_INT(s.processes, 1);
    end(pid);
    CHECK_INT(s.threads, THREADS);
    AUTO(strbuf) struct strbuf b = {0};
    rank_status_describe(&b, &s);
    CHECK_HAS(strbuf_str(&b), "in futex");
}

TEST(a_stopped_rank_is_stopped)
{
    pid_t pid = start(wait_on_futex);
    kill(pid, SIGSTOP);
    struct rank_status s = until(pid, 'T', NULL);
    AUTO(strbuf) struct strbuf b = {0};
    rank_status_describe(&b, &s);
    CHECK_STR(strbuf_str(&b), "stopped");
    end(pid);
}

TEST(a_rank_that_computes_uses_cpu_time)
{
    pid_t pid = start(spin);
    struct rank_status s;
    while ((s = look(pid)).cpu_ms < 50)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    CHECK_INT(s.at.state, 'R');
    AUTO(strbuf) struct strbuf b = {0};
    rank_status_describe(&b, &s);
    CHECK_STR(strbuf_str(&b), "running");
    end(pid);
}

TEST(behind_a_shell_that_waits_stands_its_program)
{
    pid_t pid = start(run_shell);
    struct rank_status s = until(pid, 'S', "nanosleep");
    CHECK(s.at.pid != pid);
    CHECK_STR(s.at.name, "sleep");
    CHECK_INT(s.processes, 2);
    kill(s.at.pid, SIGKILL);
    end(pid);
}

TEST(a_shell_with_two_children_stands_for_itself)
{
    pid_t pid = start(run_two);
    struct rank_status s;
    while ((s = look(pid)).processes < 3)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK_INT(s.at.pid, pid);
    kill(-pid, SIGKILL); /* its group */
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

TEST(a_process_that_is_gone_is_all_zeroes)
{
    pid_t pids[2] = {start(wait_on_futex), 0};
    end(pids[0]);
    struct rank_status s[2];
    CHECK_INT(rank_status_sample(s, pids, 2), 0);
    CHECK_INT(s[0].at.pid, 0);
    CHECK_INT(s[1].at.pid, 0);
    AUTO(strbuf) struct strbuf b = {0};
    rank_status_describe(&b, &s[0]);
    CHECK_STR(strbuf_str(&b), "not visible");
}

TEST(a_standing_comes_back_from_json_as_it_was)
{
    struct rank_status s = {
        .root = 6,
        .at = {.pid = 7, .state = 'S', .name = "train", .wchan = "futex_wait", .call = "futex"},
        .parent = "sh",
        .child =
            {.pid = 8, .state = 'S', .name = "pt_data_worker", .call = "read", .target = "FIFO /x"},
        .io_bytes = 5000000000,
        .faults = 6000000000,
        .holder = 9,
        .holder_root = 6,
        .processes = 2,
        .threads = 3,
        .cpu_ms = 1234567890123,
        .collective = {.comm = "world",
                       .size = 2,
                       .waits_ms = 40,
                       .calls_done = 56,
                       .waited_ms = 700,
                       .read_ms = 8000,
                       .count = 2,
                       .calls = {{3, "barrier", 50, true}, {4, "gather", 40, false}}}};
    struct rank_status back;
    struct err e = {0};
    AUTO(json) json_t *j = rank_status_json(&s);
    CHECK_INT(rank_status_read(&back, j, &e), 0);
    AUTO(json) json_t *again = rank_status_json(&back);
    CHECK(json_equal(j, again));
    AUTO(strbuf) struct strbuf b = {0};
    rank_status_describe(&b, &back);
    CHECK_STR(strbuf_str(&b), "call 4 of 'world', gather, in futex");
    json_object_set_new(j, "pid", json_integer(1LL << 32));
    CHECK_INT(rank_status_read(&back, j, &e), -EINVAL);
    CHECK_HAS(e.text, "too large");
    json_object_set_new(j, "pid", json_integer(7));
    json_object_set_new(json_object_get(j, "collectives"), "ranks", json_integer(1LL << 32));
    CHECK_INT(rank_status_read(&back, j, &e), -EINVAL);
    CHECK_HAS(e.text, "too large");
    json_object_set_new(json_object_get(j, "collectives"), "ranks", json_integer(2));
    CHECK_INT(rank_status_read(&back, j, &e), 0);
    json_object_del(j, "cpu_ms");
    CHECK_INT(rank_status_read(&back, j, &e), -EINVAL);
    CHECK_HAS(e.text, "cpu_ms");
}
