/* stdin_demand: which processes wait for the bytes of a pipe. */
#include "launcher/watch/stdin_demand.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/mem.h"
#include "tests/unit/test.h"

/* What a process does with its stdin, the pipe; `other` is a pipe that stays empty, too. */
static void reads(int other)
{
    char byte;
    (void)!read(0, &byte, 1);
}

static void reads_a_duplicate(int other)
{
    char byte;
    (void)!read(dup(0), &byte, 1);
}

static void polls_both(int other)
{
    struct pollfd p[] = {{.fd = other, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    poll(p, 2, -1);
}

static void selects(int other)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(0, &set);
    select(1, &set, NULL, NULL, NULL);
}

static void waits_by_epoll(int other)
{
    struct epoll_event ev = {.events = EPOLLIN};
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &ev);
    epoll_wait(epoll, &ev, 1, -1);
}

static void starts_a_reader(int other)
{
    pid_t child = fork();
    if (child == 0)
        reads(other);
    waitpid(child, NULL, 0);
}

static void makes_it_nonblocking_and_sleeps(int other)
{
    fcntl(0, F_SETFL, O_NONBLOCK);
    pause();
}

static void sleeps(int other)
{
    pause();
}

static void reads_another(int other)
{
    char byte;
    (void)!read(other, &byte, 1);
}

static void polls_another(int other)
{
    struct pollfd p = {.fd = other, .events = POLLIN};
    poll(&p, 1, -1);
}

static void selects_another(int other)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(other, &set);
    select(other + 1, &set, NULL, NULL, NULL);
}

static void has_another_in_epoll(int other)
{
    struct epoll_event ev = {.events = EPOLLIN};
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, other, &ev);
    epoll_wait(epoll, &ev, 1, -1);
}

static bool is_asleep(pid_t pid)
{
    char path[64], text[200];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    AUTO(file) FILE *f = fopen(path, "re");
    text[f ? fread(text, 1, sizeof text - 1, f) : 0] = '\0';
    const char *state = strrchr(text, ')');
    return state && state[2] == 'S';
}

TEST(a_process_that_waits_for_the_pipe_is_told_from_one_that_does_not)
{
    static const struct {
        void (*run)(int other);
        bool demands;
    } cases[] = {
        {reads, true},
        {reads_a_duplicate, true},
        {polls_both, true},
        {selects, true},
        {waits_by_epoll, true},
        {starts_a_reader, true},
        {makes_it_nonblocking_and_sleeps, true},
        {sleeps, false},
        {reads_another, false},
        {polls_another, false},
        {selects_another, false},
        {has_another_in_epoll, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int input[2], other[2], ready[2];
        struct stat st;
        CHECK(pipe2(input, O_CLOEXEC) == 0 && pipe2(other, O_CLOEXEC) == 0 && pipe2(ready, 0) == 0);
        CHECK_INT(fstat(input[0], &st), 0);
        pid_t pid = fork();
        if (pid == 0) {
            setpgid(0, 0);
            dup2(input[0], 0);
            close(ready[0]);
            close(ready[1]);
            cases[i].run(other[0]);
            _exit(0);
        }
        char byte;
        close(ready[1]);
        CHECK_INT(read(ready[0], &byte, 1), 0); /* its stdin is the pipe */
        close(ready[0]);
        while (!is_asleep(pid))
            ;
        if (cases[i].demands)
            while (!stdin_demand(pid, st.st_ino))
                ;
        else
            for (int n = 0; n < 20; n++)
                CHECK(!stdin_demand(pid, st.st_ino));
        kill(-pid, SIGKILL);
        waitpid(pid, NULL, 0);
        for (int k = 0; k < 2; k++) {
            close(input[k]);
            close(other[k]);
        }
    }
}

TEST(a_process_that_has_exited_demands_nothing)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    CHECK(!stdin_demand(pid, 1));
}
