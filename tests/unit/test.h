/* test - a test is a function whose name is the sentence it proves. Each runs in a process of its
 * own with a time limit; the program speaks TAP.
 *
 *     TEST(a_lost_worker_sends_the_trial_back_to_the_queue)
 *     {
 *         CHECK_INT(trial_next_state(TRIAL_RUNNING, TRIAL_EV_LOST), TRIAL_WAITING);
 *     } */
#ifndef DROVER_TEST_H
#define DROVER_TEST_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEST_LIMIT_S = 120, TEST_MAX = 512 };

struct test_case {
    const char *name;
    void (*run)(void);
};

static struct test_case test_cases[TEST_MAX];
static int test_count;

#define TEST(id)                                                       \
    static void test_##id(void);                                       \
    __attribute__((constructor)) static void test_register_##id(void)  \
    {                                                                  \
        test_cases[test_count++] = (struct test_case){#id, test_##id}; \
    }                                                                  \
    static void test_##id(void)

#define FAIL(...)                                         \
    do {                                                  \
        fprintf(stderr, "# %s:%d: ", __FILE__, __LINE__); \
        fprintf(stderr, __VA_ARGS__);                     \
        fputc('\n', stderr);                              \
        exit(1);                                          \
    } while (0)

#define CHECK(cond)                      \
    do {                                 \
        if (!(cond))                     \
            FAIL("not true: %s", #cond); \
    } while (0)

#define CHECK_INT(got, want)                                          \
    do {                                                              \
        long long got_ = (long long)(got), want_ = (long long)(want); \
        if (got_ != want_)                                            \
            FAIL("%s is %lld, expected %lld", #got, got_, want_);     \
    } while (0)

#define CHECK_STR(got, want)                                                        \
    do {                                                                            \
        const char *got_ = (got), *want_ = (want);                                  \
        if (!got_ || strcmp(got_, want_) != 0)                                      \
            FAIL("%s is '%s', expected '%s'", #got, got_ ? got_ : "(null)", want_); \
    } while (0)

#define CHECK_HAS(got, part)                                                           \
    do {                                                                               \
        const char *got_ = (got), *part_ = (part);                                     \
        if (!got_ || !strstr(got_, part_))                                             \
            FAIL("%s is '%s', which lacks '%s'", #got, got_ ? got_ : "(null)", part_); \
    } while (0)

#define CHECK_NEAR(got, want, tolerance)                                                       \
    do {                                                                                       \
        double got_ = (got), want_ = (want), diff_ = got_ - want_;                             \
        if (!((diff_ < 0 ? -diff_ : diff_) <= (tolerance)))                                    \
            FAIL("%s is %.17g, expected %.17g +- %g", #got, got_, want_, (double)(tolerance)); \
    } while (0)

/* Ends this test as skipped; only for hardware that is missing. */
#define SKIP(why)                   \
    do {                            \
        printf("# SKIP %s\n", why); \
        fflush(stdout);             \
        _exit(77);                  \
    } while (0)

static int test_run_one(const struct test_case *t)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(TEST_LIMIT_S);
        t->run();
        exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        fprintf(stderr, "# %s: killed by signal %d (%s)\n", t->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* With arguments, only the tests whose name contains one of them. */
int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int failed = 0, number = 0;
    for (int i = 0; i < test_count; i++) {
        int wanted = argc < 2;
        for (int a = 1; a < argc; a++)
            wanted |= strstr(test_cases[i].name, argv[a]) != NULL;
        if (!wanted)
            continue;
        int status = test_run_one(&test_cases[i]);
        printf("%s %d - %s%s\n", status == 0 || status == 77 ? "ok" : "not ok", ++number,
               test_cases[i].name, status == 77 ? " # SKIP" : "");
        failed += status != 0 && status != 77;
    }
    printf("1..%d\n", number);
    return failed != 0;
}

#endif
