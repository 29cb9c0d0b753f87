/* test_run_message - from a sweep file to the message that starts a trial. */
#include "hpo/coordinator/run_message.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/json.h"
#include "hpo/store/stored_sweep.h"
#include "hpo/transport/wire.h"
#include "tests/unit/test.h"

static struct spec *spec_of(const char *text)
{
    struct spec *s = NULL;
    struct err e = {0};
    if (stored_sweep_spec(&s, text, "s.yaml", &e) < 0)
        FAIL("%s", e.text);
    return s;
}

static const char sweep[] =
    "method: grid\n"
    "program: /bin/sh\n"
    "command: ['${env}', '${program}', -c, 'x y', '${args}']\n"
    "metric: {name: loss, pattern: 'loss=(.*)'}\n"
    "parameters: {lr: {values: [0.5, 1]}}\n"
    "drover: {resources: {ranks: 2, gpus: 4, cpus: 3}, grace: 7, wandb: real}\n";

TEST(the_data_is_that_of_a_message_that_a_worker_accepts)
{
    AUTO(spec) struct spec *s = spec_of(sweep);
    const struct run_message_opts o = {s, "s", "/sweeps/s", "/home"};
    struct err e = {0};
    json_t *params = json_pack("{s:f}", "lr", 0.5);
    json_t *others = json_pack("[{s:s, s:{s:s}}]", "node", "c02", "resources", "cpus", "0-3");
    struct wire_msg m = {.kind = WIRE_RUN, .conn = 1, .lease = 9};
    CHECK_INT(run_message_data(&m.data, &o, 17, params, others, &e), 0);
    AUTO(strbuf) struct strbuf b = {0};
    if (wire_encode(&b, &m, &e) < 0)
        FAIL("%s", e.text);
    CHECK_HAS(strbuf_str(&b), "\"dir\":\"/sweeps/s/trials/000017\"");
    CHECK_HAS(strbuf_str(&b),
              "\"argv\":[\"/usr/bin/env\",\"/bin/sh\",\"-c\",\"x y\",\"--lr=0.5\"]");
    CHECK_HAS(strbuf_str(&b), "\"grace_ms\":7000");
    CHECK_HAS(strbuf_str(&b), "\"wandb_real\":true,\"patterns\":{\"loss\":\"loss=(.*)\"}");
    CHECK_HAS(strbuf_str(&b), "\"peers\":[{\"node\":\"c02\",\"resources\":{\"cpus\":\"0-3\"}}]");
    wire_msg_clear(&m);
    json_decref(others);
    json_decref(params);
}

TEST(keys_that_are_not_in_the_file_are_not_in_the_message)
{
    AUTO(spec)
    struct spec *s = spec_of("method: grid\ncommand: ['true']\nparameters: {x: {values: [1]}}\n");
    const struct run_message_opts o = {s, "s", "/s", "/"};
    struct err e = {0};
    json_t *params = json_pack("{s:i}", "x", 1), *data = NULL;
    CHECK_INT(run_message_data(&data, &o, 0, params, NULL, &e), 0);
    CHECK(!json_object_get(data, "patterns") && !json_object_get(data, "wandb_real"));
    json_decref(data);
    json_decref(params);
}

TEST(a_program_need_not_be_a_file_if_the_command_does_not_execute_it)
{
    static const char *const unused[] = {"true", NULL};
    static const char *const module[] = {"python3", "-m", "${program}", NULL};
    static const char *const script[] = {"python3", "${program}", NULL};
    struct spec s = {.program = (char *)"pkg.main", .command = (char **)unused};
    const struct run_message_opts o = {&s, "s", "/s", "/home"};
    CHECK_INT(run_message_check(&o, NULL), 0);
    s.command = (char **)module;
    CHECK_INT(run_message_check(&o, NULL), 0);
    s.command = (char **)script;
    struct err e = {0};
    CHECK_INT(run_message_check(&o, &e), -ENOENT);
    s.program = "experiment"; /* for example a target of make */
    CHECK_INT(run_message_check(&o, NULL), 0);
    s.command = NULL; /* ${interpreter} ${program} */
    CHECK_INT(run_message_check(&o, &e), -ENOENT);
}

