/* ras_answer: answers in the forms of NCCL 2.24 to 2.32, and damaged ones. */
#include "launcher/hang/ras_answer.h"

#include "common/mem.h"
#include "common/strbuf.h"
#include "tests/unit/test.h"

static enum ras_state state_of(const char *text, int64_t pid)
{
    struct ras_answer a;
    ras_answer_read(&a, text);
    enum ras_state s = ras_answer_state(&a, &a, pid);
    ras_answer_free(&a);
    return s;
}

static const char counts_of_2_24[] =
    "NCCL version 2.24.3 compiled with CUDA 12.8\n\nErrors\n======\n\n"
    "#0-0 (b7b1e0f2c1) MISMATCH\n"
    "  Communicator ranks have different collective operation counts\n"
    "  7 ranks have launched up to operation 4021\n"
    "  1 rank has launched up to operation 4020\n"
    "  Rank 5 -- GPU 5 managed by process 705 on node 10.0.0.5\n";
static const char kinds_of_2_27[] =
    "#0-0 (b7b1e0f2c1) MISMATCH\n"
    "  Communicator ranks have different AllReduce operation counts\n"
    "  1 rank has launched up to operation 9\n"
    "  Rank 0 -- GPU 0 managed by process 700 on node 10.0.0.5\n"
    "  1 rank has launched up to operation 8\n"
    "  Rank 1 -- GPU 1 managed by process 701 on node 10.0.0.5\n"
    "  Communicator ranks have different AllGather operation counts\n"
    "  1 rank has launched up to operation 1\n"
    "  Rank 1 -- GPU 1 managed by process 701 on node 10.0.0.5\n"
    "  1 rank has not launched any operations\n"
    "  Rank 0 -- GPU 0 managed by process 700 on node 10.0.0.5\n";
static const char dead[] = "DEAD\n"
                           "  1 job process is considered dead\n"
                           "  Process 703 on node 10.0.0.5 managing GPU 3\n";

TEST(a_text_names_the_ranks_behind)
{
    CHECK_INT(state_of(counts_of_2_24, 705), RAS_BEHIND);
    CHECK_INT(state_of(counts_of_2_24, 704), RAS_NOTHING);
}

TEST(a_text_with_two_kinds_crosswise_names_another_call)
{
    CHECK_INT(state_of(kinds_of_2_27, 700), RAS_OTHER_CALL);
    CHECK_INT(state_of(kinds_of_2_27, 701), RAS_OTHER_CALL);
}

TEST(a_text_names_the_dead)
{
    CHECK_INT(state_of(dead, 703), RAS_GONE);
}

/* One communicator; counts of AllReduce and AllGather by rank, whose processes are 700, 701, … */
static char *json(const int (*counts)[2], int n, const char *status, const char *missing)
{
    struct strbuf b = {0};
    strbuf_printf(
        &b, "{\"communicators_count\": 1, \"communicators\": [{\"hash\": \"1\", \"ranks\": [");
    for (int i = 0; i < n; i++)
        strbuf_printf(&b,
                      "%s{\"rank\": %d, \"host\": \"10.0.0.5\", \"pid\": %d, \"status\": {%s}, "
                      "\"collective_counts\": {\"AllReduce\": %d, \"AllGather\": %d}}",
                      i > 0 ? "," : "", i, 700 + i, i == 0 ? status : "\"init_state\": 0",
                      counts[i][0], counts[i][1]);
    strbuf_printf(&b, "], \"missing_ranks\": [%s]}]}", missing);
    return strbuf_take(&b);
}

TEST(json_counts_name_who_is_behind_and_who_calls_something_else)
{
    AUTO(free) char *behind = json((const int[][2]){{9, 0}, {8, 0}}, 2, "\"init_state\": 0", "");
    CHECK_INT(state_of(behind, 701), RAS_BEHIND);
    CHECK_INT(state_of(behind, 700), RAS_NOTHING);
    AUTO(free)
    char *other = json((const int[][2]){{8, 1}, {9, 0}, {9, 0}}, 3, "\"init_state\": 0", "");
    CHECK_INT(state_of(other, 700), RAS_OTHER_CALL);
    CHECK_INT(state_of(other, 701), RAS_NOTHING);
    AUTO(free) char *equal = json((const int[][2]){{9, 0}, {9, 0}}, 2, "\"init_state\": 0", "");
    CHECK_INT(state_of(equal, 700), RAS_NOTHING);
}

TEST(json_names_who_has_finalised_and_who_is_gone_also_without_the_comma_of_2_28_9)
{
    AUTO(free)
    char *left = json((const int[][2]){{9, 0}, {9, 0}}, 2,
                      "\"init_state\": 0, \"finalize_called\": true", "");
    CHECK_INT(state_of(left, 700), RAS_LEFT);
    AUTO(free)
    char *gone = json((const int[][2]){{9, 0}, {9, 0}}, 2, "\"init_state\": 0",
                      "{\"rank\": 2, \"host\": \"10.0.0.6\", \"pid\": 702, \"nvml_dev\": 3\n"
                      "\"status\": {\"unresponsive\": true, \"considered_dead\": false}}");
    CHECK_INT(state_of(gone, 702), RAS_GONE);
}

TEST(only_what_stands_still_in_two_answers_counts)
{
    struct ras_answer a, b;
    AUTO(free) char *first = json((const int[][2]){{9, 0}, {8, 0}}, 2, "\"init_state\": 0", "");
    AUTO(free) char *moved = json((const int[][2]){{10, 0}, {9, 0}}, 2, "\"init_state\": 0", "");
    ras_answer_read(&a, first);
    ras_answer_read(&b, moved);
    CHECK_INT(ras_answer_state(&a, &b, 701), RAS_NOTHING);
    ras_answer_free(&a);
    ras_answer_free(&b);
}

TEST(a_failed_communicator_is_an_error_and_a_damaged_answer_does_no_harm)
{
    struct ras_answer a;
    AUTO(free)
    char *text =
        json((const int[][2]){{9, 0}, {9, 0}}, 2, "\"init_state\": 0, \"async_error\": 6", "");
    ras_answer_read(&a, text);
    CHECK(a.has_errors);
    ras_answer_free(&a);
    for (size_t n = strlen(text); n > 0; n--) {
        text[n - 1] = '\0';
        ras_answer_read(&a, text);
        ras_answer_free(&a);
    }
}
