#include "common/mem.h"

#include <fcntl.h>
#include <stdint.h>

#include "tests/unit/test.h"

static int ended;
static int *last_ended;
static void end(int *p)
{
    ended++;
    last_ended = p;
}
AUTO_DEFINE(counted, int *, end)

static int *early_return(int *p, int leave)
{
    AUTO(counted) int *a = p;
    if (leave)
        return NULL;
    return TAKE(a);
}

TEST(a_local_resource_ends_with_its_scope_unless_it_is_taken)
{
    int object = 0;
    CHECK(early_return(&object, 1) == NULL);
    CHECK_INT(ended, 1);
    CHECK(last_ended == &object);
    CHECK(early_return(&object, 0) == &object);
    CHECK_INT(ended, 1);
    CHECK(early_return(NULL, 1) == NULL);
    CHECK_INT(ended, 1);
}

TEST(a_descriptor_is_closed_with_its_scope_unless_it_is_taken)
{
    int closed, kept;
    {
        AUTO(fd) int a = open("/dev/null", O_RDONLY | O_CLOEXEC);
        AUTO(fd) int b = open("/dev/null", O_RDONLY | O_CLOEXEC);
        AUTO(fd) int none = -1;
        CHECK(a >= 0 && b >= 0);
        CHECK_INT(fd_take(&none), -1);
        closed = a;
        kept = fd_take(&b);
        CHECK_INT(b, -1);
    }
    CHECK_INT(fcntl(closed, F_GETFD), -1);
    CHECK(fcntl(kept, F_GETFD) >= 0);
    close(kept);
}

TEST(memory_of_any_type_is_freed_with_its_scope)
{
    AUTO(free) char *text = xstrdup("x");
    AUTO(free) double *numbers = xcalloc(3, sizeof *numbers);
    AUTO(free) void *none = NULL;
    CHECK_STR(text, "x");
    CHECK(numbers[2] == 0 && !none);
}

TEST(memory_is_zeroed_and_nothing_is_still_something)
{
    AUTO(free) unsigned char *bytes = xzalloc(1000);
    for (int i = 0; i < 1000; i++)
        CHECK_INT(bytes[i], 0);
    AUTO(free) void *a = xzalloc(0);
    AUTO(free) void *b = xcalloc(0, 8);
    AUTO(free) void *c = xrealloc(NULL, 0, 8);
    AUTO(free) void *d = try_calloc(0, 0);
    CHECK(a && b && c && d);
}

TEST(an_array_has_room_for_one_more_after_each_addition)
{
    AUTO(free) size_t *list = NULL;
    for (size_t i = 0; i < 1000; i++) {
        list = xgrow(list, i, sizeof *list);
        list[i] = i;
    }
    for (size_t i = 0; i < 1000; i++)
        CHECK_INT(list[i], i);
    list = xgrow(list, 4, sizeof *list); /* it was shortened, and becomes longer again */
    list[4] = 7;
    CHECK_INT(list[3], 3);
}

TEST(sizes_from_outside_that_overflow_give_null)
{
    volatile size_t huge = SIZE_MAX / 4 + 2; /* times 4 is 4 */
    CHECK(try_calloc(huge, 4) == NULL);
    CHECK(try_calloc(4, huge) == NULL);
}

static int exit_status_of(void (*act)(void))
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(freopen("/dev/null", "w", stderr));
        act();
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static volatile size_t quarter = SIZE_MAX / 4 + 2;
static void *volatile sink;
static void overflow_calloc(void)
{
    sink = xcalloc(quarter, 4);
}
static void overflow_realloc(void)
{
    sink = xrealloc(NULL, quarter, 4);
}
static void fine_calloc(void)
{
    free(xcalloc(4, 4));
}

TEST(sizes_of_ours_that_overflow_end_the_process)
{
    CHECK_INT(exit_status_of(fine_calloc), 0);
    CHECK_INT(exit_status_of(overflow_calloc), 1);
    CHECK_INT(exit_status_of(overflow_realloc), 1);
}

TEST(strings_are_copied_and_formatted)
{
    AUTO(free) char *part = xstrndup("abcdef", 3);
    AUTO(free) char *whole = xstrndup("abc", 10);
    AUTO(free) char *made = xasprintf("%d ranks, %s", 4, "ok");
    CHECK_STR(part, "abc");
    CHECK_STR(whole, "abc");
    CHECK_STR(made, "4 ranks, ok");
}

TEST(a_vector_of_strings_owns_its_copies)
{
    AUTO(strv) char **v = NULL;
    CHECK_INT(strv_len(v), 0);
    for (int i = 0; i < 100; i++)
        strv_push(&v, xasprintf("%d", i));
    CHECK_INT(strv_len(v), 100);
    CHECK(v[100] == NULL);
    CHECK_STR(v[99], "99");
    AUTO(strv) char **copy = strv_copy(v);
    CHECK_INT(strv_len(copy), 100);
    CHECK(copy[99] != v[99]);
    CHECK_STR(copy[99], "99");
    AUTO(strv) char **empty = strv_copy(NULL);
    CHECK(empty && !empty[0]);
    strv_add(&copy, NULL);
    strv_add(&copy, (char *[]){"a", "b", NULL});
    CHECK_INT(strv_len(copy), 102);
    CHECK_STR(copy[101], "b");
    CHECK(!copy[102]);
    CHECK_INT(strv_find(copy, "a"), 100);
    CHECK_INT(strv_find(copy, "c"), -1);
    CHECK_INT(strv_find(NULL, "a"), -1);
    strv_free(NULL);
}

TEST(a_text_is_one_of_the_strings_or_begins_with_one)
{
    static const char *const v[] = {"TERM", "SLURM_", NULL};
    CHECK(strv_has(v, "TERM") && !strv_has(v, "TERMINAL") && !strv_has(v, "TER"));
    CHECK(strv_begins(v, "SLURM_JOB") && strv_begins(v, "TERM") && !strv_begins(v, "SLURM"));
    CHECK(!strv_has(NULL, "TERM") && !strv_begins(NULL, "TERM"));
}
