/* cmd_ask - `drover sweep stop`, `pause`, `retry`, `add`: what is asked of a sweep by its name. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "common/yaml_scalar.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/store/command_client.h"

struct ask_options {
    const char *root;
    bool now, finish, failed;
    char **params; /* strv: NAME=VALUE of one trial */
    const char *json;
    int trials;
};

#define DIR_OPTION                                                                              \
    OPT_STR(0, "dir", "D", "the directory of all sweeps (default: sweeps)", struct ask_options, \
            root)

static const struct opt stop_options[] = {
    DIR_OPTION,
    OPT_FLAG(0, "now", "kill running trials, without their grace", struct ask_options, now),
    OPT_END,
};
static const struct opt pause_options[] = {
    DIR_OPTION,
    OPT_FLAG(0, "finish", "let running trials come to their end", struct ask_options, finish),
    OPT_END,
};
static const struct opt retry_options[] = {
    DIR_OPTION,
    OPT_FLAG(0, "failed", "all that failed, ran out of memory or are invalid", struct ask_options,
             failed),
    OPT_END,
};
static const struct opt add_options[] = {
    DIR_OPTION,
    OPT_STRV(0, "param", "NAME=VALUE", "of one trial: each of its parameters", struct ask_options,
             params),
    OPT_STR(0, "json", "SET", "trials' parameters as JSON: a mapping, or a list of them",
            struct ask_options, json),
    OPT_INT(0, "trials", "N", "so many more than run_cap", struct ask_options, trials),
    OPT_END,
};

/* ---- what is asked -------------------------------------------------------------------------- */

/* Each gives ASK's data, or NULL with the error. `words` follow the name. */

static json_t *ask_stop(const struct ask_options *o, char **words, struct err *e)
{
    return json_pack("{s:b}", "now", o->now);
}

static json_t *ask_pause(const struct ask_options *o, char **words, struct err *e)
{
    return json_pack("{s:b}", "finish", o->finish);
}

static json_t *ask_retry(const struct ask_options *o, char **words, struct err *e)
{
    AUTO(json) json_t *ids = json_array();
    for (; words && *words; words++) {
        int id = 0;
        if (opt_int(&id, "trial", *words, 0, INT_MAX, e) < 0)
            return NULL;
        json_array_append_new(ids, json_integer(id));
    }
    if (json_array_size(ids) == 0 && !o->failed) {
        err_set(e, -EINVAL, "which trials?");
        err_hint(e, "their numbers, or --failed");
        return NULL;
    }
    return json_pack("{s:O, s:b}", "trials", ids, "failed", o->failed);
}

/* Puts "optimizer.lr" = value into its group. Takes over `value`. */
static void put(json_t *params, char *name, json_t *value)
{
    for (char *dot; (dot = strchr(name, '.')); name = dot + 1) {
        *dot = 0;
        json_t *group = json_object_get(params, name);
        if (!json_is_object(group)) {
            group = json_object();
            json_object_set_new(params, name, group);
        }
        params = group;
    }
    json_object_set_new(params, name, value);
}

static json_t *read_params(char **words, struct err *e)
{
    AUTO(json) json_t *params = json_object();
    for (; *words; words++) {
        AUTO(free) char *name = xstrdup(*words);
        char *value = strchr(name, '=');
        const char *why = NULL;
        if (value)
            *value++ = 0;
        json_t *v = value && *name ? yaml_scalar(value, &why) : NULL;
        if (!v) {
            err_set(e, -EINVAL, "--param '%s'%s%s: NAME=VALUE", *words, why ? " " : "",
                    why ? why : "");
            return NULL;
        }
        put(params, name, v);
    }
    return TAKE(params);
}

static json_t *ask_add(const struct ask_options *o, char **words, struct err *e)
{
    if ((o->params != NULL) + (o->json != NULL) + (o->trials != 0) != 1) {
        err_set(e, -EINVAL, "what is to be added?");
        err_hint(e, "one of --param NAME=VALUE …, --json SET and --trials N");
        return NULL;
    }
    if (o->trials)
        return json_pack("{s:i}", "trials", o->trials);
    json_t *sets = NULL;
    if (o->params)
        sets = read_params(o->params, e);
    else if (json_parse(&sets, o->json, strlen(o->json), e) < 0)
        err_wrap(e, "--json");
    if (!sets)
        return NULL;
    return json_is_array(sets) ? json_pack("{s:o}", "params", sets)
                               : json_pack("{s:[o]}", "params", sets);
}

