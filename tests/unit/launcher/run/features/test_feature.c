#include "launcher/run/features/feature.h"

#include <errno.h>
#include <signal.h>

#include "tests/unit/test.h"

#define BIT(cause) (1U << FEATURE_CAUSE_##cause)

static int status_of(unsigned causes, int first_failed, int status, int sig)
{
    return feature_status(causes, &(struct job_end){.first_failed = first_failed, .status = status},
                          sig);
}

TEST(a_job_that_a_limit_stops_has_failed_even_if_its_ranks_succeed)
{
    CHECK_INT(status_of(0, -1, 0, 0), 0);
    CHECK_INT(status_of(BIT(LIMIT), -1, 0, 0), 124);
    CHECK_INT(status_of(BIT(IDLE), -1, 0, 0), 124);
    CHECK_INT(status_of(BIT(HANG), -1, 0, 0), 124);
    CHECK_INT(status_of(BIT(LIMIT) | BIT(SIGNAL), -1, 0, SIGINT), 124);
}

TEST(the_status_of_a_rank_that_failed_comes_first)
{
    CHECK_INT(status_of(0, 2, 7, 0), 7);
    CHECK_INT(status_of(BIT(LIMIT) | BIT(HANG), 2, 7, 0), 7);
    CHECK_INT(status_of(BIT(SIGNAL), 2, 7, SIGTERM), 7);
    CHECK_INT(status_of(BIT(OUTPUT) | BIT(LIMIT), 2, 7, 0), 128 + SIGPIPE);
}

TEST(a_signal_counts_only_if_ranks_did_not_succeed)
{
    CHECK_INT(status_of(BIT(SIGNAL), -1, 0, SIGTERM), 0);
    CHECK_INT(status_of(BIT(SIGNAL), -1, 1, SIGTERM), 128 + SIGTERM);
}

TEST(only_a_job_that_hangs_may_be_restarted)
{
    CHECK(!feature_is_final(0));
    CHECK(!feature_is_final(BIT(HANG)));
    CHECK(feature_is_final(BIT(HANG) | BIT(SIGNAL)));
    CHECK(feature_is_final(BIT(OUTPUT)));
    CHECK(feature_is_final(BIT(LIMIT)));
    CHECK(feature_is_final(BIT(IDLE)));
}

TEST(a_feature_that_needs_reports_asks_for_them)
{
    struct feature_settings none = {.run_log = {.off = true}}, baseline = none, slow = none,
                            log = {0};
    baseline.baseline.name = "a";
    struct launch_spec spec = {0};
    CHECK_INT(feature_check(&none, &spec, NULL), 0);
    CHECK(!spec.node.reports && spec.preflight);
    CHECK_INT(feature_check(&baseline, &spec, NULL), 0);
    CHECK(spec.node.reports && baseline.asked != none.asked);
    spec.node.reports = false;
    slow.stragglers = true;
    CHECK_INT(feature_check(&slow, &spec, NULL), 0);
    CHECK(spec.node.reports);
    spec.node.reports = false;
    CHECK_INT(feature_check(&log, &spec, NULL), 0);
    CHECK(spec.node.reports);
}

TEST(settings_that_contradict_each_other_are_refused)
{
    static const struct {
        struct feature_settings set;
        const char *text;
    } cases[] = {
        {{.baseline = {.update = true}}, "--baseline-update needs --baseline NAME"},
        {{.baseline = {.name = "a/b"}}, "--baseline"},
        {{.preflight = {.full = true, .off = true}}, "exclude each other"},
        {{.metrics = "x:y"}, "--metrics"},
        {{.report = "x.pdf"}, "--report"},
        {{.budget = {.limits = {.budget_text = "3"}}}, "--budget"},
        {{.sections = {.heartbeat = "0"}}, "--heartbeat-timeout"},
        {{.sections = {.timeouts = "a"}}, "--section-timeouts"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct feature_settings set = cases[i].set;
        struct launch_spec spec = {0};
        struct err e = {0};
        CHECK_INT(feature_check(&set, &spec, &e), -EINVAL);
        CHECK_HAS(e.text, cases[i].text);
        section_limits_free(&set.sections.limits);
    }
}
