/* cmd_sweep_control - `drover sweep stop`, `cancel`, `pause`, `retry`, `add`: sends a command to a
 * sweep. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/space/param_text.h"
#include "hpo/store/command_client.h"
#include "hpo/store/sweep_dir.h"

struct control_options {
    const struct verb *verb;
    const char *root;
    bool now, failed;
    char **params; /* strv: NAME=VALUE of one trial */
    const char *json;
    int trials;
};

#define DIR_OPTION                                                                              \
    OPT_STR(0, "dir", "D", "directory of all sweeps (default: sweeps)", struct control_options, \
            root)

static const struct opt stop_options[] = {
    DIR_OPTION,
    OPT_FLAG(0, "now", "kill trials without a grace period", struct control_options, now),
    OPT_END,
};
static const struct opt pause_options[] = {
    DIR_OPTION,
    OPT_FLAG(0, "now", "stop running trials, which return to the queue", struct control_options,
             now),
    OPT_END,
};
static const struct opt retry_options[] = {
    DIR_OPTION,
    OPT_FLAG(0, "failed", "all trials that failed, ran out of memory or are invalid",
             struct control_options, failed),
    OPT_END,
};
static const struct opt add_options[] = {
    DIR_OPTION,
    OPT_STRV(0, "param", "NAME=VALUE", "a parameter of the new trial; repeat for each",
             struct control_options, params),
    OPT_STR(0, "json", "SET", "parameters as JSON: a mapping per trial, or a list of them",
            struct control_options, json),
    OPT_INT(0, "trials", "N", "raise run_cap by N trials", struct control_options, trials, 1,
            INT_MAX),
    OPT_END,
};

/* ---- the command's data --------------------------------------------------------------------- */

/* Each returns the data of a command (scheduler.h), or NULL with an error. `words` follow the name
 * of the sweep. */

/* Returns the trial numbers; NULL with an error: a word is not one. */
static json_t *trial_numbers(char **words, struct err *e)
{
    AUTO(json) json_t *ids = json_array();
    for (; words && *words; words++) {
        int id = 0;
        if (opt_int(&id, "trial", *words, 0, INT_MAX, e) < 0)
            return NULL;
        json_array_append_new(ids, json_integer(id));
    }
    return TAKE(ids);
}

/* Without trials, the whole sweep is stopped; `finish`: its running trials may finish. */
static json_t *end_command(const struct control_options *o, char **words, bool finish,
                           struct err *e)
{
    AUTO(json) json_t *ids = trial_numbers(words, e);
    if (!ids)
        return NULL;
    return json_array_size(ids) > 0
               ? json_pack("{s:s, s:O, s:b}", "verb", "cancel", "trials", ids, "now", o->now)
               : json_pack("{s:s, s:b, s:b}", "verb", "stop", "now", o->now, "finish", finish);
}

static json_t *stop_command(const struct control_options *o, char **words, struct err *e)
{
    return end_command(o, words, !o->now, e);
}

static json_t *cancel_command(const struct control_options *o, char **words, struct err *e)
{
    return end_command(o, words, false, e);
}

static json_t *pause_command(const struct control_options *o, char **words, struct err *e)
{
    return json_pack("{s:s, s:b}", "verb", "pause", "finish", !o->now);
}

static json_t *retry_command(const struct control_options *o, char **words, struct err *e)
{
    AUTO(json) json_t *ids = trial_numbers(words, e);
    if (ids && json_array_size(ids) == 0 && !o->failed) {
        err_set(e, -EINVAL, "no trials given");
        err_hint(e, "trial numbers, or --failed");
        return NULL;
    }
    return ids ? json_pack("{s:s, s:O, s:b}", "verb", "retry", "trials", ids, "failed", o->failed)
               : NULL;
}

static json_t *add_command(const struct control_options *o, char **words, struct err *e)
{
    int given = (o->params != NULL) + (o->json != NULL) + (o->trials != 0);
    if (given != 1) {
        err_set(e, -EINVAL,
                given ? "--param, --json and --trials exclude each other" : "nothing to add");
        err_hint(e, "one of --param NAME=VALUE …, --json SET or --trials N");
        return NULL;
    }
    if (o->trials)
        return json_pack("{s:s, s:i}", "verb", "add", "trials", o->trials);
    json_t *sets = NULL;
    if (o->params && param_text_set(&sets, o->params, e) < 0)
        err_wrap(e, "--param");
    else if (o->json && json_parse(&sets, o->json, strlen(o->json), e) < 0)
        err_wrap(e, "--json");
    if (!sets)
        return NULL;
    return json_is_array(sets) ? json_pack("{s:s, s:o}", "verb", "add", "params", sets)
                               : json_pack("{s:s, s:[o]}", "verb", "add", "params", sets);
}

