#include "serve/data/serve_sweep_file.h"

#include "common/mem.h"

#include "tests/unit/test.h"

static void check(const char *file, const char *want)
{
    AUTO(free) char *shown = serve_sweep_file(file);
    CHECK_STR(shown, want);
}

TEST(what_stands_under_the_name_of_a_secret_is_hidden_wherever_it_is)
{
    check("# a1b2 is mine\nparameters:\n  lr: {min: 0.1, max: 1}\n  api_key: {value: a1b2}\n"
          "  password: {values: ['x y', 77]}\nname: xa1b2\n",
          "# *** is mine\nparameters:\n  lr: {min: 0.1, max: 1}\n  api_key: {value: ***}\n"
          "  password: {values: ['***', 77]}\nname: xa1b2\n");
    check("drover: {env: {HF_TOKEN: abc}}\n", "drover: {env: {HF_TOKEN: ***}}\n");
    check("parameters: {token: {distribution: constant, value: s1}}\n",
          "parameters: {token: {distribution: constant, value: ***}}\n");
}

TEST(words_of_the_command_are_hidden_as_on_a_command_line)
{
    check("command: [sh, --token, c9, '--key=d1', --db=postgres://u:pw@h/x, --n, 4]\n",
          "command: [sh, --token, ***, '--key=***', --db=postgres://u:***@h/x, --n, 4]\n");
}

TEST(a_file_without_secrets_is_shown_as_it_is)
{
    check("method: grid\nparameters: {x: {values: [1, 2]}}\n",
          "method: grid\nparameters: {x: {values: [1, 2]}}\n");
    check("not: [yaml", "not: [yaml");
}

TEST(a_file_with_a_secret_in_another_form_is_not_shown)
{
    AUTO(free) char *shown = serve_sweep_file("parameters: {api_key: {value: \"a\\x62c\"}}\n");
    CHECK_HAS(shown, "# not shown");
}
