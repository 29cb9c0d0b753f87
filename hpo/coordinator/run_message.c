#include "hpo/coordinator/run_message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "hpo/spec/trial_command.h"
#include "hpo/worker/trial_dir.h"

static const char *variable(void *arg, const char *name)
{
    return getenv(name);
}

static bool in_path(const char *program)
{
    const char *dirs = getenv("PATH");
    AUTO(free) char *path = xstrdup(dirs ? dirs : "/usr/bin:/bin");
    char *save = NULL;
    for (char *dir = strtok_r(path, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
        AUTO(free) char *file = xasprintf("%s/%s", dir, program);
        if (access(file, X_OK) == 0)
            return true;
    }
    return false;
}

/* The interpreter that W&B's agent would use. Searched once: a search of PATH per trial costs
 * measurable time. */
static const char *interpreter(void)
{
    static const char *found;
    if (!found)
        found = in_path("python") ? "python" : "python3";
    return found;
}

/* Returns how the command uses the program; TRIAL_COMMAND_NO_PROGRAM if there is none. */
static enum trial_command_program program_use(const struct spec *s)
{
    return s->program ? trial_command_program(s->command) : TRIAL_COMMAND_NO_PROGRAM;
}

/* Whether the program is a file that execvp() does not find, since "train.sh" has no '/'. */
static bool needs_dot(const struct spec *s)
{
    return program_use(s) == TRIAL_COMMAND_EXECUTABLE && !strchr(s->program, '/') &&
           !in_path(s->program) && access(s->program, F_OK) == 0;
}

static int missing(const char *program, const char *wdir, struct err *e)
{
    err_set(e, -ENOENT, "program '%s': %s", program, strerror(ENOENT));
    return err_hint(e, "trials run in the directory in which the sweep is started: %s", wdir);
}

/* The word that the command executes, if it is a path; NULL: it is a macro or searched in PATH. */
static const char *executed_path(const struct spec *s)
{
    const char *word = trial_command_executed(s->command);
    return word && !strstr(word, "${") && strchr(word, '/') ? word : NULL;
}

static int check_program(const struct run_message_opts *opts, struct err *e)
{
    const char *program = opts->spec->program, *path = executed_path(opts->spec);
    enum trial_command_program use = program_use(opts->spec);
    if (path && access(path, F_OK) < 0)
        return missing(path, opts->wdir, e);
    if (use == TRIAL_COMMAND_NO_PROGRAM || use == TRIAL_COMMAND_MODULE ||
        (use == TRIAL_COMMAND_ARGUMENT && !strpbrk(program, "/.")))
        return 0;
    if (access(program, F_OK) == 0 || (!strchr(program, '/') && in_path(program)))
        return 0;
    return missing(program, opts->wdir, e);
}

int run_message_argv(char ***out, const struct run_message_opts *opts, int trial,
                     const json_t *params, struct err *e)
{
    AUTO(free) char *dir = trial_dir_path(opts->dir, trial);
    AUTO(free) char *file = xasprintf("%s/params.json", dir);
    AUTO(free) char *here = needs_dot(opts->spec) ? xasprintf("./%s", opts->spec->program) : NULL;
    const struct trial_command command = {.items = opts->spec->command,
                                          .program = here ? here : opts->spec->program,
                                          .interpreter = interpreter(),
                                          .json_file = file,
                                          .getenv = variable};
    return trial_command_build(out, &command, params, e);
}

/* A worker gets paths and words as JSON. With replaced bytes others would be meant. */
static int check_texts(const struct run_message_opts *opts, char *const *argv, struct err *e)
{
    const char *const dirs[] = {opts->wdir, opts->dir};
    for (size_t i = 0; i < COUNT_OF(dirs); i++)
        if (!utf8_valid(dirs[i])) {
            err_set(e, -EINVAL, "directory '%s': its path is not valid UTF-8", dirs[i]);
            return err_hint(e, i ? "--dir DIR  with another path"
                                 : "rename it, or start the sweep in another directory");
        }
    for (; *argv; argv++)
        if (!utf8_valid(*argv))
            return err_set(e, -EINVAL, "the word '%s' of the command is not valid UTF-8", *argv);
    return 0;
}

int run_message_check(const struct run_message_opts *opts, struct err *e)
{
    AUTO(strv) char **argv = NULL;
    AUTO(json) json_t *none = json_object();
    int rc = check_program(opts, e);
    if (rc == 0)
        rc = run_message_argv(&argv, opts, 0, none, e);
    return rc < 0 ? rc : check_texts(opts, argv, e);
}

/* Returns {metric: pattern, …}; NULL: no metric has a pattern. */
static json_t *patterns_of(const struct spec *s)
{
    json_t *patterns = NULL;
    for (int i = 0; i < s->metric_count; i++) {
        if (s->metrics[i].pattern && !patterns)
            patterns = json_object();
        if (s->metrics[i].pattern)
            json_object_set_new(patterns, s->metrics[i].name, json_string(s->metrics[i].pattern));
    }
    return patterns;
}

int run_message_data(json_t **out, const struct run_message_opts *opts, int trial, json_t *params,
                     json_t *peers, struct err *e)
{
    const struct spec *s = opts->spec;
    AUTO(strv) char **argv = NULL;
    int rc = run_message_argv(&argv, opts, trial, params, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *dir = trial_dir_path(opts->dir, trial);
    if ((rc = check_texts(opts, argv, e)) < 0)
        return err_wrap(e, "trial %d", trial);
    json_t *words = json_array();
    for (char **a = argv; *a; a++)
        json_array_append_new(words, json_string(*a));
    json_t *data =
        json_pack("{s:i,s:s,s:s,s:s,s:o,s:[],s:O,s:I,s:o*,s:o*,s:O*}", "trial", trial, "sweep",
                  opts->sweep, "dir", dir, "wdir", opts->wdir, "argv", words, "env", "params",
                  params, "grace_ms", (json_int_t)s->grace_ms, "wandb_real",
                  s->wandb_real ? json_true() : NULL, "patterns", patterns_of(s), "peers", peers);
    *out = data;
    return 0;
}
