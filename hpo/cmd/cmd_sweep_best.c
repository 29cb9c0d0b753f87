/* cmd_sweep_best - `drover sweep best NAME`: the best trial, and the command that repeats it. */
#include <errno.h>
#include <stdio.h>

#include "common/json.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/cmd/sweep_print.h"

struct best_options {
    const char *root;
    bool command, json;
};

static const struct opt options[] = {
    OPT_STR(0, "dir", "D", "directory of all sweeps (default: sweeps)", struct best_options, root),
    OPT_FLAG(0, "command", "print only the command", struct best_options, command),
    OPT_FLAG(0, "json", "print the trial and its command as JSON", struct best_options, json),
    OPT_END,
};

static int run(char **words, void *into, struct err *e)
{
    const struct best_options *o = into;
    const char *name = words[0];
    if (o->command && o->json)
        return err_set(e, -EINVAL, "--command and --json exclude each other");
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    int rc = sweep_reader_open(&v, o->root, name, e);
    int best = rc < 0 ? -1 : sweep_reader_recommended(v);
    if (rc < 0)
        return rc;
    if (best < 0)
        return err_set(e, -ENODATA, "sweep '%s': no trial has a value yet", name);
    const struct run_message_opts m = {v->spec, v->dir->name, v->dir->path, "."};
    AUTO(strbuf) struct strbuf b = {0};
    if (o->command || o->json)
        rc = sweep_print_trial_command(&b, &m, v->columns, (size_t)best, e);
    else
        sweep_print_best(&b, &m, v->columns, (size_t)best);
    if (rc < 0)
        return rc;
    if (o->json) {
        AUTO(json) json_t *t = sweep_columns_trial_json(v->columns, (size_t)best);
        json_object_set_new(t, "command", json_string(strbuf_str(&b)));
        AUTO(free) char *line = json_line(t);
        puts(line);
    } else {
        printf("%s%s", strbuf_str(&b), o->command ? "\n" : "");
    }
    return 0;
}

int cmd_sweep_best(int argc, char **argv)
{
    static const struct command command = {
        .help = {"drover sweep best", "NAME [--command] [--json]",
                 "Prints the best trial of a sweep: its value, its parameters, and the command "
                 "that runs it again, with its resources.",
                 "drover sweep best digits\neval \"$(drover sweep best digits --command)\""},
        .options = options,
        HPO_COMMAND_SWEEP(1),
        .run = run};
    struct best_options o = {.root = "sweeps"};
    return command_run(&command, &o, argc, argv);
}
