/* wait_line: when it speaks, what it says, and the line on a terminal. */
#include "common/wait_line.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "tests/unit/test.h"

/* Replaces stderr by `fd`. Returns the old one. */
static int replace(int fd)
{
    int old = dup(STDERR_FILENO);
    CHECK(old >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
    return old;
}

/* Makes `old` stderr again. Returns what the other end of the one before has got; a terminal may
 * pass it on later than write(2) returns. */
static const char *heard(int fd, int old)
{
    static char text[4000];
    size_t len = 0;
    ssize_t n;
    CHECK(write(STDERR_FILENO, "\f", 1) == 1);
    CHECK_INT(dup2(old, STDERR_FILENO), STDERR_FILENO);
    while (!memchr(text, '\f', len) && (n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    text[strcspn(text, "\f")] = '\0';
    return text;
}

/* Asks each second for `seconds`, and speaks when it is time. */
static void wait_for(int seconds)
{
    struct wait_line w;
    wait_line_begin(&w, 5000);
    for (int64_t ms = 0; ms <= seconds * 1000; ms += 1000)
        if (wait_line_due(&w, 5000 + ms))
            wait_line_say(&w, 5000 + ms, "no answer from %s", "c02");
}

TEST(a_file_gets_lines_at_growing_intervals_of_a_minute_at_most)
{
    int fds[2];
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    int old = replace(fds[1]);
    wait_for(190);
    log_status(NULL);
    AUTO(strbuf) struct strbuf want = {0};
    static const int times[] = {2, 4, 8, 16, 32, 64, 124, 184};
    for (size_t i = 0; i < COUNT_OF(times); i++)
        strbuf_printf(&want, "drover: warn: waiting %d s: no answer from c02\n", times[i]);
    CHECK_STR(heard(fds[0], old), strbuf_str(&want));
}

TEST(a_short_wait_says_nothing)
{
    int fds[2];
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    int old = replace(fds[1]);
    wait_for(1);
    CHECK_STR(heard(fds[0], old), "");
}

/* Returns what a terminal of `columns` shows of 4 s and a message. */
static const char *on_terminal(const char *term, int columns)
{
    int tty = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(tty >= 0 && grantpt(tty) == 0 && unlockpt(tty) == 0);
    int fd = open(ptsname(tty), O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    struct termios raw;
    CHECK(fd >= 0 && tcgetattr(fd, &raw) == 0 && ioctl(fd, TIOCSWINSZ, &size) == 0);
    cfmakeraw(&raw);
    CHECK_INT(tcsetattr(fd, TCSANOW, &raw), 0);
    setenv("TERM", term, 1);
    int old = replace(fd);
    wait_for(3);
    log_warn("b");
    log_status(NULL);
    return heard(tty, old);
}

TEST(a_terminal_has_one_line_that_is_rewritten_and_goes_with_the_next_message)
{
    CHECK_STR(on_terminal("xterm", 80), "\r\033[Kdrover: waiting 2 s: no answer from c02"
                                        "\r\033[Kdrover: waiting 3 s: no answer from c02"
                                        "\r\033[Kdrover: warn: b\n");
    CHECK_STR(on_terminal("xterm", 21), "\r\033[Kdrover: waiting 2 s:"
                                        "\r\033[Kdrover: waiting 3 s:"
                                        "\r\033[Kdrover: warn: b\n");
    CHECK_STR(on_terminal("dumb", 80),
              "drover: warn: waiting 2 s: no answer from c02\ndrover: warn: b\n");
}
