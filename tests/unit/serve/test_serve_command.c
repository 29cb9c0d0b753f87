/* test_serve_command - only the commands of `drover sweep` pass. */
#include "serve/serve_command.h"

#include "common/json.h"
#include "tests/unit/test.h"

TEST(the_commands_of_a_sweep_pass_unchanged)
{
    static const char *const good[] = {
        "{\"verb\":\"stop\",\"finish\":true}",
        "{\"verb\":\"pause\",\"finish\":false}",
        "{\"verb\":\"resume\"}",
        "{\"verb\":\"cancel\",\"trials\":[3]}",
        "{\"verb\":\"retry\",\"failed\":true}",
        "{\"verb\":\"add\",\"params\":[{\"lr\":0.5}]}",
        "{\"verb\":\"add\",\"trials\":5}",
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct err e = {0};
        AUTO(json) json_t *command = serve_command_read(good[i], strlen(good[i]), &e);
        if (!command)
            FAIL("%s: %s", good[i], e.text);
        AUTO(free) char *line = json_line(command);
        CHECK_STR(line, good[i]);
    }
}

TEST(words_of_a_set_are_read_as_those_of_a_command_line)
{
    static const char text[] =
        "{\"verb\":\"add\",\"words\":[\"lr=1e-4\",\"opt.l=[64, 64]\",\"s=\\\"1\\\"\"]}";
    AUTO(json) json_t *command = serve_command_read(text, strlen(text), NULL);
    AUTO(free) char *line = json_line(command);
    CHECK_STR(line, "{\"verb\":\"add\",\"params\":[{\"lr\":0.0001,\"opt\":{\"l\":[64,64]},"
                    "\"s\":\"1\"}]}");
}

TEST(everything_else_is_an_error)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"verb\":\"rm\"}",
        "{\"verb\":7}",
        "{\"verb\":\"resume\",\"now\":true}",
        "{\"verb\":\"stop\",\"ask\":\"x\"}",
        "{\"verb\":\"stop\",\"verb\":\"add\"}",
        "{\"verb\":\"stop\"",
        "{\"verb\":\"add\",\"words\":[\"lr\"]}",
        "{\"verb\":\"add\",\"words\":[\"lr=1\",\"lr=2\"]}",
        "{\"verb\":\"add\",\"words\":[7]}",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        CHECK(!serve_command_read(bad[i], strlen(bad[i]), &e));
        CHECK(e.code < 0 && *e.text);
    }
    struct err e = {0};
    CHECK(!serve_command_read("{\"verb\":\"stpo\"}", 15, &e));
    CHECK_STR(e.hint, "stop");
}