/* ---- the reply ------------------------------------------------------------------------------ */

/* "trials 3 5 wait" */
static void print_trials(struct strbuf *b, const json_t *ids, bool cancelled)
{
    size_t n = json_array_size(ids);
    strbuf_puts(b, n == 1 ? "trial" : "trials");
    for (size_t i = 0; i < n; i++)
        strbuf_printf(b, " %d", (int)json_integer_value(json_array_get(ids, i)));
    if (cancelled)
        strbuf_puts(b, n == 1 ? " is cancelled" : " are cancelled");
    else
        strbuf_puts(b, n == 1 ? " waits" : " wait");
}

/* "digits is stopped, 3 trials are still running; no coordinator is running: drover sweep resume
 * digits" */
static void print_reply(const struct control_options *o, const char *done, const char *name,
                        const json_t *command, const json_t *reply, bool applied_here)
{
    AUTO(strbuf) struct strbuf b = {0};
    int running = (int)json_integer_value(json_object_get(reply, "running"));
    const json_t *ids = json_object_get(reply, "trials");
    bool cancelled = strcmp(json_string_value(json_object_get(command, "verb")), "cancel") == 0;
    strbuf_printf(&b, "%s%s%s", name, cancelled ? ": " : " ", cancelled ? "" : done);
    if (json_array_size(ids) > 0) {
        strbuf_puts(&b, cancelled ? "" : ", ");
        print_trials(&b, ids, cancelled);
    } else if (running > 0) {
        strbuf_printf(&b, ", %d trial%s still running", running, running == 1 ? " is" : "s are");
    }
    AUTO(free) char *resume = sweep_dir_command("drover sweep resume", o->root, name);
    if (applied_here)
        strbuf_printf(&b, "; no coordinator is running: %s", resume);
    puts(strbuf_str(&b));
}

/* ---- the commands --------------------------------------------------------------------------- */

static const struct verb {
    const char *name, *usage, *summary, *examples;
    const char *done; /* said of the sweep afterwards */
    const struct opt *rows;
    size_t words_max;
    json_t *(*command)(const struct control_options *o, char **words, struct err *e);
} verbs[] = {
    {"stop", "NAME [TRIAL...] [--now]",
     "Ends a sweep: starts no more trials, and lets the running ones finish. With TRIAL, ends only "
     "these trials, as cancelled.",
     "drover sweep stop digits\ndrover sweep stop digits 3 7", "is stopped", stop_options, SIZE_MAX,
     stop_command},
    {"cancel", "NAME [TRIAL...] [--now]",
     "Ends a sweep and its running trials, as cancelled. With TRIAL, ends only these trials.",
     "drover sweep cancel digits", "is stopped", stop_options, SIZE_MAX, cancel_command},
    {"pause", "NAME [--now]",
     "Starts no more trials until `drover sweep resume`, and lets the running ones finish. With "
     "--now, trials continue later from their checkpoints.",
     "drover sweep pause digits", "is paused", pause_options, 1, pause_command},
    {"retry", "NAME (TRIAL... | --failed)", "Reruns trials that failed.",
     "drover sweep retry digits 3 7\ndrover sweep retry digits --failed", "has more to do",
     retry_options, SIZE_MAX, retry_command},
    {"add", "NAME (--param NAME=VALUE ... | --json SET | --trials N)", "Adds trials to a sweep.",
     "drover sweep add digits --param lr=0.01 --param optimizer.kind=sgd\n"
     "drover sweep add digits --trials 20",
     "has more to do", add_options, 1, add_command},
};

static const struct verb *verb_of(const char *name)
{
    const struct verb *v = verbs;
    while (strcmp(v->name, name) != 0)
        v++;
    return v;
}

static int run(char **words, void *into, struct err *e)
{
    const struct control_options *o = into;
    AUTO(json) json_t *command = o->verb->command(o, words + 1, e), *reply = NULL;
    if (!command)
        return -EINVAL;
    bool applied_here = false;
    int rc = command_client_send(&reply, &applied_here, o->root, words[0], command, e);
    if (rc == 0)
        print_reply(o, o->verb->done, words[0], command, reply, applied_here);
    return rc;
}

int cmd_sweep_control(int argc, char **argv)
{
    const struct verb *v = verb_of(argv[0]);
    AUTO(free) char *program = xasprintf("drover sweep %s", v->name);
    struct control_options o = {.verb = v, .root = "sweeps"};
    const struct command command = {.help = {program, v->usage, v->summary, v->examples},
                                    .options = v->rows,
                                    HPO_COMMAND_SWEEP(v->words_max),
                                    .run = run};
    int status = command_run(&command, &o, argc, argv);
    strv_free(o.params);
    return status;
}
