/* cause: known texts and signals, and which of several explains the others. */
#include "launcher/cause.h"

#include "tests/unit/test.h"

static const struct rank_end exited_1 = {.status = 1};

static const char *what(const struct rank_end *r, const char *const *lines)
{
    const struct cause *c = cause_find(r, lines);
    return c ? c->what : "nothing";
}

TEST(an_unknown_failure_has_no_cause)
{
    CHECK(cause_find(&exited_1, NULL) == NULL);
    CHECK(cause_find(&exited_1, (const char *[]){"Traceback (most recent call last):", NULL}) ==
          NULL);
}

TEST(a_known_text_is_found_in_any_line)
{
    const char *lines[] = {
        "Traceback (most recent call last):",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "[W reducer.cpp] something", NULL};
    CHECK_HAS(what(&exited_1, lines), "GPU memory");
    CHECK_HAS(cause_find(&exited_1, lines)->advice, "smaller batch");
}

TEST(what_follows_from_another_failure_counts_last)
{
    const char *lines[] = {"ncclRemoteError: A call failed possibly due to a network error",
                           "RuntimeError: No space left on device", NULL};
    CHECK_HAS(what(&exited_1, lines), "disk is full");
    lines[1] = "bye";
    CHECK_HAS(what(&exited_1, lines), "went away first");
}

TEST(signals_tell_by_themselves)
{
    CHECK_HAS(what(&(struct rank_end){.status = -1, .signal = SIGBUS}, NULL), "/dev/shm");
    CHECK_HAS(what(&(struct rank_end){.status = -1, .signal = SIGILL}, NULL), "newer CPU");
    CHECK_HAS(what(&(struct rank_end){.status = -1, .signal = SIGKILL, .oom_killed = true}, NULL),
              "host memory");
    CHECK_STR(what(&(struct rank_end){.status = -1, .signal = SIGKILL}, NULL), "nothing");
}

TEST(a_missing_library_needs_the_loaders_status)
{
    const char *lines[] = {"./a: error while loading shared libraries: libx.so: cannot open", NULL};
    CHECK_HAS(what(&(struct rank_end){.status = 127}, lines), "shared library");
    CHECK_STR(what(&(struct rank_end){.status = 3}, lines), "nothing");
}
