/* first_cause: which rank of several is the one that failed first-hand. */
#include "launcher/watch/first_cause.h"

#include <signal.h>

#include "tests/unit/test.h"

#define CLOSED \
    "RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [::1]:36016"
#define MEMORY "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
#define TRACEBACK "Traceback (most recent call last):"

#define W(how, said)              \
    {                             \
        .end = how, .lines = said \
    }
#define RANK(how, said) (struct job_witness) W(how, said)

static const struct rank_end exited_1 = {.status = 1, .seconds = 2},
                             exited_1_later = {.status = 1, .seconds = 2.5},
                             exited_0 = {.status = 0, .seconds = 1},
                             crashed = {.status = -1, .signal = SIGSEGV, .seconds = 3},
                             stopped = {.status = -1, .signal = SIGTERM, .told_to_stop = true};
static const char *const closed[] = {CLOSED, NULL}, *const memory[] = {MEMORY, NULL},
                         *const no_name[] = {TRACEBACK, "NameError: name 'x' is not defined", NULL},
                         *const odd[] = {TRACEBACK, "ValueError: odd", NULL},
                         *const denied[] = {"cp: Permission denied", NULL};

/* The witnesses of a case: rank 0 failed first, since its connection was closed. */
struct ranks {
    struct job_witness at[4];
};

static struct first_cause found(struct ranks r)
{
    struct first_cause c;
    first_cause_find(&c, 0, r.at, 4);
    return c;
}

static void check(struct ranks r, int rank, const char *what)
{
    r.at[0] = (struct job_witness){.end = &exited_1, .lines = closed};
    struct first_cause c = found(r);
    CHECK_INT(c.rank, rank);
    if (what)
        CHECK_HAS(c.cause.what, what);
    CHECK(!c.left);
    first_cause_clear(&c);
}

TEST(a_first_hand_failure_is_its_own_cause)
{
    struct first_cause c = found((struct ranks){
        {W(&exited_1, no_name), W(&exited_1, memory), W(&exited_0, NULL), W(NULL, NULL)}});
    CHECK_INT(c.rank, 0);
    CHECK_STR(c.cause.what, no_name[1]);
    CHECK(c.cause.remedy == FAILURE_STOP && !c.left);
    first_cause_clear(&c);
}

TEST(an_unknown_failure_blames_nobody)
{
    struct first_cause c =
        found((struct ranks){{W(&exited_1, NULL), W(&exited_1, memory), W(&exited_0, NULL)}});
    CHECK(c.rank == 0 && !c.known && !c.left);
    first_cause_clear(&c);
}

TEST(without_a_failure_there_is_no_cause)
{
    struct first_cause c;
    first_cause_find(&c, -1, NULL, 0);
    CHECK_INT(c.rank, -1);
    CHECK(!first_cause_signature(&c));
}

TEST(a_rank_that_ended_later_explains_one_whose_connection_was_closed)
{
    check((struct ranks){{W(NULL, NULL), W(NULL, NULL), W(&exited_1_later, memory)}}, 2,
          "out of GPU memory");
    check((struct ranks){{W(NULL, NULL), W(NULL, NULL), W(&exited_1_later, no_name)}}, 2,
          "NameError");
    check((struct ranks){{W(NULL, NULL), W(NULL, NULL), W(NULL, NULL), W(&crashed, NULL)}}, 3,
          NULL);
}

TEST(what_a_rank_printed_before_it_was_stopped_explains_the_failure)
{
    check((struct ranks){{W(NULL, NULL), W(&stopped, closed), W(&stopped, memory)}}, 2,
          "out of GPU memory");
    check((struct ranks){{W(NULL, NULL), W(&stopped, odd), W(NULL, NULL)}}, 1, "ValueError: odd");
    check((struct ranks){{W(NULL, NULL), W(&stopped, denied), W(NULL, NULL)}}, 0,
          "ended first"); /* it may survive this */
}

TEST(a_known_cause_counts_more_than_an_exception_and_the_earlier_one_more_than_the_later)
{
    check((struct ranks){{W(NULL, NULL), W(&exited_1, odd), W(&stopped, memory)}}, 2,
          "out of GPU memory");
    check((struct ranks){{W(NULL, NULL), W(&exited_1_later, odd), W(&exited_1, no_name)}}, 2,
          "NameError");
    check((struct ranks){{W(NULL, NULL), W(&exited_1_later, closed), W(&exited_1_later, odd)}}, 2,
          "odd");
}

