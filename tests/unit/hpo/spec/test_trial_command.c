#include "hpo/spec/trial_command.h"

#include "common/mem.h"
#include "common/strbuf.h"
#include "tests/unit/test.h"

static const char *lookup(void *arg, const char *name)
{
    return strcmp(name, "HOME_DIR") == 0 ? (const char *)arg : NULL;
}

static const char table_params[] =
    "{\"lr\": 0.001, \"act\": \"relu\", \"amp\": true, \"bias\": false}";

/* The argv of `items` (separated by spaces), each item in brackets. Freed when the test
 * ends. */
static const char *built(const char *items, const char *params)
{
    static struct strbuf text;
    char **v = NULL, **argv = NULL;
    AUTO(free) char *copy = xstrdup(items);
    for (char *s = strtok(copy, " "); s; s = strtok(NULL, " "))
        strv_push(&v, xstrdup(s));
    json_t *p = json_loads(params, 0, NULL);
    struct trial_command c = {.items = v,
                              .program = "train.py",
                              .interpreter = "python3",
                              .json_file = "/t/params.json",
                              .getenv = lookup,
                              .arg = "/h o"};
    struct err e = {0};
    strbuf_reset(&text);
    if (trial_command_build(&argv, &c, p, &e) < 0)
        strbuf_printf(&text, "%s|%s", e.text, e.hint);
    for (size_t i = 0; argv && argv[i]; i++)
        strbuf_printf(&text, "[%s]", argv[i]);
    json_decref(p);
    strv_free(v);
    strv_free(argv);
    return strbuf_str(&text);
}

TEST(every_macro_becomes_what_wandb_makes_of_it)
{
    static const char *const rows[][2] = {
        {"${env}", "[/usr/bin/env]"},
        {"${interpreter}", "[python3]"},
        {"${program}", "[train.py]"},
        {"${args}", "[--lr=0.001][--act=relu][--amp=True][--bias=False]"},
        {"${args_no_hyphens}", "[lr=0.001][act=relu][amp=True][bias=False]"},
        {"${args_no_equals}", "[--lr][0.001][--act][relu][--amp][True][--bias][False]"},
        {"${args_no_boolean_flags}", "[--lr=0.001][--act=relu][--amp]"},
        {"${args_append_hydra}", "[+lr=0.001][+act=relu][+amp=True][+bias=False]"},
        {"${args_override_hydra}", "[++lr=0.001][++act=relu][++amp=True][++bias=False]"},
        {"${args_json}", "[{\"lr\": 0.001, \"act\": \"relu\", \"amp\": true, \"bias\": false}]"},
        {"${args_json_file}", "[/t/params.json]"},
        {"${envvar:HOME_DIR}", "[/h o]"},
        {"--d=${envvar:HOME_DIR}/x${envvar:HOME_DIR}", "[--d=/h o/x/h o]"},
        {"${envvar:NOT_SET}", "[NOT_SET]"},
        {"echo $HOME ${X}y", "[echo][$HOME][${X}y]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_STR(built(rows[i][0], table_params), rows[i][1]);
}

TEST(the_default_command_runs_the_program_with_the_interpreter)
{
    json_t *p = json_loads("{\"lr\": 1e-05, \"opt\": {\"name\": \"sgd\"}}", 0, NULL);
    struct trial_command c = {.program = "t.py", .interpreter = "python3"};
    char **argv = NULL;
    CHECK_INT(trial_command_build(&argv, &c, p, NULL), 0);
    CHECK_INT(strv_len(argv), 5);
    CHECK_STR(argv[0], "/usr/bin/env");
    CHECK_STR(argv[1], "python3");
    CHECK_STR(argv[2], "t.py");
    CHECK_STR(argv[3], "--lr=1e-05");
    CHECK_STR(argv[4], "--opt={'name': 'sgd'}");
    strv_free(argv);
    json_decref(p);
}

TEST(an_unknown_macro_is_an_error_that_names_the_nearest)
{
    CHECK_STR(built("${arg}", "{}"), "unknown macro '${arg}' in the command|${args}");
    CHECK_STR(built("${args_no_hyphen}", "{}"),
              "unknown macro '${args_no_hyphen}' in the command|${args_no_hyphens}");
    CHECK_HAS(built("${envvar:home}", "{}"), "unknown macro '${envvar:home}'");
}

TEST(a_macro_within_a_longer_item_is_an_error)
{
    CHECK_HAS(built("--cfg=${args_json}", "{}"),
              "${args_json} is only replaced if it is a separate item");
    CHECK_HAS(built("${program}.bak", "{}"),
              "${program} is only replaced if it is a separate item");
}

TEST(a_command_without_a_program_needs_none)
{
    char *items[] = {"./train", "${args}", NULL};
    struct err e = {0};
    CHECK_INT(trial_command_check(items, NULL, &e), 0);
    CHECK_INT(trial_command_check(NULL, NULL, &e), -EINVAL);
    CHECK_HAS(e.text, "there is no 'program'");
}

TEST(an_empty_command_is_an_error)
{
    CHECK_HAS(built("${args}", "{}"), "the command is empty");
}

TEST(a_command_uses_the_program_in_one_of_these_ways)
{
    static const struct {
        const char *words[6];
        enum trial_command_program use;
        const char *executed;
    } rows[] = {
        {{"sh", "x"}, TRIAL_COMMAND_NO_PROGRAM, "sh"},
        {{"${program}"}, TRIAL_COMMAND_EXECUTABLE, "${program}"},
        {{"${env}", "${program}"}, TRIAL_COMMAND_EXECUTABLE, "${program}"},
        {{"${env}", "A=1", "B=", "${program}"}, TRIAL_COMMAND_EXECUTABLE, "${program}"},
        {{"A=1", "${program}"}, TRIAL_COMMAND_ARGUMENT, "A=1"},
        {{"${env}", "A=/x", "${interpreter}", "${program}"},
         TRIAL_COMMAND_SCRIPT,
         "${interpreter}"},
        {{"${interpreter}", "-u", "${program}"}, TRIAL_COMMAND_ARGUMENT, "${interpreter}"},
        {{"${interpreter}", "-m", "${program}"}, TRIAL_COMMAND_MODULE, "${interpreter}"},
        {{"python", "-um", "${program}"}, TRIAL_COMMAND_MODULE, "python"},
        {{"torchrun", "--module", "${program}"}, TRIAL_COMMAND_MODULE, "torchrun"},
        {{"x", "--ram", "${program}"}, TRIAL_COMMAND_ARGUMENT, "x"},
        {{"${env}", "A=1"}, TRIAL_COMMAND_NO_PROGRAM, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *const *words = (char *const *)rows[i].words;
        CHECK_INT(trial_command_program(words), rows[i].use);
        const char *executed = trial_command_executed(words);
        CHECK_STR(executed ? executed : "none", rows[i].executed ? rows[i].executed : "none");
    }
    CHECK_INT(trial_command_program(NULL), TRIAL_COMMAND_SCRIPT);
}