/* ---- what came of it ------------------------------------------------------------------------ */

static void add_trials(struct strbuf *b, const json_t *ids)
{
    size_t n = json_array_size(ids);
    strbuf_puts(b, n == 1 ? ", trial" : ", trials");
    for (size_t i = 0; i < n; i++)
        strbuf_printf(b, " %d", (int)json_integer_value(json_array_get(ids, i)));
    strbuf_puts(b, n == 1 ? " waits" : " wait");
}

/* "digits is stopped, 3 trials are ending; nobody works on it: drover sweep resume digits" */
static void print_answer(const char *done, const char *name, const json_t *a, bool here)
{
    AUTO(strbuf) struct strbuf b = {0};
    int running = (int)json_integer_value(json_object_get(a, "running"));
    const json_t *ids = json_object_get(a, "trials");
    strbuf_printf(&b, "%s %s", name, done);
    if (json_array_size(ids) > 0)
        add_trials(&b, ids);
    else if (running > 0)
        strbuf_printf(&b, ", %d trial%s still running", running, running == 1 ? " is" : "s are");
    if (here)
        strbuf_printf(&b, "; nobody works on it now: drover sweep resume %s", name);
    puts(strbuf_str(&b));
}

/* ---- the commands --------------------------------------------------------------------------- */

static const struct verb {
    const char *name, *usage, *what, *done;
    const struct opt *rows;
    size_t words_max;
    json_t *(*ask)(const struct ask_options *o, char **words, struct err *e);
} verbs[] = {
    {"stop", "NAME [--now]", "Ends a sweep: what runs is stopped, nothing more is started.",
     "is stopped", stop_options, 1, ask_stop},
    {"pause", "NAME [--finish]",
     "Starts nothing more until `drover sweep resume`; what runs is stopped, to go on from its "
     "checkpoint.",
     "is paused", pause_options, 1, ask_pause},
    {"retry", "NAME TRIAL… | --failed", "Has trials that went wrong run again.", "has more to do",
     retry_options, SIZE_MAX, ask_retry},
    {"add", "NAME --param NAME=VALUE … | --json SET | --trials N", "Adds trials to a sweep.",
     "has more to do", add_options, 1, ask_add},
};

static const struct verb *verb_of(const char *name)
{
    const struct verb *v = verbs;
    while (strcmp(v->name, name) != 0)
        v++;
    return v;
}

static int run(const struct verb *v, const struct ask_options *o, char **words, struct err *e)
{
    if (!words)
        return err_set(e, -EINVAL, "give a name, as drover sweep ls lists them");
    AUTO(json) json_t *ask = v->ask(o, words + 1, e), *answer = NULL;
    if (!ask)
        return -EINVAL;
    bool here = false;
    json_object_set_new(ask, "verb", json_string(v->name));
    int rc = command_client_send(&answer, &here, o->root, words[0], ask, e);
    if (rc == 0)
        print_answer(v->done, words[0], answer, here);
    return rc;
}

int cmd_sweep_control(int argc, char **argv)
{
    const struct verb *v = verb_of(argv[0]);
    AUTO(free) char *who = xasprintf("drover sweep %s", v->name);
    struct ask_options o = {.root = "sweeps"};
    struct err e = {0};
    AUTO(strv) char **words = NULL;
    int rc = hpo_commands_parse(&words, v->words_max, v->rows, &o, argc, argv, &e);
    if (rc == OPT_HELP)
        opt_help(stdout, who, v->usage, v->what, v->rows);
    else if (rc == 0)
        rc = run(v, &o, words, &e);
    strv_free(o.params);
    if (rc >= 0)
        return 0;
    err_print(&e, who);
    return rc == -ETIMEDOUT ? EXIT_WORK : EXIT_USAGE;
}
