#include "launcher/doctor/core/doctor_report.h"

#include "launcher/doctor/doctor_expect.h"
#include "tests/unit/test.h"

static size_t row_of(const char *id)
{
    return (size_t)(check_find(id) - check_table());
}

/* A report of nodes n0, n1, … without results of checks. */
static struct doctor_report make(int count)
{
    struct doctor_report r = {.count = count, .seconds = 1.94};
    r.nodes = xcalloc((size_t)count, sizeof *r.nodes);
    for (int i = 0; i < count; i++) {
        r.nodes[i].name = xasprintf("n%d", i);
        r.nodes[i].results = xcalloc(CHECKS, sizeof *r.nodes[i].results);
        for (size_t k = 0; k < CHECKS; k++)
            r.nodes[i].results[k].state = CHECK_SKIP;
    }
    return r;
}

static struct check_result *at(struct doctor_report *r, int node, const char *id)
{
    return &r->nodes[node].results[row_of(id)];
}

static void lose(struct doctor_report *r, int node)
{
    for (size_t k = 0; k < CHECKS; k++)
        check_result_clear(&r->nodes[node].results[k]);
    free(TAKE(r->nodes[node].results));
    r->nodes[node].error = xasprintf("n%d: no answer within 20 s", node);
}

static void check_text(const struct doctor_report *r, bool all, const char *expected)
{
    AUTO(strbuf) struct strbuf b = {0};
    doctor_report_text(&b, r, all);
    CHECK_STR(strbuf_str(&b), expected);
}

TEST(one_node_has_no_names)
{
    struct doctor_report r = make(1);
    check_ok(at(&r, 0, "host.shm"), "statvfs(/dev/shm)", "23 GiB free");
    check_bad(at(&r, 0, "host.nofile"), CHECK_WARN, "65536", "getrlimit()", "1024");
    check_advise(at(&r, 0, "host.nofile"), "ulimit -n 65536");
    check_skip(at(&r, 0, "net.name"), "there is only this node");
    check_text(&r, false,
               "warn  host.nofile: limit of open files: 1024, wanted: 65536 (getrlimit())\n"
               "      try: ulimit -n 65536\n"
               "1 ok, 1 warning, 0 failures, 1 skipped (there is only this node) in 1.9 s\n");
    doctor_report_free(&r);
}

TEST(the_way_out_of_a_missing_node_has_a_line_of_its_own)
{
    struct doctor_report r = make(1);
    lose(&r, 0);
    free(r.nodes[0].error);
    r.nodes[0].error = xstrdup("n0: resolve: its name is unknown; try: getent hosts n0; the name");
    check_text(&r, false,
               "fail  n0: resolve: its name is unknown\n      try: getent hosts n0; the name\n"
               "0 ok, 0 warnings, 1 failure, 0 skipped in 1.9 s\n"
               "cause: n0: resolve: its name is unknown\n");
    doctor_report_free(&r);
}

TEST(nodes_that_agree_share_a_line_and_the_others_are_named)
{
    struct doctor_report r = make(6);
    for (int i = 0; i < 6; i++)
        check_bad(at(&r, i, "host.nofile"), CHECK_WARN, "65536", NULL, i < 4 ? "1024" : "%d",
                  100 + i);
    for (int i = 0; i < 6; i++)
        check_bad(at(&r, i, "host.shm"), i == 3 ? CHECK_FAIL : CHECK_OK, NULL, NULL,
                  i == 3 ? "0" : "9 GiB");
    check_advise(at(&r, 3, "host.shm"), "remount it");
    for (int i = 0; i < 4; i++)
        check_advise(at(&r, i, "host.nofile"), "a");
    check_advise(at(&r, 4, "host.nofile"), "b");
    check_advise(at(&r, 5, "host.nofile"), "c");
    check_text(&r, false,
               "fail  host.shm: space in /dev/shm: 0 on n3\n      try: remount it\n"
               "warn  host.nofile: limit of open files: 1024 on 4 of 6 nodes, wanted: 65536\n"
               "      try: a\n"
               "warn  host.nofile: limit of open files: 104 on n4, wanted: 65536\n      try: b\n"
               "warn  host.nofile: limit of open files: 105 on n5, wanted: 65536\n      try: c\n"
               "0 ok, 1 warning, 1 failure, 0 skipped on 6 nodes in 1.9 s\n"
               "cause: space in /dev/shm: 0 on n3\n");
    doctor_report_free(&r);
}