TEST(a_rank_that_failed_without_a_word_is_named_if_nothing_explains_more)
{
    static const struct rank_end aborted = {.status = -1, .signal = SIGABRT, .seconds = 3};
    struct ranks r = {{W(&exited_1, closed), W(&exited_1, closed), W(&aborted, NULL),
                       W(&exited_1_later, denied + 1)}};
    struct first_cause c = found(r);
    CHECK(c.rank == 3 && c.silent && !c.known && !c.left);
    first_cause_clear(&c);
    CHECK_INT(first_cause_listen_ms(0, r.at, 4), 1000); /* a rank with a word may come */
    r.at[1] = RANK(&stopped, odd);
    c = found(r);
    CHECK(c.rank == 1 && !c.silent);
    first_cause_clear(&c);
    r.at[1] = RANK(&exited_0, NULL);
    c = found(r);
    CHECK(c.rank == 0 && !c.silent && c.left && c.left[1]);
    first_cause_clear(&c);
}

TEST(ranks_that_left_are_named_if_nothing_else_explains_the_failure)
{
    struct ranks r = {
        {W(&exited_1, closed), W(&exited_0, NULL), W(&stopped, NULL), W(&exited_0, NULL)}};
    struct first_cause c = found(r);
    CHECK(c.rank == 0 && c.left);
    CHECK(!c.left[0] && c.left[1] && !c.left[2] && c.left[3]);
    first_cause_clear(&c);
    r.at[2].lines = memory;
    check(r, 2, "out of GPU memory");
    r.at[1].lines = memory; /* it survived that */
    r.at[2].lines = NULL;
    c = found(r);
    CHECK(c.rank == 0 && c.left);
    first_cause_clear(&c);
}

TEST(an_error_file_of_another_rank_is_heard_too)
{
    check((struct ranks){{W(NULL, NULL),
                          {&exited_1, NULL, "{\"message\": \"ImportError: no lib\"}"}}},
          1, "ImportError: no lib");
}

TEST(a_rank_that_names_another_one_may_know_the_cause_itself)
{
    const char *lines[] = {
        "c01:1:1 [0] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'", TRACEBACK,
        CLOSED, NULL};
    struct first_cause c = found((struct ranks){{W(&exited_1, lines), W(&exited_0, NULL)}});
    CHECK(c.rank == 0 && !c.left);
    CHECK_HAS(c.cause.what, "memory is damaged");
    CHECK_INT(c.cause.remedy, FAILURE_ELSEWHERE);
    first_cause_clear(&c);
}

TEST(the_job_listens_only_after_second_hand_failures_and_until_a_first_hand_one_has_ended)
{
    struct job_witness r[3] = {W(&exited_1, no_name)};
    CHECK_INT(first_cause_listen_ms(0, r, 3), 0);
    r[0].lines = NULL;
    CHECK_INT(first_cause_listen_ms(0, r, 3), 0);
    r[0].lines = closed;
    CHECK_INT(first_cause_listen_ms(0, r, 3), 1000);
    r[2] = RANK(NULL, memory);
    CHECK_INT(first_cause_listen_ms(0, r, 3), 1000); /* its exit is not seen yet */
    r[1] = RANK(&exited_1_later, closed);
    CHECK_INT(first_cause_listen_ms(0, r, 3), 1000);
    r[2].end = &exited_1_later;
    CHECK_INT(first_cause_listen_ms(0, r, 3), 0);
}

static char *signature(const char *error)
{
    const char *lines[] = {TRACEBACK, error, NULL};
    struct first_cause c = found((struct ranks){{W(&exited_1, lines)}});
    char *text = first_cause_signature(&c);
    first_cause_clear(&c);
    return text;
}

TEST(equal_failures_have_equal_signatures_whatever_their_numbers)
{
    AUTO(free) char *a = signature("RuntimeError: bad block 17 at 0x7f00aa");
    AUTO(free) char *b = signature("RuntimeError: bad block 4 at 0x7f1234bb");
    AUTO(free) char *c = signature("RuntimeError: bad token 4 at 0x7f1234bb");
    AUTO(free) char *other_rank = signature(CLOSED);
    CHECK_STR(a, b);
    CHECK(strcmp(a, c) != 0);
    CHECK(!other_rank);
}
