/* exclude_file: its lines, their expiry, and several writers. */
#include "launcher/plan/exclude_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/plan/hostfile.h"
#include "tests/unit/kit_disk.h"
#include "tests/unit/test.h"

enum { NOW = 1800000000 }; /* 2027-01-15T08:00:00Z */

TEST(a_line_has_a_node_a_time_and_a_reason)
{
    struct exclusions x;
    struct err e = {0};
    CHECK_INT(exclude_file_parse(&x, "f",
                                 "# a comment\n\n  c07 2027-01-15T08:00:01Z  GPU 3: lost \r\n"
                                 "c08\t2027-01-15T08:00:00Z\tover\nme@c19 -\n",
                                 NOW, &e),
              0);
    CHECK_INT(x.count, 2);
    CHECK_STR(x.at[0].node, "c07");
    CHECK_STR(x.at[0].reason, "GPU 3: lost ");
    CHECK_INT(x.at[0].until_s, NOW + 1);
    CHECK(exclude_file_find(&x, "you@c07") == &x.at[0] && exclude_file_find(&x, "c19") == &x.at[1]);
    CHECK(!exclude_file_find(&x, "c08") && !exclude_file_find(&x, "c0"));
    exclude_file_free(&x);
}

TEST(a_malformed_line_is_an_error_with_its_number)
{
    static const char *const bad[] = {"c07", "c07 tomorrow x", "c07 2027-01-15 x",
                                      "c07 2027-13-15T08:00:00Z x", "c07 2027-01-15T08:00:00 x"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct exclusions x;
        struct err e = {0};
        AUTO(free) char *text = xasprintf("c01 - x\n\n%s\nc02 - y\n", bad[i]);
        CHECK_INT(exclude_file_parse(&x, "f", text, NOW, &e), -EINVAL);
        CHECK_HAS(e.text, "f:3: the time is ");
        CHECK_INT(x.count, 0);
    }
}

static void add(const char *path, const char *node, int64_t until_s, const char *reason,
                int64_t now)
{
    struct err e = {0};
    const struct exclusion x = {(char *)node, (char *)reason, until_s};
    CHECK_INT(exclude_file_add(path, &x, now, &e), 0);
}

TEST(a_node_is_written_once_and_expired_lines_are_removed)
{
    char path[] = "/tmp/drover-test-XXXXXX";
    AUTO(fd) int fd = mkstemp(path);
    AUTO(free) char *text = NULL;
    CHECK_INT((int)write(fd, "# mine", 6), 6);
    add(path, "c01", NOW + 10, "first\nreason", NOW);
    add(path, "c02", 0, "for ever", NOW);
    add(path, "me@c01", NOW + 60, "second", NOW);
    add(path, "c03", NOW + 5, "short", NOW);
    add(path, "c04", NOW + 90, "last", NOW + 5);
    CHECK_INT(hostfile_text(&text, path, NULL), 0);
    CHECK_STR(text, "# mine\nc02 - for ever\nc01 2027-01-15T08:01:00Z second\n"
                    "c04 2027-01-15T08:01:30Z last\n");
    unlink(path);
}

TEST(a_full_disk_is_an_error_and_leaves_the_old_lines)
{
    char path[] = "/tmp/drover-test-XXXXXX";
    AUTO(fd) int fd = mkstemp(path);
    AUTO(free) char *text = NULL;
    struct err e = {0};
    const struct exclusion x = {(char *)"c02", (char *)"lost", 0};
    add(path, "c01", 0, "for ever", NOW);
    disk_set_full(true);
    CHECK_INT(exclude_file_add(path, &x, NOW, &e), -EFBIG);
    disk_set_full(false);
    CHECK_HAS(e.text, path);
    CHECK_INT(hostfile_text(&text, path, NULL), 0);
    CHECK_STR(text, "c01 - for ever\n");
    unlink(path);
}

TEST(a_file_that_does_not_exist_excludes_no_node_and_is_created)
{
    char path[] = "/tmp/drover-test-XXXXXX";
    struct exclusions x;
    struct err e = {0};
    close(mkstemp(path));
    unlink(path);
    CHECK_INT(exclude_file_read(&x, path, NOW, &e), 0);
    CHECK_INT(x.count, 0);
    add(path, "c01", NOW + 10, "x", NOW);
    CHECK_INT(exclude_file_read(&x, path, NOW, &e), 0);
    CHECK_INT(x.count, 1);
    exclude_file_free(&x);
    unlink(path);
}

TEST(several_processes_lose_no_line)
{
    enum { WRITERS = 4, LINES = 25 };
    char path[] = "/tmp/drover-test-XXXXXX";
    struct exclusions x;
    struct err e = {0};
    close(mkstemp(path));
    for (int w = 0; w < WRITERS; w++)
        if (fork() == 0) {
            for (int i = 0; i < LINES; i++) {
                AUTO(free) char *node = xasprintf("c%d-%d", w, i);
                add(path, node, 0, "x", NOW);
            }
            _exit(0);
        }
    for (int status = 0; wait(&status) > 0;)
        CHECK_INT(status, 0);
    CHECK_INT(exclude_file_read(&x, path, NOW, &e), 0);
    CHECK_INT(x.count, WRITERS * LINES);
    exclude_file_free(&x);
    unlink(path);
}
