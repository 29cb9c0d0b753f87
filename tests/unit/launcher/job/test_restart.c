/* restart: when a failed job is restarted, and on which hosts. */
#include "launcher/job/restart.h"

#include "tests/unit/test.h"

static const struct restart_attempt failed = {.status = 1, .seconds = 10};

TEST(a_job_is_restarted_exactly_so_many_times)
{
    AUTO(restart) struct restart *r = restart_new(3, false);
    for (int i = 1; i <= 3; i++) {
        CHECK(restart_after(r, &failed) >= 0);
        CHECK_INT(restart_count(r), i);
    }
    CHECK_INT(restart_after(r, &failed), -1);
    CHECK_INT(restart_count(r), 3);
}

TEST(without_restarts_a_failure_is_the_end)
{
    AUTO(restart) struct restart *r = restart_new(0, false);
    CHECK_INT(restart_after(r, &failed), -1);
}

TEST(the_first_restart_is_at_once_and_each_pause_is_twice_the_one_before_up_to_30_s)
{
    static const int want[] = {0, 1000, 2000, 4000, 8000, 16000, 30000, 30000};
    AUTO(restart) struct restart *r = restart_new(100, false);
    for (size_t i = 0; i < COUNT_OF(want); i++)
        CHECK_INT(restart_after(r, &failed), want[i]);
}

TEST(an_error_of_the_program_is_not_restarted_at_once)
{
    static const struct restart_attempt hopeless = {.status = 1, .hopeless = true};
    AUTO(restart) struct restart *r = restart_new(100, true);
    CHECK_INT(restart_after(r, &hopeless), 1000);
    CHECK_INT(restart_after(r, &hopeless), 2000);
}

TEST(after_an_attempt_that_ran_long_the_restart_is_at_once_again)
{
    AUTO(restart) struct restart *r = restart_new(100, false);
    CHECK_INT(restart_after(r, &failed), 0);
    CHECK_INT(restart_after(r, &failed), 1000);
    CHECK_INT(restart_after(r, &(struct restart_attempt){.status = 1, .seconds = 300}), 0);
    CHECK_INT(restart_after(r, &failed), 1000);
}

TEST(what_ended_well_or_was_ended_or_never_started_is_not_restarted)
{
    AUTO(restart) struct restart *r = restart_new(5, false);
    CHECK_INT(restart_after(r, &(struct restart_attempt){.status = 0}), -1);
    CHECK_INT(restart_after(r, &(struct restart_attempt){.status = 143, .by_user = true}), -1);
    CHECK_INT(restart_after(r, &(struct restart_attempt){.status = 127, .not_started = true}), -1);
    CHECK_INT(restart_count(r), 0);
}

static void check_hosts(const struct restart *r, int needed, int per_node, const char *kept,
                        const char *gone)
{
    AUTO(hosts) struct hosts *all = xzalloc(sizeof *all);
    hosts_add(all, "a", 4, 0);
    hosts_add(all, "b", 4, 8);
    hosts_add(all, "c", 4, 0);
    AUTO(strv) char **left_out = NULL;
    AUTO(hosts) struct hosts *h = restart_hosts(r, all, needed, per_node, &left_out);
    char names[16] = "", out[16] = "";
    for (int i = 0; i < h->count; i++)
        strcat(names, h->at[i].name);
    for (size_t i = 0; left_out && left_out[i]; i++)
        strcat(out, left_out[i]);
    CHECK_STR(names, kept);
    CHECK_STR(out, gone);
}

TEST(a_host_that_failed_twice_is_left_out_where_slots_are_to_spare)
{
    AUTO(restart) struct restart *r = restart_new(9, false);
    struct restart_attempt on_b = {.status = 1, .host = "b"};
    restart_after(r, &on_b);
    check_hosts(r, 4, 0, "abc", "");
    restart_after(r, &on_b);
    check_hosts(r, 8, 0, "ac", "b");
    check_hosts(r, 9, 0, "abc", "");
    check_hosts(r, 2, 1, "ac", "b"); /* one per node */
    check_hosts(r, 3, 1, "abc", "");
}

