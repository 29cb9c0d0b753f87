/* test - a test is a function whose name is the sentence that it proves. Each test runs in a
 * process of its own with a time limit. The tests of a folder are one program, which speaks TAP:
 * test_main.c.
 *
 *     TEST(a_lost_worker_sends_the_trial_back_to_the_queue)
 *     {
 *         CHECK_INT(states_next(&trial_states, TRIAL_RUNNING, TRIAL_EV_LOST), TRIAL_WAITING);
 *     } */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of one test: against one that hangs. A sanitizer makes tests many times slower. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { TEST_LIMIT_S = 600 };
#else
enum { TEST_LIMIT_S = 120 };
#endif

struct test_case {
    const char *file, *name;
    void (*run)(void);
    struct test_case *next;
};

#ifdef __cplusplus
extern "C" {
#endif
/* Adds a test to the program. Keeps `t`. */
void test_register(struct test_case *t);

/* Checks a limit on time. A busy machine breaks such limits without a fault of the program, so they
 * are checked only by `tests/run --only perf`, which starts programs with --perf. */
extern bool test_checks_time;
#ifdef __cplusplus
}
#endif

#define TEST(id)                                                                       \
    static void test_##id(void);                                                       \
    __attribute__((constructor)) static void test_register_##id(void)                  \
    {                                                                                  \
        static struct test_case t = {.file = __FILE__, .name = #id, .run = test_##id}; \
        test_register(&t);                                                             \
    }                                                                                  \
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

#define CHECK_TIME(cond)                              \
    do {                                              \
        if (test_checks_time && !(cond))              \
            FAIL("slower than its limit: %s", #cond); \
    } while (0)

/* Ends this test as skipped; only for hardware that is missing. */
#define SKIP(why)                   \
    do {                            \
        printf("# SKIP %s\n", why); \
        fflush(stdout);             \
        _exit(77);                  \
    } while (0)
