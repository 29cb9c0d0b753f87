/* agent_spawn_read_env(): variables that an agent reads from its stdin. */
#include "launcher/remote/agent_spawn.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"
#include "launcher/remote/remote_launcher.h"
#include "tests/unit/test.h"

/* A pipe with this text, and then its end. */
static int pipe_with(const char *text)
{
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    CHECK_INT(write(ends[1], text, strlen(text)), (int)strlen(text));
    close(ends[1]);
    return ends[0];
}

static void unset(void)
{
    unsetenv(REMOTE_ENV_CONTROL);
    unsetenv(REMOTE_ENV_TOKEN);
}

TEST(an_agent_has_the_variables_that_the_launcher_writes)
{
    struct err e = {0};
    unset();
    AUTO(free) char *text = agent_spawn_env_text("10.0.0.1:4000,[fd00::1]:4000", "00ff");
    AUTO(fd) int fd = pipe_with(text);
    CHECK_INT(agent_spawn_read_env(fd, &e), 0);
    CHECK_STR(getenv(REMOTE_ENV_CONTROL), "10.0.0.1:4000,[fd00::1]:4000");
    CHECK_STR(getenv(REMOTE_ENV_TOKEN), "00ff");
}

TEST(the_text_may_arrive_in_parts_and_stdin_is_then_dev_null)
{
    struct err e = {0};
    unset();
    AUTO(free) char *text = agent_spawn_env_text("a:1", "00");
    AUTO(free) char *start = xstrndup(text, strlen(text) - 1);
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    pid_t writer = fork();
    if (writer == 0) { /* the reader waits for the second part, since the pipe stays open */
        (void)!write(ends[1], start, strlen(start));
        usleep(20000);
        (void)!write(ends[1], "\n", 1);
        pause();
    }
    CHECK_INT(agent_spawn_read_env(ends[0], &e), 0);
    CHECK_STR(getenv(REMOTE_ENV_TOKEN), "00");
    struct stat got, null;
    CHECK(fstat(ends[0], &got) == 0 && stat("/dev/null", &null) == 0);
    CHECK(got.st_rdev == null.st_rdev);
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

TEST(a_text_that_is_cut_or_says_something_else_is_an_error)
{
    static const char *const wrong[] = {"", "DROVER_CONTROL=a:1\nDROVER_TOKEN=00\n", "\n\n",
                                        "LD_PRELOAD=/tmp/x.so\n\n", "DROVER_TOKEN\n\n"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct err e = {0};
        unset();
        AUTO(fd) int fd = pipe_with(wrong[i]);
        CHECK_INT(agent_spawn_read_env(fd, &e), -EBADMSG);
        CHECK_HAS(e.text, "did not arrive on stdin");
        CHECK_HAS(e.hint, "~/.bashrc");
        CHECK(!getenv("LD_PRELOAD"));
    }
}
