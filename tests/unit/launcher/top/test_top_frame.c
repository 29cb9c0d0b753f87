/* test_top_frame - the text of a frame and of a table, and the keys. */
#include "launcher/top/top_frame.h"

#include "launcher/io/terminal_text.h"
#include "tests/unit/launcher/top/kit_top.h"
#include "tests/unit/test.h"

/* Two GPUs, a process and a job: a body of nine lines. */
static void make(struct top_node *n)
{
    *n = (struct top_node){.name = "a01"};
    kit_gpu(n, "GPU-0", 71, 20);
    kit_gpu(n, "GPU-1", -1, 0);
    snprintf(kit_process(n, "GPU-0", 4711, "python3 train.py --model gpt")->job, 96, "drover-1-a");
    kit_job(n, REGISTRY_JOB, "drover-1-a", "", -1, 1);
}

static char *frame_of(const struct top_node *nodes, int count, int columns, int rows,
                      struct top_state *state)
{
    AUTO(top_view) struct top_view v = {0};
    AUTO(strbuf) struct strbuf b = {0};
    top_model_view(&v, nodes, count, state->sort);
    top_frame(&b, &v, columns, rows, state);
    return strbuf_take(&b);
}

TEST(a_table_has_all_columns_and_no_spaces_at_the_end)
{
    AUTO(top_node) struct top_node n = {0};
    AUTO(top_view) struct top_view v = {0};
    AUTO(strbuf) struct strbuf b = {0};
    make(&n);
    snprintf(n.problem, sizeof n.problem, "the driver is old");
    top_model_view(&v, &n, 1, TOP_BY_INDEX);
    top_frame_table(&b, &v);
    CHECK_STR(strbuf_str(&b),
              "a01: the driver is old\n"
              "\n"
              "GPU  MODEL   UTIL         MEMORY      POWER  SM CLOCK  TEMP  THROTTLE\n"
              "  0  A100    71 %  20.0/40.0 GiB  300/400 W  1410 MHz  50 C  no\n"
              "  1  A100       -   0.0/40.0 GiB  300/400 W  1410 MHz  50 C  no\n"
              "\n"
              "GPU   PID  USER    MEMORY  JOB         RANK/TRIAL  COMMAND\n"
              "  0  4711  ada    1.0 GiB  drover-1-a  -           python3 train.py --model gpt\n"
              "\n"
              "JOB         RUNNING  GPUS   UTIL     FOR  COMMAND\n"
              "drover-1-a  1 rank      1   71 %   1m01s  train\n");
}

TEST(a_narrow_terminal_drops_columns_by_priority)
{
    static const struct {
        int columns;
        const char *gpus, *processes;
    } rows[] = {
        {80, "GPU  MODEL   UTIL         MEMORY      POWER  SM CLOCK  TEMP  THROTTLE           ",
         "GPU   PID  USER    MEMORY  JOB         RANK/TRIAL  COMMAND                      "},
        {68, "GPU  MODEL   UTIL         MEMORY      POWER  SM CLOCK  THROTTLE     ",
         "GPU   PID  USER    MEMORY  JOB         RANK/TRIAL  COMMAND          "},
        {60, "GPU   UTIL         MEMORY      POWER  SM CLOCK  THROTTLE    ",
         "GPU   PID    MEMORY  JOB         RANK/TRIAL  COMMAND        "},
        {40, "GPU   UTIL         MEMORY      POWER    ",
         "GPU   PID  JOB         RANK/TRIAL       "},
        {15, "GPU   UTIL     ", "GPU   PID      "},
        {4, "GPU ", "GPU "},
    };
    AUTO(top_node) struct top_node n = {0};
    make(&n);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct top_state state = {0};
        AUTO(free) char *frame = frame_of(&n, 1, rows[i].columns, 24, &state);
        int number = 0;
        for (char *line = strtok(frame, "\n"); line; line = strtok(NULL, "\n"), number++) {
            CHECK_INT(terminal_text_cells(line), rows[i].columns);
            if (number == 1)
                CHECK_STR(line, rows[i].gpus);
            if (number == 5)
                CHECK_STR(line, rows[i].processes);
        }
        CHECK_INT(number, 24);
    }
}

