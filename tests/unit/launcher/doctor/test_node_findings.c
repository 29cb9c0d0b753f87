/* node_findings: which results of `drover doctor --json` explain a slow rank. */
#include "launcher/doctor/active/node_findings.h"

#include "common/mem.h"

#include "tests/unit/test.h"

static const char *read_output(const char *output, size_t *count, int *rc)
{
    static struct strbuf text;
    struct err e = {0};
    AUTO(json) json_t *list = json_array();
    strbuf_free(&text);
    *rc = node_findings_read(&text, list, output, &e);
    *count = json_array_size(list);
    return strbuf_str(&text);
}

TEST(only_warnings_and_failures_that_explain_slowness_are_told)
{
    size_t n;
    int rc;
    const char *text = read_output(
        "{\"v\":1,\"nodes\":[{\"node\":\"c07\",\"checks\":["
        "{\"id\":\"host.nofile\",\"state\":\"warn\",\"value\":\"1024\"},"
        "{\"id\":\"host.cpus\",\"state\":\"fail\",\"value\":\"2\",\"want\":\"8 or more\"},"
        "{\"id\":\"host.cpusets\",\"state\":\"fail\",\"value\":\"unknown\"},"
        "{\"id\":\"gpu.temp\",\"state\":\"ok\",\"value\":\"60 C\"},"
        "{\"id\":\"gpu.slow\",\"state\":\"fail\",\"value\":\"GPU 3: hardware slowdown\"},"
        "{\"id\":\"link.gdr\",\"state\":\"skip\",\"value\":\"no RDMA device\"},"
        "{\"id\":\"gpu.pcie\",\"state\":\"warn\",\"value\":\"GPU 3: x8 of x16\"}]}],\"cause\":[]}",
        &n, &rc);
    CHECK_INT(rc, 0);
    CHECK_INT(n, 3);
    CHECK_STR(text, "host.cpus: 2, wanted: 8 or more; gpu.slow: GPU 3: hardware slowdown; "
                    "gpu.pcie: GPU 3: x8 of x16");
}

TEST(a_healthy_node_has_no_findings_and_one_that_does_not_answer_is_an_error)
{
    size_t n;
    int rc;
    CHECK_STR(read_output("{\"nodes\":[{\"node\":\"a\",\"checks\":[]}]}", &n, &rc), "");
    CHECK_INT(rc, 0);
    (void)read_output("{\"nodes\":[{\"node\":\"a\",\"error\":\"a: no answer\"}]}", &n, &rc);
    CHECK_INT(rc, -EBADMSG);
    (void)read_output("", &n, &rc);
    CHECK_INT(rc, -EBADMSG);
}