TEST(of_several_bad_hosts_the_worst_goes_first)
{
    AUTO(restart) struct restart *r = restart_new(9, false);
    for (int i = 0; i < 2; i++)
        restart_after(r, &(struct restart_attempt){.status = 1, .host = "a"});
    for (int i = 0; i < 3; i++)
        restart_after(r, &(struct restart_attempt){.status = 1, .host = "c"});
    check_hosts(r, 8, 0, "ab", "c");
    check_hosts(r, 4, 0, "b", "ca");
}

static const struct restart_attempt ecc_on_b = {
    .status = 1, .seconds = 10, .host = "b", .cause = "ECC", .by_host = true};

TEST(a_hopeless_failure_is_not_restarted_unless_the_user_wants_it)
{
    const struct restart_attempt wrong = {.status = 1, .cause = "NameError", .hopeless = true};
    AUTO(restart) struct restart *r = restart_new(3, false), *always = restart_new(3, true);
    CHECK_INT(restart_after(r, &wrong), -1);
    CHECK_INT(restart_refusal(r), RESTART_HOPELESS);
    for (int i = 0; i < 3; i++)
        CHECK(restart_after(always, &wrong) > 0);
    CHECK_INT(restart_after(always, &wrong), -1);
    CHECK_INT(restart_refusal(always), RESTART_NOT_REFUSED);
}

TEST(nothing_is_refused_if_no_restart_is_left_or_wanted)
{
    AUTO(restart) struct restart *r = restart_new(0, false), *s = restart_new(3, false);
    CHECK_INT(restart_after(r, &(struct restart_attempt){.status = 1, .hopeless = true}), -1);
    CHECK_INT(restart_refusal(r), RESTART_NOT_REFUSED);
    CHECK_INT(
        restart_after(s, &(struct restart_attempt){.status = 1, .hopeless = true, .by_user = true}),
        -1);
    CHECK_INT(restart_refusal(s), RESTART_NOT_REFUSED);
}

/* Returns true if the second of two attempts is restarted. */
static bool goes_on(struct restart_attempt first, struct restart_attempt second)
{
    AUTO(restart) struct restart *r = restart_new(9, false);
    first.status = second.status = 1;
    CHECK(restart_after(r, &first) >= 0);
    bool goes = restart_after(r, &second) >= 0;
    CHECK_INT(restart_refusal(r), goes ? RESTART_NOT_REFUSED : RESTART_SAME_AGAIN);
    return goes;
}

TEST(the_same_failure_twice_without_progress_is_the_end)
{
    const struct restart_attempt a = {.seconds = 20, .cause = "a"};
    CHECK(!goes_on(a, a));
    CHECK(!goes_on(a, (struct restart_attempt){.seconds = 40, .cause = "a"}));
    CHECK(goes_on(a, (struct restart_attempt){.seconds = 41, .cause = "a"})); /* it came further */
    CHECK(goes_on(a, (struct restart_attempt){.seconds = 20, .cause = "b"}));
    CHECK(goes_on(a, (struct restart_attempt){.seconds = 20}));
    CHECK(
        goes_on((struct restart_attempt){.seconds = 20}, (struct restart_attempt){.seconds = 20}));
    const struct restart_attempt hours = {.seconds = 9000, .cause = "a"};
    CHECK(goes_on(hours, hours));
}

TEST(a_failure_between_two_equal_ones_lets_the_job_go_on)
{
    AUTO(restart) struct restart *r = restart_new(9, false);
    const struct restart_attempt a = {.status = 1, .cause = "a"}, b = {.status = 1, .cause = "b"};
    CHECK(restart_after(r, &a) >= 0);
    CHECK(restart_after(r, &b) > 0);
    CHECK(restart_after(r, &a) > 0);
    CHECK_INT(restart_after(r, &a), -1);
}

TEST(a_host_that_is_the_cause_is_left_out_at_once_where_slots_are_to_spare)
{
    AUTO(restart) struct restart *r = restart_new(9, false);
    CHECK(restart_after(r, &ecc_on_b) >= 0);
    check_hosts(r, 4, 0, "ac", "b");
    check_hosts(r, 9, 0, "abc", "");
    CHECK(!restart_is_bad_host(r, "b")); /* later jobs may use it */
}

TEST(a_damaged_host_that_cannot_be_left_ends_the_job_and_another_one_does_not)
{
    struct restart_attempt on_c = ecc_on_b;
    on_c.host = "c";
    CHECK(!goes_on(ecc_on_b, ecc_on_b));
    CHECK(goes_on(ecc_on_b, on_c));
}