TEST(several_nodes_have_a_column_that_stays_longest)
{
    struct top_node nodes[2] = {{.name = ""}, {.name = "b02", .problem = "no answer for 7 s"}};
    make(&nodes[0]);
    struct top_state state = {0};
    AUTO(free) char *frame = frame_of(nodes, 2, 24, 7, &state);
    CHECK_STR(frame, "drover top   sort: index\n"
                     "b02: no answer for 7 s  \n"
                     "                        \n"
                     "NODE  GPU   UTIL        \n"
                     "a01     0   71 %        \n"
                     "a01     1      -        \n"
                     "q quit   lines 1-5 of 11");
    top_node_end(&nodes[0]);
}

TEST(a_frame_is_never_wider_or_higher_than_the_terminal)
{
    AUTO(top_node) struct top_node n = {0};
    make(&n);
    snprintf(n.processes[0].command, sizeof n.processes[0].command, "日本語 \033[2J\n");
    for (int columns = 1; columns <= 90; columns++)
        for (int rows = 1; rows <= 14; rows++) {
            struct top_state state = {.offset = rows};
            AUTO(free) char *frame = frame_of(&n, 1, columns, rows, &state);
            int lines = 1;
            for (char *at = frame; (at = strchr(at, '\n')); at++)
                lines++;
            CHECK_INT(lines, rows);
            CHECK(!strchr(frame, '\033'));
            for (char *line = strtok(frame, "\n"); line; line = strtok(NULL, "\n"))
                CHECK_INT(terminal_text_cells(line), columns);
        }
}

TEST(colours_mark_the_title_what_is_wrong_and_the_heads)
{
    struct top_node nodes[2] = {{.name = ""}, {.name = "b02", .problem = "no answer for 7 s"}};
    make(&nodes[0]);
    struct top_state state = {.colour = true, .message = "late"};
    AUTO(free) char *frame = frame_of(nodes, 2, 24, 7, &state);
    CHECK_STR(frame, "\033[1mdrover top   sort: index\033[m\n"
                     "\033[33mb02: no answer for 7 s  \033[m\n"
                     "                        \n"
                     "\033[2mNODE  GPU   UTIL        \033[m\n"
                     "a01     0   71 %        \n"
                     "a01     1      -        \n"
                     "\033[33mlate     lines 1-5 of 11\033[m");
    top_node_end(&nodes[0]);
}

TEST(keys_change_the_state)
{
    static const struct {
        const char *keys;
        int rows, want_offset;
        enum top_sort want_sort;
        bool want_help, want_quit;
    } rows[] = {
        {"q", 24, 5, TOP_BY_INDEX, false, true},
        {"s", 24, 5, TOP_BY_UTILISATION, false, false},
        {"ssss", 24, 5, TOP_BY_INDEX, false, false},
        {"j", 24, 6, TOP_BY_INDEX, false, false},
        {"kk", 24, 3, TOP_BY_INDEX, false, false},
        {"kkkkkkkk", 24, 0, TOP_BY_INDEX, false, false},
        {"\033[B\033OB", 24, 7, TOP_BY_INDEX, false, false},
        {"\033[A", 24, 4, TOP_BY_INDEX, false, false},
        {"\033[C", 24, 5, TOP_BY_INDEX, false, false},
        {" ", 10, 12, TOP_BY_INDEX, false, false},
        {"b", 10, 0, TOP_BY_INDEX, false, false},
        {"h", 24, 0, TOP_BY_INDEX, true, false},
        {"hh", 24, 0, TOP_BY_INDEX, false, false},
        {"x\033", 24, 5, TOP_BY_INDEX, false, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct top_state s = {.offset = 5, .message = "warning"};
        size_t len = strlen(rows[i].keys);
        for (size_t at = 0; at < len;)
            at += top_frame_key(&s, rows[i].keys + at, len - at, rows[i].rows);
        CHECK_INT(s.offset, rows[i].want_offset);
        CHECK_INT(s.sort, rows[i].want_sort);
        CHECK_INT(s.help, rows[i].want_help);
        CHECK_INT(s.quit, rows[i].want_quit);
        CHECK(!s.message);
    }
}

TEST(a_message_replaces_the_keys_and_scrolling_ends_at_the_last_page)
{
    AUTO(top_node) struct top_node n = {0};
    make(&n);
    struct top_state state = {.offset = 99, .message = "drover top: warn: late"};
    AUTO(free) char *frame = frame_of(&n, 1, 60, 6, &state);
    CHECK_INT(state.offset, 5); /* of nine lines, four are shown */
    CHECK_STR(strrchr(frame, '\n') + 1,
              "drover top: warn: late                        lines 6-9 of 9");
}
