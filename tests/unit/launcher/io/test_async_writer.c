/* async_writer: no byte is lost, no call blocks, and the descriptor's flags stay unchanged. */
#include "launcher/io/async_writer.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/socket.h>

#include "tests/unit/test.h"

enum { BIG = 3 << 20 };

struct fixture {
    uv_loop_t loop;
    struct async_writer *o;
    int moved;
};

static void on_moved(void *arg)
{
    ((struct fixture *)arg)->moved++;
}

static void fixture_start(struct fixture *f, int fd)
{
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&f->loop);
    CHECK_INT(async_writer_open(&f->o, &f->loop, fd, on_moved, f, NULL), 0);
}

static void fixture_end(struct fixture *f)
{
    async_writer_close(f->o);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&f->loop), 0);
}

static char *big_text(void)
{
    char *t = xcalloc(BIG, 1);
    for (int i = 0; i < BIG; i++)
        t[i] = (char)('!' + i % 89);
    return t;
}

/* Adds more than fits, reads all of it from `from` alternately with the loop, and compares. */
static void all_arrives(int to, int from)
{
    struct fixture f = {0};
    fixture_start(&f, to);
    AUTO(free) char *text = big_text();
    AUTO(free) char *got = xcalloc(BIG + 1, 1);
    for (int at = 0; at < BIG; at += 1 << 10)
        async_writer_add(f.o, text + at, 1 << 10);
    CHECK(async_writer_waiting(f.o) > 0);
    CHECK_INT(fcntl(to, F_GETFL) & O_NONBLOCK, 0);
    fcntl(from, F_SETFL, O_NONBLOCK);
    size_t have = 0;
    while (have < BIG) {
        uv_run(&f.loop, UV_RUN_NOWAIT);
        ssize_t n = read(from, got + have, BIG + 1 - have);
        CHECK(n > 0 || errno == EAGAIN);
        have += n > 0 ? (size_t)n : 0;
    }
    uv_run(&f.loop, UV_RUN_NOWAIT);
    CHECK(memcmp(got, text, BIG) == 0);
    CHECK_INT(async_writer_waiting(f.o), 0);
    CHECK_INT(async_writer_error(f.o), 0);
    CHECK(f.moved > 0);
    CHECK_INT(fcntl(to, F_GETFL) & O_NONBLOCK, 0);
    fixture_end(&f);
}

TEST(a_slow_pipe_gets_everything_and_stays_blocking_for_others)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    all_arrives(ends[1], ends[0]);
}

TEST(a_slow_socket_gets_everything_and_stays_blocking_for_others)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    all_arrives(ends[1], ends[0]);
}

TEST(a_slow_terminal_gets_everything)
{
    int master, slave;
    struct termios raw = {0};
    cfmakeraw(&raw);
    CHECK(openpty(&master, &slave, NULL, &raw, NULL) == 0);
    all_arrives(slave, master);
}

TEST(a_file_is_written_before_the_loop_waits)
{
    char name[] = "/tmp/drover-test-XXXXXX", got[8] = "";
    int fd = mkstemp(name);
    struct fixture f = {0};
    fixture_start(&f, fd);
    async_writer_add(f.o, "abc", 3);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    CHECK_INT(pread(fd, got, 8, 0), 3);
    CHECK_STR(got, "abc");
    unlink(name);
    fixture_end(&f);
}

TEST(a_reader_that_went_away_is_an_error_told_from_the_loop)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    struct fixture f = {0};
    fixture_start(&f, ends[1]);
    close(ends[0]);
    async_writer_add(f.o, "abc", 3);
    CHECK_INT(f.moved, 0);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    CHECK_INT(async_writer_error(f.o), -EPIPE);
    CHECK_INT(f.moved, 1);
    async_writer_add(f.o, "abc", 3);
    CHECK_INT(async_writer_waiting(f.o), 0);
    fixture_end(&f);
}

TEST(a_reader_that_goes_away_while_much_waits_is_an_error)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    struct fixture f = {0};
    fixture_start(&f, ends[1]);
    AUTO(free) char *text = big_text();
    async_writer_add(f.o, text, BIG);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    CHECK_INT(async_writer_error(f.o), 0);
    close(ends[0]);
    uv_run(&f.loop, UV_RUN_ONCE);
    CHECK_INT(async_writer_error(f.o), -EPIPE);
    fixture_end(&f);
}

TEST(a_full_disk_is_an_error)
{
    AUTO(fd) int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct fixture f = {0};
    fixture_start(&f, fd);
    async_writer_add(f.o, "abc", 3);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    CHECK_INT(async_writer_error(f.o), -ENOSPC);
    fixture_end(&f);
}

TEST(descriptors_of_one_pipe_are_the_same_and_of_two_are_not)
{
    int a[2], b[2];
    CHECK(pipe2(a, O_CLOEXEC) == 0 && pipe2(b, O_CLOEXEC) == 0);
    CHECK(async_writer_same(a[1], dup(a[1])));
    CHECK(!async_writer_same(a[1], b[1]));
    CHECK(!async_writer_same(a[1], 999));
}
