/* test_run_facts - the facts of a log, by name. */
#include "launcher/why/run_facts.h"

#include "tests/unit/test.h"

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    CHECK_INT(json_parse(&value, text, strlen(text), NULL), 0);
    return value;
}

TEST(each_part_of_a_log_has_its_facts)
{
    static const struct {
        const char *meta, *fact, *value;
    } cases[] = {
        {"{\"argv\": [\"python3\", \"train.py\"]}", "command word 1", "train.py"},
        {"{\"argv\": [\"t\", \"--lr=0.1\"]}", "command --lr", "0.1"},
        {"{\"argv\": [\"t\", \"--lr\", \"-1\"]}", "command --lr", "-1"},
        {"{\"argv\": [\"t\", \"--amp\", \"--lr\", \"1\"]}", "command --amp", "given"},
        {"{\"argv\": [\"t\", \"--set\", \"a\", \"--set\", \"b\"]}", "command --set", "a b"},
        {"{\"argv\": [\"t\", \"model.lr=3\"]}", "command model.lr", "3"},
        {"{\"argv\": [\"sh\", \"-c\", \"A=1 b\"]}", "command -c", "A=1 b"},
        {"{\"environment\": {\"KEY\": \"***\"}}", "variable KEY", "***"},
        {"{\"dir\": \"/x\"}", "directory", "/x"},
        {"{\"plan\": {\"ranks\": 2, \"nodes\": [{\"name\": \"a\", \"cpus\": [\"0-1\"]}]}}",
         "plan node 0 cpus", "[\"0-1\"]"},
        {"{\"plan\": {\"ranks\": 2, \"nodes\": [{\"name\": \"a\"}]}}", "plan nodes", "1"},
        {"{\"node\": {\"kernel\": \"6.1\"}}", "node kernel", "6.1"},
        {"{\"versions\": {\"drover\": \"0.2\"}}", "version drover", "0.2"},
        {"{\"files\": {\"a.py\": \"1 2\"}}", "file a.py", "1 2"},
        {"{\"git\": {\"commit\": \"ab\", \"diff\": \"\"}}", "git commit", "ab"},
        {"{\"libraries\": {\"/a/libnccl.so.2.21\": 2048}}", "library libnccl",
         "/a/libnccl.so.2.21 (2 KiB of code)"},
        {"{\"series\": [{\"at\": 1000, \"data\": {\"step\": 0, \"loss\": \"nan\"}},"
         " {\"at\": 3000, \"data\": {\"step\": 8}}]}",
         "speed steps per second", "4"},
        {"{\"series\": [{\"at\": 1000, \"data\": {\"loss\": \"nan\"}}]}", "metric loss at first",
         "nan"},
        {"{\"begin_ms\": 1000, \"end_ms\": 3000, \"status\": 0}", "speed seconds in all", "2"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(json) json_t *meta = parse(cases[i].meta), *facts = run_facts_of(meta);
        CHECK_STR(json_string_value(json_object_get(facts, cases[i].fact)), cases[i].value);
    }
}

TEST(only_the_changed_lines_of_a_file_count)
{
    static const char before[] = "{\"git\": {\"commit\": \"a\", \"diff\": \"diff --git a/m b/m\\n"
                                 "index 1..2\\n--- a/m\\n+++ b/m\\n@@ -1 +1,2 @@\\n x\\n+y\\n\"}}";
    static const char after[] = "{\"git\": {\"commit\": \"b\", \"diff\": \"diff --git a/m b/m\\n"
                                "index 3..4\\n--- a/m\\n+++ b/m\\n@@ -7 +7,2 @@\\n z\\n+%s\\n\"}}";
    const char *lines[] = {"y", "other"};
    AUTO(json) json_t *meta = parse(before), *facts = run_facts_of(meta);
    const char *old = json_string_value(json_object_get(facts, "git changes of m"));
    CHECK(old && strncmp(old, "+1 -0 lines (", 13) == 0);
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        AUTO(free) char *text = xasprintf(after, lines[i]);
        AUTO(json) json_t *meta2 = parse(text), *facts2 = run_facts_of(meta2);
        const char *new = json_string_value(json_object_get(facts2, "git changes of m"));
        CHECK_INT(new &&strcmp(new, old) == 0, i == 0);
    }
}

TEST(the_program_is_the_script_without_its_directory)
{
    AUTO(json) json_t *a = parse("{\"argv\": [\"python3\", \"-u\", \"/x/train.py\", \"3\"]}");
    AUTO(json) json_t *none = json_object();
    AUTO(free) char *program = run_facts_program(a), *unknown = run_facts_program(none);
    CHECK_STR(program, "train.py");
    CHECK_STR(unknown, "");
}

TEST(a_slowdown_is_that_of_a_step_or_else_of_the_run)
{
    AUTO(json)
    json_t *slow = parse("{\"begin_ms\": 1000, \"end_ms\": 9000, \"series\": ["
                         "{\"at\": 1000, \"data\": {\"step\": 1}},"
                         "{\"at\": 5000, \"data\": {\"step\": 3}}]}");
    AUTO(json)
    json_t *fast = parse("{\"begin_ms\": 1000, \"end_ms\": 5000, \"series\": ["
                         "{\"at\": 1000, \"data\": {\"step\": 1}},"
                         "{\"at\": 5000, \"data\": {\"step\": 9}}]}");
    AUTO(json) json_t *silent = parse("{\"begin_ms\": 1000, \"end_ms\": 3000, \"series\": []}");
    AUTO(json) json_t *none = json_object();
    CHECK(run_facts_slowdown(slow, fast) == 4);
    CHECK(run_facts_slowdown(slow, silent) == 4 && run_facts_slowdown(fast, silent) == 2);
    CHECK(run_facts_slowdown(slow, none) == 0);
}