TEST(a_node_without_an_answer_is_a_failure_and_the_cause)
{
    struct doctor_report r = make(3);
    for (int i = 0; i < 3; i++)
        check_ok(at(&r, i, "host.shm"), NULL, "9 GiB");
    lose(&r, 1);
    check_text(&r, false,
               "fail  n1: no answer within 20 s\n1 ok, 0 warnings, 1 failure, 0 skipped on 3 nodes "
               "in 1.9 s\ncause: n1: no answer within 20 s\n");
    AUTO(json) json_t *j = doctor_report_json(&r);
    const json_t *lost = json_array_get(json_object_get(j, "nodes"), 1);
    CHECK_STR(json_string_value(json_object_get(lost, "error")), "n1: no answer within 20 s");
    CHECK_INT((int)json_array_size(json_object_get(lost, "checks")), 0);
    doctor_report_free(&r);
}

TEST(a_node_in_the_minority_has_what_differs_there)
{
    static const char usual[] = "drover 2, NCCL 2.27, driver 580, time zone UTC";
    static const struct {
        const char *value;
        enum check_state state;
        const char *differs, *want;
    } cases[] = {
        {"drover 2, NCCL 2.27, driver 570, time zone UTC", CHECK_WARN, "driver 570", "driver 580"},
        {"drover 2, NCCL 2.26, driver 580, time zone UTC", CHECK_FAIL, "NCCL 2.26", "NCCL 2.27"},
        {"drover 1, NCCL 2.27, driver 570, time zone UTC", CHECK_FAIL, "drover 1, driver 570",
         "drover 2, driver 580"},
        {"drover 2, driver 580, time zone UTC", CHECK_FAIL, "no NCCL 2.27", "NCCL 2.27"},
        {"drover 2, NCCL 2.27, driver 580, time zone UTC, libc 2", CHECK_WARN, "libc 2",
         "nothing else"},
        {"drover 2, NCCL 2.27, driver 580, time zone CET", CHECK_WARN, "time zone CET",
         "time zone UTC"},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        struct doctor_report r = make(5);
        for (int i = 0; i < 5; i++)
            check_ok(at(&r, i, "net.skew"), NULL, "%s", i == 2 ? cases[k].value : usual);
        doctor_report_compare(&r);
        AUTO(free) char *want = xasprintf("%s, as on 4 others", cases[k].want);
        CHECK_INT(at(&r, 2, "net.skew")->state, cases[k].state);
        CHECK_STR(at(&r, 2, "net.skew")->value, cases[k].differs);
        CHECK_STR(at(&r, 2, "net.skew")->want, want);
        CHECK_INT(at(&r, 0, "net.skew")->state, CHECK_OK);
        doctor_report_free(&r);
    }
}

TEST(values_that_need_not_be_the_same_are_not_compared)
{
    struct doctor_report r = make(5);
    for (int i = 0; i < 5; i++)
        check_ok(at(&r, i, "host.mem"), NULL, "%d GiB", i);
    doctor_report_compare(&r);
    CHECK_INT(at(&r, 4, "host.mem")->state, CHECK_OK);
    struct doctor_counts n = doctor_report_count(&r);
    CHECK(n.ok == 1 && n.warn == 0 && n.fail == 0 && n.skip == 0);
    doctor_report_free(&r);
}

