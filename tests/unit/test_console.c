/* console: lines of many ranks on two streams, never one inside another. */
#include "launcher/console.h"

#include <fcntl.h>

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
