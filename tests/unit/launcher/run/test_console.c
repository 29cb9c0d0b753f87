/* console: lines of many ranks on two streams, never one inside another. */
#include "launcher/run/console.h"

#include <fcntl.h>
#include <termios.h>

#include "common/rng.h"
#include "launcher/io/terminal.h"
#include "tests/unit/test.h"

/* stdout and stderr are replaced by pipes, which the test reads; its own messages are lost until
 * the end. */
static struct plan_node nodes[] = {{.name = "c01", .local_size = 2}, {.name = "c02"}};
static struct plan_rank ranks[] = {
    {.rank = 0}, {.rank = 1, .local_rank = 1}, {.rank = 2, .node = 1}};
static const struct plan two_nodes = {
    .ranks = ranks, .world_size = 3, .nodes = nodes, .node_count = 2};
static const struct plan one_node = {
    .ranks = ranks, .world_size = 2, .nodes = nodes, .node_count = 1, .first_rank = 8};

struct fixture {
    uv_loop_t loop;
    struct console *c;
    int out, err; /* read ends; the same if both streams are one */
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
    console_plan(f->c, &two_nodes);
}

static void line(struct fixture *f, int rank, enum launch_stream from, const char *text, char end)
{
    char whole[100];
    size_t len = (size_t)snprintf(whole, sizeof whole - 1, "%s", text);
    whole[len] = end;
    whole[len + 1] = '\0';
    CHECK(console_line(f->c, rank, from, whole, len));
}

/* Returns what came before the mark of stop(); a terminal may pass it on later than write(2)
 * returns. */
static const char *heard(int fd)
{
    static char text[1000];
    size_t len = 0;
    ssize_t n;
    while (!memchr(text, '\f', len) && (n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    text[strcspn(text, "\f")] = '\0';
    return text;
}

static void stop(struct fixture *f)
{
    uv_run(&f->loop, UV_RUN_NOWAIT);
    console_close(f->c);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&f->loop), 0);
    for (int fd = 1; fd <= 2; fd++)
        CHECK(write(fd, "\f", 1) == 1);
    dup2(f->old[0], 1);
    dup2(f->old[1], 2);
}

TEST(streams_go_where_they_belong)
{
    struct fixture f;
    start(&f, (struct console_style){.tag = CONSOLE_TAG_NONE}, false);
    line(&f, 0, LAUNCH_STDOUT, "a", '\n');
    line(&f, 1, LAUNCH_STDERR, "b", '\n');
    line(&f, 1, LAUNCH_STDOUT, "10%", '\r');
    console_print(f.c, "ours\n");
    stop(&f);
    CHECK_STR(heard(f.out), "a\n10%\r");
    CHECK_STR(heard(f.err), "b\nours\n");
}

TEST(a_line_without_an_end_is_ended_before_anothers)
{
    struct fixture f;
    start(&f, (struct console_style){.tag = CONSOLE_TAG_MPIRUN}, false);
    line(&f, 0, LAUNCH_STDOUT, "a", '\0');
    line(&f, 0, LAUNCH_STDOUT, "b", '\0');
    line(&f, 1, LAUNCH_STDOUT, "c", '\n');
    line(&f, 0, LAUNCH_STDERR, "d", '\0');
    console_print(f.c, "ours\n");
    stop(&f);
    CHECK_STR(heard(f.out), "[1,0]<stdout>:ab\n[1,1]<stdout>:c\n");
    CHECK_STR(heard(f.err), "[1,0]<stderr>:d\nours\n");
}

TEST(one_pipe_below_both_streams_keeps_their_order)
{
    struct fixture f;
    start(&f, (struct console_style){.tag = CONSOLE_TAG_NONE}, true);
    line(&f, 0, LAUNCH_STDOUT, "a", '\0');
    line(&f, 0, LAUNCH_STDERR, "b", '\n');
    line(&f, 0, LAUNCH_STDOUT, "c", '\n');
    console_print(f.c, "ours\n");
    stop(&f);
    CHECK_STR(heard(f.out), "a\nb\nc\nours\n");
}

