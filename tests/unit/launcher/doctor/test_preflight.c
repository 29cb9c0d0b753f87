/* preflight: which failures of which nodes end the start of a job. Which nodes are checked, and
 * what is printed: tests/e2e/test_preflight.py. */
#include "launcher/doctor/preflight.h"

#include <errno.h>

#include "launcher/doctor/core/check.h"
#include "tests/unit/test.h"

static void add(struct doctor_report *r, const char *node, const char *id, const char *state,
                const char *value)
{
    struct err e = {0};
    AUTO(free)
    char *text = xasprintf("{\"v\":1,\"nodes\":[{\"node\":\"x\",\"checks\":[{\"id\":\"%s\","
                           "\"state\":\"%s\",\"value\":\"%s\"}]}]}",
                           id, state, value);
    CHECK_INT(preflight_import(r, node, text, &e), 0);
}

TEST(only_a_failure_that_breaks_the_job_ends_its_start)
{
    static const struct {
        const char *id, *state;
        int rc;
    } cases[] = {
        {"gpu.answers", "fail", -ECANCELED},
        {"drv.match", "fail", -ECANCELED},
        {"drv.fabric", "fail", -ECANCELED},
        {"gpu.mode", "fail", -ECANCELED},
        {"gpu.answers", "ok", 0},
        {"gpu.answers", "skip", 0},
        {"gpu.mode", "warn", 0},
        {"host.shm", "fail", 0},
        {"gpu.temp", "fail", 0},
        {"host.nofile", "fail", 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err e = {0};
        AUTO(doctor_report) struct doctor_report r = {0};
        add(&r, "c01", cases[i].id, cases[i].state, "x");
        CHECK_INT(preflight_judge(&r, NULL, &e), cases[i].rc);
        CHECK_INT(e.code, cases[i].rc);
    }
}

TEST(the_first_failure_in_the_order_of_the_table_is_the_error_and_names_its_nodes)
{
    struct err e = {0};
    AUTO(free) char *node = NULL;
    AUTO(doctor_report) struct doctor_report r = {0};
    add(&r, "c01", "gpu.answers", "ok", "all GPUs answer");
    add(&r, "c02", "gpu.answers", "fail", "GPU 3: GPU_IS_LOST");
    add(&r, "c03", "drv.match", "fail", "NVML 580, kernel module 570");
    add(&r, "c04", "drv.match", "fail", "NVML 580, kernel module 570");
    add(&r, "c05", "gpu.answers", "ok", "all GPUs answer");
    CHECK_INT(preflight_judge(&r, &node, &e), -ECANCELED);
    CHECK_STR(node, "c03");
    CHECK_STR(e.text, "drv.match: versions of driver library and kernel module: NVML 580, kernel "
                      "module 570 on c03 and c04");
    CHECK_HAS(e.hint, "restart the machine");
    CHECK_HAS(e.hint, "--no-preflight");
    CHECK_INT(preflight_judge(&r, NULL, &e), 0); /* the nodes are forgotten */
}

TEST(an_answer_that_is_malformed_names_its_node)
{
    static const char *const bad[] = {"", "[]", "{\"nodes\":[]}", "{\"nodes\":[{\"checks\":1}]}"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        AUTO(doctor_report) struct doctor_report r = {0};
        CHECK_INT(preflight_import(&r, "c07", bad[i], &e), -EBADMSG);
        CHECK_HAS(e.text, "c07");
    }
}

TEST(a_node_that_has_checked_nothing_sends_nothing)
{
    AUTO(strbuf) struct strbuf none = {0};
    AUTO(doctor_report) struct doctor_report r = {0};
    preflight_export(&none, &r);
    CHECK_INT((int)none.len, 0);
    CHECK_INT(preflight_judge(&r, NULL, NULL), 0);
}
