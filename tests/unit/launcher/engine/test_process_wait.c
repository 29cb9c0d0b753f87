/* process_wait: what real processes wait for, and the kinds of waits. */
#include "launcher/engine/process_wait.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/mem.h"
#include "launcher/engine/process_wait_kind.h"
#include "tests/unit/test.h"

/* Starts a process that does `what` with the path, and reads it until it waits in `kind`. */
static struct process_wait wait_in(void (*what)(const char *path), const char *path,
                                   enum process_wait_kind kind, pid_t *pid)
{
    struct process_wait w = {0};
    *pid = fork();
    if (*pid == 0) {
        what(path);
        _exit(0);
    }
    while (process_wait_kind(&w) != kind) { /* the test's limit ends the loop */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        process_wait_read(&w, *pid, 'S');
    }
    return w;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

static void read_fifo(const char *path)
{
    char c;
    (void)!read(open(path, O_RDWR), &c, 1);
}

static void open_fifo(const char *path)
{
    (void)!open(path, O_RDONLY);
}

static void lock_file(const char *path)
{
    flock(open(path, O_RDWR), LOCK_EX);
}

static void read_server(const char *port)
{
    char c;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(s, (struct sockaddr *)&to, sizeof to) == 0)
        recv(s, &c, 1, 0);
}

static char *path_in(char *directory)
{
    static char path[64];
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/x", directory);
    return path;
}

TEST(a_read_of_a_fifo_and_its_opening_name_it)
{
    char directory[] = "/tmp/drover-test-XXXXXX", want[80];
    const char *path = path_in(directory);
    pid_t pid;
    CHECK_INT(mkfifo(path, 0600), 0);
    snprintf(want, sizeof want, "FIFO %s", path);
    struct process_wait w = wait_in(read_fifo, path, PROCESS_WAIT_INPUT, &pid);
    while (strcmp(w.call, "read") != 0)
        process_wait_read(&w, pid, 'S');
    CHECK_STR(w.target, want);
    end(pid);
    w = wait_in(open_fifo, path, PROCESS_WAIT_INPUT, &pid);
    CHECK_STR(w.target, path);
    end(pid);
    unlink(path);
    rmdir(directory);
}

TEST(a_file_lock_has_its_file_and_its_holder)
{
    char directory[] = "/tmp/drover-test-XXXXXX";
    const char *path = path_in(directory);
    pid_t pid;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK_INT(flock(fd, LOCK_EX), 0);
    struct process_wait w = wait_in(lock_file, path, PROCESS_WAIT_FILE_LOCK, &pid);
    CHECK_STR(w.target, path);
    pid_t holder;
    while ((holder = process_wait_lock_holder(pid)) == 0)
        ;
    CHECK_INT(holder, getpid());
    CHECK_INT(process_wait_lock_holder(getpid()), 0);
    end(pid);
    close(fd);
    unlink(path);
    rmdir(directory);
}

TEST(a_read_of_a_connection_names_the_peer)
{
    char port[8], want[40];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    pid_t pid;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(bind(s, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_INT(listen(s, 1), 0);
    CHECK_INT(getsockname(s, (struct sockaddr *)&at, &len), 0);
    snprintf(port, sizeof port, "%d", ntohs(at.sin_port));
    snprintf(want, sizeof want, "TCP 127.0.0.1:%s", port);
    struct process_wait w = wait_in(read_server, port, PROCESS_WAIT_REMOTE, &pid);
    CHECK_STR(w.target, want);
    end(pid);
    close(s);
}

TEST(a_wait_has_the_kind_of_its_call_and_target)
{
    static const struct {
        char state;
        const char *call, *target;
        enum process_wait_kind kind;
    } cases[] = {
        {'T', "futex", "", PROCESS_WAIT_STOPPED},
        {'D', "openat", "/x", PROCESS_WAIT_DISK},
        {'R', "", "", PROCESS_WAIT_RUNS},
        {'S', "fcntl", "/x", PROCESS_WAIT_FILE_LOCK},
        {'S', "read", "pipe", PROCESS_WAIT_EVENTS},
        {'S', "read", "stdin", PROCESS_WAIT_INPUT},
        {'S', "write", "stdout", PROCESS_WAIT_OUTPUT},
        {'S', "poll", "TCP 10.0.0.1:80, connecting", PROCESS_WAIT_CONNECT},
        {'S', "poll", "", PROCESS_WAIT_EVENTS},
        {'S', "select", "nothing", PROCESS_WAIT_SLEEP},
        {'S', "waitid", "", PROCESS_WAIT_CHILD},
        {'S', "futex", "", PROCESS_WAIT_FUTEX},
        {'S', "", "", PROCESS_WAIT_UNKNOWN},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct process_wait w = {.pid = 1, .state = cases[i].state};
        snprintf(w.call, sizeof w.call, "%s", cases[i].call);
        snprintf(w.target, sizeof w.target, "%s", cases[i].target);
        CHECK_INT(process_wait_kind(&w), cases[i].kind);
    }
}
