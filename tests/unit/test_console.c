/* console: lines of many ranks on two streams, never one inside another. */
#include "launcher/console.h"

#include <fcntl.h>
#include <pty.h>
#include <termios.h>

#include "tests/unit/test.h"

/* What stdout and stderr become is read from here; the test's own words are lost meanwhile. */
struct fixture {
    uv_loop_t loop;
    struct console *c;
    int out, err; /* read ends; the same where both streams are one */
    int old[2];
};

static void on_moved(void *arg)
{
}

static void start(struct fixture *f, struct console_style style, bool one_pipe)
{
    int a[2], b[2];
    CHECK(pipe2(a, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(b, O_CLOEXEC | O_NONBLOCK) == 0);
    f->out = a[0];
    f->err = one_pipe ? a[0] : b[0];
    f->old[0] = dup(1);
    f->old[1] = dup(2);
    fflush(stdout);
    dup2(a[1], 1);
    dup2(one_pipe ? a[1] : b[1], 2);
    uv_loop_init(&f->loop);
    CHECK_INT(console_open(&f->c, &f->loop, &style, on_moved, f, NULL), 0);
}

static void line(struct fixture *f, int rank, enum launch_stream from, const char *text, char end)
{
    char whole[100];
    size_t len = (size_t)snprintf(whole, sizeof whole - 1, "%s", text);
    whole[len] = end;
    whole[len + 1] = '\0';
    CHECK(console_line(f->c, rank, from, whole, len));
}

static const char *heard(int fd)
{
    static char text[1000];
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void stop(struct fixture *f)
{
    uv_run(&f->loop, UV_RUN_NOWAIT);
    console_close(f->c);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&f->loop), 0);
    dup2(f->old[0], 1);
    dup2(f->old[1], 2);
}

TEST(streams_go_where_they_belong)
{
    struct fixture f;
    start(&f, (struct console_style){0}, false);
    line(&f, 0, LAUNCH_STDOUT, "a", '\n');
    line(&f, 1, LAUNCH_STDERR, "b", '\n');
    line(&f, 1, LAUNCH_STDOUT, "10%", '\r');
    console_say(f.c, "ours\n");
    stop(&f);
    CHECK_STR(heard(f.out), "a\n10%\r");
    CHECK_STR(heard(f.err), "b\nours\n");
}

TEST(a_line_without_an_end_is_ended_before_anothers)
{
    struct fixture f;
    start(&f, (struct console_style){.tag = true}, false);
    line(&f, 0, LAUNCH_STDOUT, "a", '\0');
    line(&f, 0, LAUNCH_STDOUT, "b", '\0');
    line(&f, 1, LAUNCH_STDOUT, "c", '\n');
    line(&f, 0, LAUNCH_STDERR, "d", '\0');
    console_say(f.c, "ours\n");
    stop(&f);
    CHECK_STR(heard(f.out), "[1,0]<stdout>:ab\n[1,1]<stdout>:c\n");
    CHECK_STR(heard(f.err), "[1,0]<stderr>:d\nours\n");
}

TEST(one_pipe_below_both_streams_keeps_their_order)
{
    struct fixture f;
    start(&f, (struct console_style){0}, true);
    line(&f, 0, LAUNCH_STDOUT, "a", '\0');
    line(&f, 0, LAUNCH_STDERR, "b", '\n');
    line(&f, 0, LAUNCH_STDOUT, "c", '\n');
    console_say(f.c, "ours\n");
    stop(&f);
    CHECK_STR(heard(f.out), "a\nb\nc\nours\n");
}

TEST(merged_streams_are_on_stdout)
{
    struct fixture f;
    start(&f, (struct console_style){.merge = true, .tag = true}, false);
    line(&f, 3, LAUNCH_STDERR, "e", '\n');
    stop(&f);
    CHECK_STR(heard(f.out), "[1,3]<stderr>:e\n");
    CHECK_STR(heard(f.err), "");
}

static void begun(struct fixture *f, int rank, const char *text, bool alone)
{
    console_begun(f->c, rank, LAUNCH_STDOUT, text, strlen(text), alone);
}

TEST(a_lone_ranks_line_that_has_begun_is_shown_once)
{
    struct fixture f;
    start(&f, (struct console_style){.tag = true}, false);
    begun(&f, 0, "na", true);
    begun(&f, 0, "name? ", true);
    line(&f, 0, LAUNCH_STDERR, "e", '\n');
    line(&f, 0, LAUNCH_STDOUT, "name? thanks", '\n');
    line(&f, 0, LAUNCH_STDOUT, "next", '\n');
    begun(&f, 0, "50%\r", true);
    line(&f, 0, LAUNCH_STDOUT, "50%", '\r');
    stop(&f);
    CHECK_STR(heard(f.out), "[1,0]<stdout>:name? thanks\n[1,0]<stdout>:next\n[1,0]<stdout>:50%\r");
    CHECK_STR(heard(f.err), "[1,0]<stderr>:e\n");
}

TEST(one_of_many_ranks_line_that_has_begun_waits_where_nobody_sits_before_it)
{
    struct fixture f;
    start(&f, (struct console_style){0}, false);
    begun(&f, 0, "name? ", false);
    line(&f, 1, LAUNCH_STDOUT, "b", '\n');
    line(&f, 0, LAUNCH_STDOUT, "name? thanks", '\n');
    stop(&f);
    CHECK_STR(heard(f.out), "b\nname? thanks\n");
}

/* Both streams are one there; so is what another rank writes. */
TEST(on_a_terminal_what_has_begun_is_shown_and_again_when_anothers_came_between)
{
    struct fixture f;
    start(&f, (struct console_style){0}, false);
    int ends[2];
    struct termios raw;
    CHECK_INT(openpty(&ends[0], &ends[1], NULL, NULL, NULL), 0);
    CHECK_INT(tcgetattr(ends[1], &raw), 0);
    cfmakeraw(&raw);
    CHECK_INT(tcsetattr(ends[1], TCSANOW, &raw), 0);
    console_close(f.c);
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    CHECK_INT(console_open(&f.c, &f.loop, &(struct console_style){0}, on_moved, &f, NULL), 0);
    begun(&f, 0, "name? ", false);
    begun(&f, 0, "name? ..", false);
    line(&f, 1, LAUNCH_STDOUT, "b", '\n');
    line(&f, 0, LAUNCH_STDOUT, "name? ..thanks", '\n');
    begun(&f, 1, "c", false);
    console_say(f.c, "ours\n");
    stop(&f);
    CHECK_STR(heard(ends[0]), "name? ..\nb\nname? ..thanks\nc\nours\n");
}