TEST(a_clock_that_the_time_of_the_answer_cannot_explain_is_wrong)
{
    static const struct {
        double node, begin, end;
        enum check_state state;
        const char *value;
    } cases[] = {
        {105, 100, 110, CHECK_OK, "synchronised"},
        {111, 100, 110, CHECK_OK, "synchronised"},
        {99, 100, 110, CHECK_OK, "synchronised"},
        {0, 100, 110, CHECK_OK, "synchronised"},
        {112, 100, 110, CHECK_WARN, "2 s ahead of this machine's clock"},
        {90, 100, 110, CHECK_WARN, "10 s behind this machine's clock"},
        {200, 100, 110, CHECK_FAIL, "90 s ahead of this machine's clock"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct doctor_report r = make(1);
        check_ok(at(&r, 0, "host.clock"), NULL, "synchronised");
        r.nodes[0].time_s = cases[i].node;
        doctor_report_judge_clock(r.nodes, cases[i].begin, cases[i].end);
        CHECK_INT(at(&r, 0, "host.clock")->state, cases[i].state);
        CHECK_STR(at(&r, 0, "host.clock")->value, cases[i].value);
        doctor_report_free(&r);
    }
}

TEST(what_a_node_sends_is_what_is_read)
{
    struct doctor_report r = make(1), copy = make(1);
    check_bad(at(&r, 0, "host.shm"), CHECK_FAIL, "more", "here", "\"0\" \xff");
    check_advise(at(&r, 0, "host.shm"), "try");
    check_ok(at(&r, 0, "host.mem"), NULL, "9 GiB");
    AUTO(json) json_t *j = doctor_report_json(&r);
    AUTO(free) char *text = json_line(j);
    struct err e = {0};
    free(TAKE(copy.nodes[0].results));
    CHECK_INT(doctor_report_read_node(&copy.nodes[0], text, &e), 0);
    CHECK_INT(at(&copy, 0, "host.shm")->state, CHECK_FAIL);
    CHECK_STR(at(&copy, 0, "host.shm")->want, "more");
    CHECK_STR(at(&copy, 0, "host.shm")->advice, "try");
    CHECK_STR(at(&copy, 0, "host.mem")->value, "9 GiB");
    CHECK(at(&copy, 0, "host.disk")->value == NULL);
    struct doctor_node bad = {0};
    static const char *const malformed[] = {"", "[]", "{\"nodes\": [{}]}", "{\"nodes\": 3}", "x"};
    for (size_t i = 0; i < COUNT_OF(malformed); i++)
        CHECK_INT(doctor_report_read_node(&bad, malformed[i], &e), -EBADMSG);
    doctor_report_free(&r);
    doctor_report_free(&copy);
}

TEST(expected_values_are_written_and_compared)
{
    char path[] = "/tmp/drover-test-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    struct doctor_report r = make(2);
    for (int i = 0; i < 2; i++) {
        check_ok(at(&r, i, "net.skew"), NULL, "drover 2");
        check_ok(at(&r, i, "net.mtu"), NULL, "%d", 1500 + i); /* not the same: not written */
    }
    struct err e = {0};
    AUTO(json) json_t *expected = NULL;
    CHECK_INT(doctor_expect_write(&r, path, &e), 0);
    CHECK_INT(doctor_expect_read(&expected, path, &e), 0);
    CHECK_INT((int)json_object_size(expected), 1);
    check_ok(at(&r, 1, "net.skew"), NULL, "drover 3");
    doctor_expect_compare(&r, expected);
    CHECK_INT(at(&r, 0, "net.skew")->state, CHECK_OK);
    CHECK_INT(at(&r, 1, "net.skew")->state, CHECK_WARN);
    CHECK_STR(at(&r, 1, "net.skew")->want, "drover 2");
    unlink(path);
    json_t *none = NULL;
    CHECK_INT(doctor_expect_read(&none, path, &e), -ENOENT);
    doctor_report_free(&r);
}