TEST(merged_streams_are_on_stdout)
{
    struct fixture f;
    start(&f, (struct console_style){.merge = true, .tag = CONSOLE_TAG_MPIRUN}, false);
    line(&f, 2, LAUNCH_STDERR, "e", '\n');
    stop(&f);
    CHECK_STR(heard(f.out), "[1,2]<stderr>:e\n");
    CHECK_STR(heard(f.err), "");
}

static const char *tagged(enum console_tag tag, const struct plan *p)
{
    struct fixture f;
    start(&f, (struct console_style){.tag = tag, .role = "r"}, false);
    console_plan(f.c, p);
    line(&f, 1, LAUNCH_STDOUT, "a", '\n');
    line(&f, 0, LAUNCH_STDOUT, "b", '\n');
    stop(&f);
    return heard(f.out);
}

TEST(a_line_has_the_tag_that_was_asked_for)
{
    CHECK_STR(tagged(CONSOLE_TAG_NONE, &two_nodes), "a\nb\n");
    CHECK_STR(tagged(CONSOLE_TAG_HOST, &two_nodes), "c01:1| a\nc01:0| b\n");
    CHECK_STR(tagged(CONSOLE_TAG_RANK, &two_nodes), "[1] a\n[0] b\n");
    CHECK_STR(tagged(CONSOLE_TAG_MPIRUN, &two_nodes), "[1,1]<stdout>:a\n[1,0]<stdout>:b\n");
    CHECK_STR(tagged(CONSOLE_TAG_TORCH, &two_nodes), "[r1]:a\n[r0]:b\n");
}

TEST(only_lines_of_several_nodes_are_tagged_unasked)
{
    CHECK_STR(tagged(CONSOLE_TAG_AUTO, &two_nodes), "c01:1| a\nc01:0| b\n");
    CHECK_STR(tagged(CONSOLE_TAG_AUTO, &one_node), "a\nb\n");
}

TEST(ranks_of_a_share_are_called_by_their_number_among_all)
{
    CHECK_STR(tagged(CONSOLE_TAG_RANK, &one_node), "[9] a\n[8] b\n");
    CHECK_STR(tagged(CONSOLE_TAG_TORCH, &one_node), "[r1]:a\n[r0]:b\n");
}

TEST(colours_are_for_terminals_or_who_asks_for_them)
{
    int fd[2];
    CHECK(pipe2(fd, O_CLOEXEC) == 0);
    unsetenv("NO_COLOR");
    unsetenv("CLICOLOR_FORCE");
    CHECK(!terminal_coloured(fd[1]));
    setenv("CLICOLOR_FORCE", "0", 1);
    CHECK(!terminal_coloured(fd[1]));
    setenv("CLICOLOR_FORCE", "1", 1);
    CHECK(terminal_coloured(fd[1]));
    CHECK_STR(tagged(CONSOLE_TAG_RANK, &two_nodes), "\033[32m[1] \033[0ma\n\033[31m[0] \033[0mb\n");
    CHECK_STR(tagged(CONSOLE_TAG_NONE, &two_nodes), "a\nb\n");
    setenv("NO_COLOR", "1", 1);
    CHECK(!terminal_coloured(fd[1]));
}