TEST(variables_after_env_are_not_the_executed_word)
{
    static const char *const found[] = {"${env}", "PYTHONPATH=/nowhere/src", "sh", NULL};
    static const char *const missing[] = {"${env}", "A=/nowhere/src", "/nowhere/run", NULL};
    struct spec s = {.command = (char **)found};
    const struct run_message_opts o = {&s, "s", "/s", "/home"};
    struct err e = {0};
    CHECK_INT(run_message_check(&o, NULL), 0);
    s.command = (char **)missing;
    CHECK_INT(run_message_check(&o, &e), -ENOENT);
    CHECK_HAS(e.text, "'/nowhere/run'");
}

TEST(a_file_of_the_current_directory_is_executed_without_a_search)
{
    static const char *const words[] = {"${env}", "${program}", NULL};
    char dir[] = "/tmp/drover-test-XXXXXX";
    CHECK(mkdtemp(dir) && chdir(dir) == 0 && mknod("run-me.sh", S_IFREG | 0700, 0) == 0);
    struct spec s = {.program = (char *)"run-me.sh", .command = (char **)words};
    const struct run_message_opts o = {&s, "s", "/s", dir};
    AUTO(json) json_t *params = json_object();
    AUTO(strv) char **argv = NULL, **of_path = NULL;
    CHECK_INT(run_message_check(&o, NULL), 0);
    CHECK_INT(run_message_argv(&argv, &o, 0, params, NULL), 0);
    CHECK_STR(argv[1], "./run-me.sh");
    s.program = (char *)"sh";
    CHECK_INT(run_message_argv(&of_path, &o, 0, params, NULL), 0);
    CHECK_STR(of_path[1], "sh");
    CHECK(unlink("run-me.sh") == 0 && chdir("/") == 0 && rmdir(dir) == 0);
}

TEST(a_missing_program_is_an_error)
{
    struct spec s = {.program = "/nowhere/train.py"};
    const struct run_message_opts o = {&s, "s", "/s", "/home"};
    struct err e = {0};
    CHECK_INT(run_message_check(&o, &e), -ENOENT);
    CHECK_HAS(e.text, "'/nowhere/train.py'");
    CHECK_HAS(e.hint, "/home");
    s.program = "no-such-program-of-ours";
    CHECK_INT(run_message_check(&o, &e), -ENOENT);
    s.program = "sh"; /* in PATH */
    CHECK_INT(run_message_check(&o, &e), 0);
    s.program = NULL;
    s.command = (char *[]){(char *)"true", NULL};
    CHECK_INT(run_message_check(&o, &e), 0);
}

TEST(what_is_not_utf8_is_an_error_that_names_it)
{
    struct spec s = {.program = "sh"};
    struct run_message_opts o = {&s, "s", "/s", "/caf\xe9"};
    struct err e = {0};
    CHECK_INT(run_message_check(&o, &e), -EINVAL);
    CHECK_STR(e.text, "directory '/caf\xe9': its path is not valid UTF-8");
    CHECK_HAS(e.hint, "start the sweep in another directory");
    o = (struct run_message_opts){&s, "s", "/caf\xe9/s", "/home"};
    CHECK_INT(run_message_check(&o, &e), -EINVAL);
    CHECK_HAS(e.hint, "--dir DIR");
    o.dir = "/s";
    setenv("ODD", "\xe9", 1);
    s.command = (char *[]){(char *)"sh", (char *)"${envvar:ODD}", NULL};
    CHECK_INT(run_message_check(&o, &e), -EINVAL);
    CHECK_STR(e.text, "the word '\xe9' of the command is not valid UTF-8");
}

TEST(a_wrong_pattern_has_its_place_in_the_file)
{
    struct spec *s = NULL;
    struct err e = {0};
    CHECK_INT(stored_sweep_spec(&s,
                                "method: grid\nprogram: p\nparameters: {x: {values: [1]}}\n"
                                "metric: {name: a, pattern: '('}\n",
                                "s.yaml", &e),
              -EINVAL);
    CHECK_HAS(e.text, "s.yaml:4:19");
    CHECK_INT(stored_sweep_spec(&s,
                                "method: grid\nprogram: p\nparameters: {x: {values: [1]}}\n"
                                "metrics: [{name: a, pattern: .}, {name: b, pattern: '('}]\n",
                                "s.yaml", &e),
              -EINVAL);
    CHECK_HAS(e.text, "s.yaml:4:44");
    CHECK(s == NULL);
}
