#include "common/log.h"

#include <fcntl.h>

#include "tests/unit/test.h"

/* Redirects stderr into a pipe; said() returns what was written since its last call. */
static int from = -1, real_stderr = -1;
static void listen_to_stderr(void)
{
    int fds[2];
    CHECK_INT(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    real_stderr = dup(STDERR_FILENO);
    CHECK(dup2(fds[1], STDERR_FILENO) == STDERR_FILENO);
    close(fds[1]);
    from = fds[0];
}

static char heard[8192];
static const char *said(void)
{
    ssize_t n = read(from, heard, sizeof heard - 1);
    heard[n > 0 ? n : 0] = '\0';
    return heard;
}

/* A failed check writes to stderr: it must be the real one. */
static void stop_listening(void)
{
    dup2(real_stderr, STDERR_FILENO);
}

static void check_levels(const char *variable, const char *want)
{
    if (variable)
        setenv("DROVER_LOG", variable, 1);
    else
        unsetenv("DROVER_LOG");
    listen_to_stderr();
    log_open("drover test");
    log_error("%d", 1);
    log_warn("%s", "2");
    log_info("3");
    log_debug("4");
    const char *text = said();
    stop_listening();
    CHECK_STR(text, want);
}

TEST(warnings_and_errors_are_shown_where_nothing_is_set)
{
    check_levels(NULL, "drover test: error: 1\ndrover test: warn: 2\n");
    CHECK_STR(log_program(), "drover test");
}

TEST(an_empty_variable_is_as_none)
{
    check_levels("", "drover test: error: 1\ndrover test: warn: 2\n");
}

TEST(the_variable_sets_the_level)
{
    check_levels("error", "drover test: error: 1\n");
    check_levels("debug", "drover test: error: 1\ndrover test: warn: 2\n"
                          "drover test: info: 3\ndrover test: debug: 4\n");
}

TEST(a_level_that_is_none_is_said_and_the_usual_one_stays)
{
    check_levels("verbose",
                 "drover test: warn: DROVER_LOG='verbose': must be error, warn, info or debug\n"
                 "drover test: error: 1\ndrover test: warn: 2\n");
}

TEST(a_program_sets_the_level)
{
    listen_to_stderr();
    log_set_level(LOG_INFO);
    log_info("yes");
    log_debug("no");
    const char *text = said();
    stop_listening();
    CHECK_STR(text, "drover: info: yes\n");
}

TEST(a_line_is_one_line_whatever_is_in_it)
{
    listen_to_stderr();
    log_error("a\nb\r\tc\x1b[31md\x7f \xc3\xa4");
    const char *text = said();
    stop_listening();
    CHECK_STR(text, "drover: error: a b  c [31md  \xc3\xa4\n");
}

static void check_cut(size_t long_text, size_t long_who)
{
    static char text[9000], who[9000];
    memset(text, 'x', long_text);
    memset(who, 'w', long_who);
    text[long_text] = who[long_who] = '\0';
    log_open(who);
    listen_to_stderr();
    log_error("%s", text);
    size_t len = strlen(said());
    stop_listening();
    size_t whole = long_who + strlen(": error: ") + long_text + 1;
    CHECK_INT(len, whole < 2000 ? whole : 2000);
    CHECK(heard[len - 1] == '\n' && strchr(heard, '\n') == heard + len - 1);
    CHECK_INT(strcmp(heard + len - 4, "...\n") == 0, whole > 2000);
}

TEST(a_line_that_is_too_long_is_cut)
{
    for (size_t n = 1900; n < 2100; n++)
        check_cut(n, 6);
    check_cut(8000, 6);
}

TEST(a_speaker_that_is_too_long_leaves_room_for_the_text)
{
    static char who[5000];
    memset(who, 'w', sizeof who - 1);
    log_open(who);
    listen_to_stderr();
    log_error("text");
    const char *text = said();
    stop_listening();
    CHECK(strlen(text) < 2000);
    CHECK_HAS(text, "text\n");
}

TEST(errno_survives_a_line)
{
    close(STDERR_FILENO);
    errno = ENOENT;
    log_error("into nothing");
    CHECK_INT(errno, ENOENT);
}

static void append(void *arg, const char *line)
{
    strcat(arg, line);
}

TEST(a_sink_gets_the_lines_instead_of_stderr)
{
    char lines[200] = "";
    listen_to_stderr();
    log_open("drover test");
    log_set_sink(append, lines);
    log_error("one\ntwo");
    log_debug("not shown");
    log_set_sink(NULL, NULL);
    log_error("three");
    const char *text = said();
    stop_listening();
    CHECK_STR(lines, "drover test: error: one two\n");
    CHECK_STR(text, "drover test: error: three\n");
}