TEST(a_terminal_has_colours_unless_it_is_dumb)
{
    int tty = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(tty >= 0 && grantpt(tty) == 0 && unlockpt(tty) == 0);
    int fd = open(ptsname(tty), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(fd >= 0);
    unsetenv("NO_COLOR");
    unsetenv("CLICOLOR_FORCE");
    setenv("TERM", "xterm", 1);
    CHECK(terminal_coloured(fd));
    setenv("TERM", "dumb", 1);
    CHECK(!terminal_coloured(fd));
    unsetenv("TERM");
    CHECK(!terminal_coloured(fd));
}

static void begun(struct fixture *f, int rank, const char *text)
{
    console_partial_line(f->c, rank, LAUNCH_STDOUT, text, strlen(text));
}

TEST(a_line_that_has_begun_is_shown_once_if_no_other_line_comes_between)
{
    struct fixture f;
    start(&f, (struct console_style){.tag = CONSOLE_TAG_MPIRUN}, false);
    begun(&f, 0, "na");
    begun(&f, 0, "name? ");
    line(&f, 0, LAUNCH_STDERR, "e", '\n');
    line(&f, 0, LAUNCH_STDOUT, "name? thanks", '\n');
    line(&f, 0, LAUNCH_STDOUT, "next", '\n');
    begun(&f, 0, "50%\r");
    line(&f, 0, LAUNCH_STDOUT, "50%", '\r');
    begun(&f, 1, "end");
    line(&f, 1, LAUNCH_STDOUT, "end", '\0');
    stop(&f);
    CHECK_STR(heard(f.out), "[1,0]<stdout>:name? thanks\n[1,0]<stdout>:next\n[1,0]<stdout>:50%\r"
                            "[1,1]<stdout>:end");
    CHECK_STR(heard(f.err), "[1,0]<stderr>:e\n");
}

/* Replaces stdout by a raw terminal. */
static void start_on_terminal(struct fixture *f)
{
    struct termios raw;
    int tty = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(tty >= 0 && grantpt(tty) == 0 && unlockpt(tty) == 0);
    int fd = open(ptsname(tty), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(fd >= 0 && tcgetattr(fd, &raw) == 0);
    cfmakeraw(&raw);
    CHECK_INT(tcsetattr(fd, TCSANOW, &raw), 0);
    start(f, (struct console_style){.tag = CONSOLE_TAG_RANK}, false);
    console_close(f->c);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    dup2(fd, 1);
    setenv("NO_COLOR", "1", 1);
    CHECK_INT(console_open(&f->c, &f->loop, &(struct console_style){.tag = CONSOLE_TAG_RANK},
                           on_moved, f, NULL),
              0);
    console_plan(f->c, &two_nodes);
    f->out = tty;
}

/* Returns the output of dots of rank 0, between which come lines of rank 1. */
static const char *interrupted(bool terminal, const char *const *dots, const char *whole, char end)
{
    struct fixture f;
    if (terminal)
        start_on_terminal(&f);
    else
        start(&f, (struct console_style){.tag = CONSOLE_TAG_RANK}, false);
    for (; *dots; dots++)
        if (**dots)
            begun(&f, 0, *dots);
        else
            line(&f, 1, LAUNCH_STDOUT, "b", '\n');
    line(&f, 0, LAUNCH_STDOUT, whole, end);
    line(&f, 1, LAUNCH_STDOUT, "c", '\n');
    stop(&f);
    return heard(f.out);
}

TEST(of_a_line_that_another_one_interrupts_the_rest_is_shown_and_on_a_terminal_the_whole_again)
{
    static const struct {
        const char *dots[5]; /* "": a line of rank 1 */
        const char *whole;
        char end;
        const char *file, *terminal;
    } cases[] = {
        {{"..", ""},
         "..done",
         '\n',
         "[0] ..\n[1] b\n[0] done\n[1] c\n",
         "[0] ..\n[1] b\n[0] ..done\n[1] c\n"},
        {{"..", "", "..."},
         "....",
         '\n',
         "[0] ..\n[1] b\n[0] ..\n[1] c\n",
         "[0] ..\n[1] b\n[0] .\n[0] ....\n[1] c\n"},
        {{"..", "", "...", ""},
         "....",
         '\n',
         "[0] ..\n[1] b\n[0] .\n[1] b\n[0] .\n[1] c\n",
         "[0] ..\n[1] b\n[0] .\n[1] b\n[0] ....\n[1] c\n"},
        {{"..", "", "..."},
         "...",
         '\0',
         "[0] ..\n[1] b\n[0] .\n[1] c\n",
         "[0] ..\n[1] b\n[0] .\n[0] ...\n[1] c\n"},
        /* It is whole on its line already. */
        {{"..", ""}, "..", '\n', "[0] ..\n[1] b\n[1] c\n", "[0] ..\n[1] b\n[1] c\n"},
        {{"..\r", ""}, "..", '\r', "[0] ..\r\n[1] b\n[1] c\n", "[0] ..\r\n[1] b\n[1] c\n"},
        {{"..", ""}, "..", '\r', "[0] ..\n[1] b\n[0] \r[1] c\n", "[0] ..\n[1] b\n[1] c\n"},
        {{""}, "", '\n', "[1] b\n[0] \n[1] c\n", "[1] b\n[0] \n[1] c\n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK_STR(interrupted(false, cases[i].dots, cases[i].whole, cases[i].end), cases[i].file);
        CHECK_STR(interrupted(true, cases[i].dots, cases[i].whole, cases[i].end),
                  cases[i].terminal);
    }
}

/* What a rank writes: two letters of its own, in lines. */
struct source {
    char text[400];
    size_t line, at; /* beginning of its line, and what was written so far */
};
static struct source sources[3];

/* Writes more bytes of a source: an unfinished line, or the end of one. Returns true if it is
 * used up. */
static bool write_more(struct fixture *f, struct source *s, int rank, struct rng *r)
{
    const char *line = s->text + s->line, *rest = s->text + s->at;
    size_t n = strcspn(rest, "\n\r"), more = 1 + (size_t)rng_below(r, 5);
    if (more <= n) {
        s->at += more;
        console_partial_line(f->c, rank, LAUNCH_STDOUT, line, (size_t)(s->text + s->at - line));
    } else {
        (void)console_line(f->c, rank, LAUNCH_STDOUT, line, (size_t)(rest + n - line));
        s->at = s->line = (size_t)(rest + n - s->text) + 1;
    }
    return !s->text[s->at];
}

static void fill(struct source *s, int rank, struct rng *r)
{
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i + 2 < sizeof s->text; i++)
        s->text[i] = rng_below(r, 8) ? (char)('A' + 2 * rank + (int)rng_below(r, 2))
                                     : "\n\r"[rng_below(r, 2)];
    s->text[sizeof s->text - 2] = '\n';
}

/* Copies the bytes of `text` that a rank may have written, without newlines, which drover adds. */
static void bytes_of(char *out, int rank, const char *text)
{
    for (; *text; text++)
        if (*text == 'A' + 2 * rank || *text == 'B' + 2 * rank)
            *out++ = *text;
    *out = '\0';
}

static void check_once(enum console_tag tag, struct rng *r)
{
    static char shown[60000], want[sizeof sources->text], got[sizeof shown];
    struct fixture f;
    start(&f, (struct console_style){.tag = tag}, true);
    for (int k = 0; k < 3; k++)
        fill(&sources[k], k, r);
    for (int left = 3; left > 0;) {
        int k = (int)rng_below(r, 3);
        if (sources[k].text[sources[k].at])
            left -= write_more(&f, &sources[k], k, r);
    }
    stop(&f);
    ssize_t n = read(f.out, shown, sizeof shown - 1);
    CHECK(n > 0);
    shown[n] = '\0';
    for (int k = 0; k < 3; k++) {
        bytes_of(want, k, sources[k].text);
        bytes_of(got, k, shown);
        CHECK_STR(got, want);
    }
}

TEST(in_a_file_each_byte_of_each_rank_is_there_once_and_in_order)
{
    struct rng r;
    rng_seed(&r, 4711, 0);
    for (int i = 0; i < 60; i++)
        check_once((enum console_tag)(i % 6), &r);
}

TEST(drovers_own_text_interrupts_a_line_too)
{
    struct fixture f;
    start(&f, (struct console_style){.tag = CONSOLE_TAG_NONE}, true);
    begun(&f, 0, "name? ");
    console_print(f.c, "ours\n");
    line(&f, 0, LAUNCH_STDOUT, "name? thanks", '\n');
    stop(&f);
    CHECK_STR(heard(f.out), "name? \nours\nthanks\n");
}
