#include "launcher/client/client.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>

#include "tests/unit/test.h"

/* Returns a drover; *launcher is the launcher's end of its report channel. */
static struct drover *with_channel(int *launcher)
{
    int fds[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
    char number[16];
    snprintf(number, sizeof number, "%d", fds[1]);
    setenv("DROVER_REPORT_FD", number, 1);
    struct drover *d = NULL;
    CHECK_INT(drover_init(&d), 0);
    CHECK(fcntl(fds[1], F_GETFD) & FD_CLOEXEC);
    *launcher = fds[0];
    return d;
}

static void expect_packet(int fd, const char *want)
{
    char got[4096];
    ssize_t n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    if (n < 0)
        FAIL("no packet: %s", strerror(errno));
    got[n] = '\0';
    CHECK_STR(got, want);
}

TEST(alone_a_report_goes_nowhere_and_says_go)
{
    struct drover *d = NULL;
    unsetenv("DROVER_REPORT_FD");
    unsetenv("DROVER_CKPT_DIR");
    CHECK_INT(drover_init(&d), 0);
    CHECK_INT(drover_report(d, 0, &(struct drover_metric){"loss", 1}, 1), DROVER_GO);
    CHECK_INT(drover_should_stop(d), DROVER_GO);
    CHECK(drover_checkpoint_dir(d) == NULL);
    drover_close(d);
}

TEST(a_report_is_one_packet_and_its_step_counts_up_where_none_is_given)
{
    int launcher;
    struct drover *d = with_channel(&launcher);
    struct drover_metric m = {"loss", 0.5};
    CHECK_INT(drover_report(d, -1, &m, 1), DROVER_GO);
    CHECK_INT(drover_report(d, -1, &m, 1), DROVER_GO);
    CHECK_INT(drover_report(d, 70, &m, 1), DROVER_GO);
    expect_packet(launcher, "{\"step\":0,\"loss\":0.5}");
    expect_packet(launcher, "{\"step\":1,\"loss\":0.5}");
    expect_packet(launcher, "{\"step\":70,\"loss\":0.5}");
    drover_close(d);
    close(launcher);
}

TEST(stop_is_seen_and_stays)
{
    int launcher;
    struct drover *d = with_channel(&launcher);
    CHECK_INT(drover_should_stop(d), DROVER_GO);
    CHECK_INT(send(launcher, "{\"hello\":1}", 11, 0), 11);
    CHECK_INT(drover_should_stop(d), DROVER_GO);
    CHECK_INT(send(launcher, "{\"stop\":true}", 13, 0), 13);
    CHECK_INT(drover_report(d, 1, &(struct drover_metric){"loss", 1}, 1), DROVER_STOP);
    CHECK_INT(drover_should_stop(d), DROVER_STOP);
    close(launcher);
    CHECK_INT(drover_should_stop(d), DROVER_STOP);
    CHECK_INT(drover_report(d, 2, &(struct drover_metric){"loss", 1}, 1), DROVER_STOP);
    drover_close(d);
}

TEST(a_launcher_that_is_gone_leaves_the_program_alone)
{
    int launcher;
    struct drover *d = with_channel(&launcher);
    close(launcher);
    for (int i = 0; i < 3; i++)
        CHECK_INT(drover_report(d, i, &(struct drover_metric){"loss", 1}, 1), DROVER_GO);
    drover_close(d);
}

TEST(a_report_waits_for_a_launcher_that_is_slow_to_read)
{
    int launcher, count = 3000;
    struct drover *d = with_channel(&launcher);
    pid_t pid = fork();
    if (pid == 0) {
        char got[4096];
        int seen = 0;
        drover_close(d); /* else this process would hold the end whose closing it awaits */
        while (recv(launcher, got, sizeof got, 0) > 0)
            seen++;
        _exit(seen == count ? 0 : 1);
    }
    close(launcher);
    for (int i = 0; i < count; i++)
        CHECK_INT(drover_report(d, i, &(struct drover_metric){"loss", 1}, 1), DROVER_GO);
    drover_close(d);
    int status = -1;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

TEST(a_bad_report_sends_nothing_and_does_not_count)
{
    int launcher;
    struct drover *d = with_channel(&launcher);
    CHECK_INT(drover_report(d, -1, &(struct drover_metric){"", 1}, 1), -EINVAL);
    CHECK_HAS(drover_error(d), "no name");
    CHECK_INT(drover_report(d, -1, &(struct drover_metric){"x", 1}, 1), DROVER_GO);
    expect_packet(launcher, "{\"step\":0,\"x\":1}");
    drover_close(d);
    close(launcher);
}

TEST(some_other_file_under_the_number_is_left_alone)
{
    int fds[2];
    CHECK_INT(pipe(fds), 0);
    char number[16];
    snprintf(number, sizeof number, "%d", fds[1]);
    const char *const values[] = {number, "999", "x", "-1", ""};
    for (int i = 0; i < 5; i++) {
        setenv("DROVER_REPORT_FD", values[i], 1);
        struct drover *d = NULL;
        CHECK_INT(drover_init(&d), 0);
        CHECK_INT(drover_report(d, 0, &(struct drover_metric){"x", 1}, 1), DROVER_GO);
        drover_close(d);
    }
    CHECK_INT(fcntl(fds[1], F_GETFD), 0); /* open, and no flag was set */
    char c;
    CHECK_INT(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    CHECK_INT(read(fds[0], &c, 1), -1); /* nothing was written */
}

TEST(what_is_wrong_in_the_environment_is_told_by_init)
{
    setenv("RANK", "5", 1);
    setenv("WORLD_SIZE", "2", 1);
    struct drover *d = NULL;
    CHECK_INT(drover_init(&d), -EINVAL);
    CHECK(d == NULL);
    CHECK_STR(drover_error(NULL), "RANK is 5, but WORLD_SIZE is 2");
}

TEST(the_checkpoint_folder_is_the_one_given)
{
    setenv("DROVER_CKPT_DIR", "/some/where", 1);
    struct drover *d = NULL;
    CHECK_INT(drover_init(&d), 0);
    CHECK_STR(drover_checkpoint_dir(d), "/some/where");
    drover_close(d);
}

TEST(sections_are_sent_with_their_time_and_a_wrong_order_is_refused)
{
    int launcher;
    char got[256];
    struct drover *d = with_channel(&launcher);
    CHECK_INT(drover_section_begin(d, "step"), 0);
    CHECK_INT(drover_section_begin(d, "load"), 0);
    CHECK_INT(drover_section_begin(d, "step"), -EALREADY);
    CHECK_STR(drover_error(d), "section 'step' is already open");
    expect_packet(launcher, "{\"kind\":\"section_begin\",\"section\":\"step\"}");
    expect_packet(launcher, "{\"kind\":\"section_begin\",\"section\":\"load\"}");
    usleep(2000);
    CHECK_INT(drover_section_end(d, "step"), 0);
    ssize_t n = recv(launcher, got, sizeof got - 1, MSG_DONTWAIT);
    got[n > 0 ? n : 0] = '\0';
    double seconds = 0;
    CHECK_INT(sscanf(got, "{\"kind\":\"section_end\",\"section\":\"step\",\"s\":%lf}", &seconds),
              1);
    CHECK(seconds >= 0.002);
    CHECK_INT(drover_section_end(d, "step"), -EINVAL);
    CHECK_STR(drover_error(d), "section 'step' is not open");
    CHECK_INT(drover_section_begin(d, ""), -EINVAL);
    CHECK_INT(drover_section_begin(d, NULL), -EINVAL);
    CHECK_INT(drover_section_end(d, NULL), -EINVAL);
    drover_close(d); /* with "load" open */
    close(launcher);
}

TEST(a_heartbeat_says_if_the_program_should_stop)
{
    int launcher;
    struct drover *d = with_channel(&launcher);
    CHECK_INT(drover_heartbeat(d), DROVER_GO);
    expect_packet(launcher, "{\"kind\":\"heartbeat\"}");
    CHECK_INT(send(launcher, "{\"stop\":true}", 13, 0), 13);
    CHECK_INT(drover_heartbeat(d), DROVER_STOP);
    close(launcher);
    CHECK_INT(drover_heartbeat(d), DROVER_STOP);
    CHECK_INT(drover_section_begin(d, "step"), 0); /* nobody listens */
    CHECK_INT(drover_section_end(d, "step"), 0);
    drover_close(d);
}
