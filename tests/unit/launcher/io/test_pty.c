/* pty: bytes of a rank pass unchanged, and its last close is the end. */
#include "launcher/io/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/mem.h"
#include "tests/unit/test.h"

/* Reads until the end or `max` bytes. Returns their number. */
static size_t read_all(int fd, char *to, size_t max)
{
    size_t have = 0;
    while (have < max) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        CHECK(poll(&p, 1, 10000) == 1);
        ssize_t n = read(fd, to + have, max - have);
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n < 0)
            CHECK_INT(errno, EIO);
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    return have;
}

TEST(every_byte_passes_unchanged_and_the_last_close_is_the_end)
{
    enum { LEN = 256 * 1000 };
    int master, slave;
    CHECK_INT(pty_open(&master, &slave), 0);
    CHECK(isatty(slave));
    AUTO(free) char *text = xcalloc(LEN, 1);
    AUTO(free) char *seen = xcalloc(LEN + 1, 1);
    for (int i = 0; i < LEN; i++)
        text[i] = (char)(i + i / 256);
    pid_t pid = fork();
    if (pid == 0) {
        close(master);
        for (size_t at = 0; at < LEN;) {
            ssize_t n = write(slave, text + at, LEN - at);
            if (n < 0)
                _exit(1);
            at += (size_t)n;
        }
        _exit(0); /* what it has written is still delivered */
    }
    close(slave);
    CHECK_INT(read_all(master, seen, LEN + 1), LEN);
    CHECK(memcmp(text, seen, LEN) == 0);
    int status;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    close(master);
}

TEST(bytes_written_to_the_master_are_not_echoed)
{
    int master, slave;
    char seen[8];
    CHECK_INT(pty_open(&master, &slave), 0);
    CHECK_INT(write(master, "\003\004x\n", 4), 4);
    CHECK_INT(write(slave, "y\n", 2), 2);
    CHECK_INT(read_all(master, seen, 2), 2);
    CHECK(memcmp(seen, "y\n", 2) == 0);
    CHECK(read(master, seen, sizeof seen) < 0 && errno == EAGAIN);
    close(slave);
    close(master);
}

TEST(the_descriptors_are_not_inherited_and_the_master_never_blocks)
{
    int master, slave;
    CHECK_INT(pty_open(&master, &slave), 0);
    CHECK(fcntl(master, F_GETFD) & FD_CLOEXEC);
    CHECK(fcntl(slave, F_GETFD) & FD_CLOEXEC);
    CHECK(fcntl(master, F_GETFL) & O_NONBLOCK);
    CHECK(!(fcntl(slave, F_GETFL) & O_NONBLOCK));
    close(slave);
    close(master);
}

TEST(a_pty_that_cannot_be_opened_leaves_no_descriptor)
{
    struct rlimit limit, before;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC), master = -1, slave = -1;
    CHECK(next >= 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    close(next);
    limit = before;
    limit.rlim_cur = (rlim_t)next + 1; /* room for one of the two */
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_INT(pty_open(&master, &slave), -EMFILE);
    CHECK(master < 0 && slave < 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
    int again = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_INT(again, next);
    close(again);
}
