#include "launcher/doctor/core/check_run.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/test.h"

static void is_ok(struct check_result *r, struct check_env *env)
{
    check_ok(r, "here", "%d ranks", env->ranks);
}

static void warns(struct check_result *r, struct check_env *env)
{
    check_bad(r, CHECK_WARN, "more", "/proc/x", "3");
    check_advise(r, "add %d", 4);
}

static void fails(struct check_result *r, struct check_env *env)
{
    check_bad(r, CHECK_FAIL, "yes", "there", "no");
}

static void hangs(struct check_result *r, struct check_env *env)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (;;)
        pause();
}

/* Says which of the standard descriptors are /dev/null. */
static void shows_std_fds(struct check_result *r, struct check_env *env)
{
    struct stat null, st;
    int count = 0;
    for (int fd = 0; stat("/dev/null", &null) == 0 && fd < 3; fd++)
        count += fstat(fd, &st) == 0 && st.st_rdev == null.st_rdev;
    check_ok(r, "here", "%d", count);
}

static void crashes(struct check_result *r, struct check_env *env)
{
    raise(SIGKILL);
}

static void says_much(struct check_result *r, struct check_env *env)
{
    char text[20000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    check_ok(r, "\xff\xfe", "%s", text);
}

enum { ROWS = 12 };

static void run(struct check_result *out, const struct check *rows, size_t n, bool quick)
{
    struct check_env env = {
        .ranks = 7, .least = quick ? CHECK_QUICK : CHECK_LONG, .deadline_ms = 200};
    struct err e = {0};
    CHECK_INT(check_run(out, rows, n, &env, &e), 0);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void clear(struct check_result *r)
{
    for (int i = 0; i < ROWS; i++)
        check_result_clear(&r[i]);
}

TEST(results_come_back_whole)
{
    static const struct check rows[] = {
        {.id = "a", .run = is_ok}, {.id = "b", .run = warns}, {.id = "c", .run = says_much}};
    struct check_result r[ROWS] = {0};
    run(r, rows, 3, false);
    CHECK_INT(r[0].state, CHECK_OK);
    CHECK_STR(r[0].value, "7 ranks");
    CHECK_STR(r[0].source, "here");
    CHECK(r[0].want == NULL && r[0].advice == NULL);
    CHECK_INT(r[1].state, CHECK_WARN);
    CHECK_STR(r[1].want, "more");
    CHECK_STR(r[1].advice, "add 4");
    CHECK_INT((int)strlen(r[2].value), 19999);
    clear(r);
}

TEST(a_check_that_hangs_or_crashes_fails_and_the_others_run)
{
    static const struct check rows[] = {{.id = "a", .what = "the first", .run = hangs},
                                        {.id = "b", .run = is_ok},
                                        {.id = "c", .what = "the third", .run = crashes},
                                        {.id = "d", .needs = {"a"}, .run = is_ok},
                                        {.id = "e", .run = hangs, .what = "the last"}};
    struct check_result r[ROWS] = {0};
    run(r, rows, 5, false);
    CHECK_INT(r[0].state, CHECK_FAIL);
    CHECK_STR(r[0].value, "no answer within 200 ms");
    CHECK_INT(r[1].state, CHECK_OK);
    CHECK_INT(r[2].state, CHECK_FAIL);
    CHECK_STR(r[2].value, "the check crashed");
    CHECK_INT(r[3].state, CHECK_SKIP);
    CHECK_STR(r[3].value, "needs a");
    CHECK_INT(r[4].state, CHECK_FAIL);
    clear(r);
}

TEST(a_child_that_is_left_behind_does_not_keep_the_output_open)
{
    static const struct check rows[] = {{.id = "a", .run = shows_std_fds}};
    struct check_result r[ROWS] = {0};
    run(r, rows, 1, false);
    CHECK_STR(r[0].value, "3");
    clear(r);
}

TEST(what_depends_on_a_failure_or_a_skip_is_skipped)
{
    static const struct check rows[] = {{.id = "a", .run = fails},
                                        {.id = "b", .needs = {"a"}, .run = is_ok},
                                        {.id = "c", .needs = {"d", "b"}, .run = is_ok},
                                        {.id = "w", .run = warns},
                                        {.id = "f", .needs = {"w"}, .run = is_ok}};
    struct check_result r[ROWS] = {0};
    run(r, rows, 5, false);
    CHECK_STR(r[1].value, "needs a");
    CHECK_STR(r[2].value, "needs b");
    CHECK_INT(r[4].state, CHECK_OK); /* a warning does not matter */
    clear(r);
}

TEST(a_quick_run_leaves_the_long_checks_out)
{
    static const struct check rows[] = {
        {.id = "a", .run = fails}, {.id = "b", .when = CHECK_STOP, .needs = {"a"}, .run = is_ok}};
    struct check_result r[ROWS] = {0};
    run(r, rows, 2, true);
    CHECK(r[0].value == NULL);
    CHECK_INT(r[0].state, CHECK_SKIP);
    CHECK_INT(r[1].state, CHECK_OK);
    clear(r);
}

TEST(the_table_is_in_order_and_complete)
{
    const struct check *rows = check_table();
    for (size_t i = 0; i < CHECKS; i++) {
        CHECK(rows[i].id && strchr(rows[i].id, '.') && rows[i].what && rows[i].why &&
              (rows[i].run || strncmp(rows[i].id, "act.", 4) == 0));
        CHECK(check_find(rows[i].id) == &rows[i]);
        for (size_t k = 0; k < CHECK_NEEDS_MAX && rows[i].needs[k]; k++)
            CHECK(check_find(rows[i].needs[k]) && check_find(rows[i].needs[k]) < &rows[i]);
    }
}
