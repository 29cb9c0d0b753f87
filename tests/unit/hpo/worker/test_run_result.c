/* test_run_result - what the scheduler learns of a job's end. */
#include "hpo/worker/run_result.h"

#include "common/json.h"
#include "tests/unit/test.h"

static const char *said(struct job_end end, bool preempted)
{
    static char text[2048];
    json_t *j = run_result_json(&end, preempted);
    size_t len = json_dumpb(j, text, sizeof text - 1, JSON_COMPACT);
    text[len] = 0;
    json_decref(j);
    return text;
}

TEST(a_job_that_succeeded_has_no_error)
{
    CHECK_STR(said((struct job_end){.first_failed = -1, .seconds = 1.5}, false),
              "{\"status\":0,\"signal\":0,\"oom\":false,\"seconds\":1.5,\"stopped\":false}");
}

TEST(a_failure_names_its_cause_and_the_last_line)
{
    struct job_end end = {.status = 3, .first_failed = 0, .first = {.status = 3}, .seconds = 0.5};
    end.last_lines = (const char *[]){"Traceback", "ValueError: no", "  ", NULL};
    CHECK_STR(said(end, false),
              "{\"status\":3,\"signal\":0,\"oom\":false,\"seconds\":0.5,\"stopped\":false,"
              "\"error\":\"exit status 3: ValueError: no\"}");
    end.first = (struct rank_end){.rank = 2, .status = -1, .signal = 11};
    end.status = 139;
    end.last_lines = NULL;
    CHECK_STR(said(end, true),
              "{\"status\":-1,\"signal\":11,\"oom\":false,\"seconds\":0.5,\"stopped\":false,"
              "\"error\":\"rank 2: signal 11 (Segmentation fault)\","
              "\"preempted\":true}");
}

TEST(a_failure_that_another_rank_explains_names_that_rank_and_its_cause)
{
    const struct rank_end ends[2] = {{.rank = 0, .status = 1},
                                     {.rank = 1, .status = 1, .told_to_stop = true}};
    const char *second[] = {"RuntimeError: [2] Connection closed by peer [10.0.0.2]:3000", NULL},
               *first[] = {"Traceback (most recent call last):",
                           "  File \"t.py\", line 3, in <module>", "ValueError: a bad batch", NULL};
    const struct job_witness ranks[2] = {{.end = &ends[0], .lines = second},
                                         {.end = &ends[1], .lines = first}};
    struct job_end end = {
        .status = 1, .first_failed = 0, .first = ends[0], .ranks = ranks, .ranks_count = 2};
    end.last_lines = second;
    CHECK_HAS(said(end, false), "3000; cause: rank 1: ValueError: a bad batch");
    end.ranks_count = 1; /* alone: the cause is its own line */
    CHECK(!strstr(said(end, false), "; cause: rank"));
}

TEST(a_job_that_no_rank_ended_says_what_did)
{
    struct job_end end = {.status = 137, .first_failed = -1, .broken = "the guardian was killed"};
    CHECK_STR(said(end, false),
              "{\"status\":137,\"signal\":0,\"oom\":false,\"seconds\":0.0,\"stopped\":false,"
              "\"error\":\"the guardian was killed\"}");
    end.stopped = true;
    CHECK_STR(said(end, false),
              "{\"status\":137,\"signal\":0,\"oom\":false,\"seconds\":0.0,\"stopped\":true}");
}

TEST(a_program_that_cannot_be_executed_has_the_cause_as_its_error)
{
    struct job_end end = {.status = 127, .first_failed = 0, .first = {.status = -1}};
    strcpy(end.first.start_error, "exec ./train: no such file or directory");
    CHECK_HAS(said(end, false), "\"error\":\"exec ./train: no such file or directory\"");
    CHECK_HAS(said(end, false), "\"status\":127");
}

TEST(a_stopped_job_is_marked_as_stopped)
{
    struct job_end end = {.first_failed = -1, .stopped = true};
    CHECK_HAS(said(end, false), "\"stopped\":true");
    json_t *j = run_result_not_started(NULL, true);
    CHECK(json_is_true(json_object_get(j, "stopped")));
    CHECK(json_is_true(json_object_get(j, "preempted")));
    CHECK(json_is_true(json_object_get(j, "not_started")));
    json_decref(j);
    j = run_result_not_started("disk full", false);
    CHECK(json_is_false(json_object_get(j, "stopped")));
    CHECK_STR(json_string_value(json_object_get(j, "error")), "disk full");
    CHECK(!json_object_get(j, "node_fault"));
    run_result_blame_node(j, 0, NULL);
    CHECK_STR(json_string_value(json_object_get(j, "error")), "disk full");
    CHECK_INT(json_integer_value(json_object_get(j, "node_fault")), 0);
    run_result_blame_node(j, 2, "no output");
    CHECK_STR(json_string_value(json_object_get(j, "error")), "no output; disk full");
    CHECK_INT(json_integer_value(json_object_get(j, "node_fault")), 2);
    json_decref(j);
}

TEST(lines_about_exhausted_memory_are_recognised)
{
    struct job_end end = {.status = 1, .first_failed = 0, .first = {.status = 1}};
    end.last_lines = (const char *[]){
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "x", NULL};
    CHECK_HAS(said(end, false), "\"oom\":true");
    end.last_lines = NULL;
    CHECK_HAS(said(end, false), "\"oom\":false");
    end.first.oom_killed = true;
    CHECK_HAS(said(end, false), "\"oom\":true");
    CHECK_HAS(said(end, false), "out of memory");
    /* Lines of a job that succeeded are not searched. */
    end = (struct job_end){.first_failed = -1};
    end.last_lines = (const char *[]){"MemoryError", NULL};
    CHECK_HAS(said(end, false), "\"oom\":false");
}

TEST(invalid_utf8_is_replaced_and_text_is_cut_between_characters)
{
    const struct {
        const char *in, *out;
        size_t max;
    } cases[] = {
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", 20},
        {"a\xff\xc3\xbc"
         "b",
         "a?\xc3\xbc"
         "b",
         20},
        {"\xc3\xbc\xc3\xbc", "\xc3\xbc", 3},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 4},
        {"cut \xf0\x9f\x98", "cut ???", 20},
        {"", "", 5},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *got = run_result_utf8(cases[i].in, cases[i].max);
        CHECK_STR(got, cases[i].out);
    }
}

TEST(a_result_is_a_text_for_users)
{
    static const struct {
        const char *result, *want;
    } rows[] = {
        {"{\"status\":0,\"stopped\":false}", "exit status 0"},
        {"{\"status\":0,\"stopped\":true}", "stopped"},
        {"{\"status\":1,\"error\":\"exit status 1: no file\"}", "exit status 1: no file"},
        {"{\"status\":-1,\"oom\":true,\"error\":\"signal 9\"}", "out of memory: signal 9"},
        {"{\"status\":0,\"stopped\":true,\"preempted\":true}", "stopped; it returns to the queue"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(json) json_t *result = json_loads(rows[i].result, 0, NULL);
        AUTO(strbuf) struct strbuf b = {0};
        run_result_text(&b, result);
        CHECK_STR(strbuf_str(&b), rows[i].want);
    }
}
