/* cmd_sweep_show - `drover sweep ls`, `show` and `best`: print what is stored, read-only. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "common/utf8.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/cmd/sweep_output.h"
#include "hpo/cmd/sweep_print.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/reader/sweep_insight.h"
#include "hpo/reader/sweep_reader.h"

enum { CURVE_WIDTH = 40, OUTPUT_LINES = 10, TOP = 20 };

struct show_options {
    const char *root;
    bool json, csv, curves, command;
    int top; /* -1: not given */
};

#define DIR_OPTION \
    OPT_STR(0, "dir", "D", "directory of all sweeps (default: sweeps)", struct show_options, root)
#define COMMON_OPTIONS \
    DIR_OPTION,        \
        OPT_FLAG(0, "json", "print everything as one line of JSON", struct show_options, json)

static const struct opt ls_options[] = {COMMON_OPTIONS, OPT_END};
static const struct opt show_options[] = {
    COMMON_OPTIONS,
    OPT_INT(0, "top", "N", "print the N best trials (default: 20)", struct show_options, top, 0,
            INT_MAX),
    OPT_FLAG(0, "curves", "print the curves of these trials", struct show_options, curves),
    OPT_FLAG(0, "csv", "print all trials as CSV", struct show_options, csv),
    OPT_END,
};

static const struct opt best_options[] = {
    DIR_OPTION,
    OPT_FLAG(0, "command", "print only the command", struct show_options, command),
    OPT_FLAG(0, "json", "print the trial and its command as JSON", struct show_options, json),
    OPT_END,
};

#define LS "drover sweep ls"

/* ---- ls ------------------------------------------------------------------------------------- */

/* The number of trials per state; states without trials are left out. */
static json_t *count_states(const struct sweep_reader *v)
{
    json_t *states = json_object();
    const int *counts = v->columns->states;
    for (int i = 0; i < TRIAL_STATES; i++)
        if (counts[i] > 0)
            json_object_set_new(states, trial_state_name((enum trial_state)i),
                                json_integer(counts[i]));
    return states;
}

/* Seconds since the first trial was created; null before that. */
static json_t *age_of(const struct sweep_reader *v)
{
    return v->columns->count == 0
               ? json_null()
               : json_integer(time(NULL) - v->columns->trials[0].created_ms / 1000);
}

static json_t *summary(const char *root, const char *name, struct err *e)
{
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    if (sweep_reader_open(&v, root, name, e) < 0)
        return NULL;
    int best = sweep_reader_recommended(v);
    AUTO(json)
    json_t *t = best >= 0 ? sweep_columns_trial_json(v->columns, (size_t)best) : json_object();
    struct scheduler_counts c = sweep_reader_counts(v);
    AUTO(strbuf) struct strbuf counts = {0};
    progress_text_counts(&counts, &c);
    struct lockfile_owner owner = sweep_dir_owner(v->dir);
    json_t *by = owner.held ? json_pack("{s:i,s:s}", "pid", (int)owner.pid, "host", owner.host)
                            : json_null();
    json_t *s = json_pack("{s:s,s:s}", "name", name, "method", v->spec->method->name);
    sweep_reader_set_status(v, s);
    AUTO(json)
    json_t *rest = json_pack("{s:i,s:s,s:O?,s:o,s:o,s:o}", "trials", (int)v->columns->count,
                             "counts", strbuf_str(&counts), "best", json_object_get(t, "value"),
                             "states", count_states(v), "coordinator", by, "age_s", age_of(v));
    json_object_update(s, rest);
    return s;
}

/* "3 h": a whole number of the largest unit that fits. */
static void print_age(json_int_t s)
{
    static const struct {
        int seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t i = 0;
    while (units[i].seconds > 1 && s < units[i].seconds)
        i++;
    printf("  %lld %s old", (long long)(s > 0 ? s / units[i].seconds : 0), units[i].unit);
}

static void print_summary(const json_t *s)
{
    const json_t *best = json_object_get(s, "best"), *by = json_object_get(s, "coordinator");
    const json_t *age = json_object_get(s, "age_s");
    const char *reason = json_string_value(json_object_get(s, "reason"));
    printf("%-24s %-8s %-8s  %s", json_string_value(json_object_get(s, "name")),
           json_string_value(json_object_get(s, "method")),
           json_string_value(json_object_get(s, "state")),
           json_string_value(json_object_get(s, "counts")));
    if (json_is_number(best))
        printf("  best %.6g", json_number_value(best));
    if (json_is_integer(age))
        print_age(json_integer_value(age));
    if (json_is_object(by))
        printf("  process %d on %s", (int)json_integer_value(json_object_get(by, "pid")),
               json_string_value(json_object_get(by, "host")));
    if (reason) {
        AUTO(strbuf) struct strbuf b = {0};
        utf8_add_line(&b, reason);
        printf("  %s", strbuf_str(&b));
    }
    putchar('\n');
}

static int run_ls(char **no_words, void *into, struct err *e)
{
    const struct show_options *o = into;
    AUTO(strv) char **names = NULL;
    int rc = sweep_dir_list(&names, o->root, e);
    if (rc < 0)
        return rc;
    AUTO(json) json_t *all = json_array();
    int status = 0;
    for (size_t i = 0; i < strv_len(names); i++) {
        struct err why = {0};
        json_t *s = summary(o->root, names[i], &why);
        if (!s) {
            err_print(&why, LS);
            status = EXIT_STATUS_FAILED;
            continue;
        }
        if (!o->json)
            print_summary(s);
        json_array_append_new(all, s);
    }
    if (o->json) {
        AUTO(free) char *line = json_line(all);
        puts(line);
    }
    return status;
}

int cmd_sweep_ls(int argc, char **argv)
{
    static const struct command command = {
        .help = {.program = LS,
                 .usage = "[--dir D] [--json]",
                 .summary = "Lists the sweeps: their method, state, trials and best value."},
        .options = ls_options,
        .run = run_ls};
    struct show_options o = {.root = "sweeps"};
    return command_run(&command, &o, argc, argv);
}

/* ---- show ----------------------------------------------------------------------------------- */

/* A worker's fault, unless it has run a trial since. */
static void print_fault(struct strbuf *b, const json_t *fault)
{
    const char *state = json_string_value(json_object_get(fault, "state"));
    const char *error = json_string_value(json_object_get(fault, "error"));
    if (!state || !error || strcmp(state, "good") == 0)
        return;
    time_t since = (time_t)(json_integer_value(json_object_get(fault, "since_ms")) / 1000);
    struct tm tm = {0};
    char text[32] = "?";
    if (localtime_r(&since, &tm))
        (void)strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
    strbuf_printf(b, "; %s, cannot run trials since %s: %s", state, text, error);
}

static void print_workers(struct strbuf *b, const struct sweep_reader *v)
{
    AUTO(json) json_t *list = sweep_reader_workers(v);
    size_t i;
    json_t *w;
    json_array_foreach (list, i, w) {
        const char *node = json_string_value(json_object_get(w, "node"));
        strbuf_puts(b, "worker ");
        utf8_add_line(b, node ? node : "?");
        int slots = (int)json_integer_value(json_object_get(w, "slots"));
        int places = (int)json_integer_value(json_object_get(w, "places"));
        strbuf_printf(b, ": %d of %d trial%s, %d CPU%s",
                      (int)json_integer_value(json_object_get(w, "running")), places,
                      plural_s(places), slots, plural_s(slots));
        int gpus = (int)json_integer_value(json_object_get(w, "gpus"));
        if (gpus > 0)
            strbuf_printf(b, ", %d GPU%s", gpus, plural_s(gpus));
        print_fault(b, json_object_get(w, "fault"));
        strbuf_putc(b, '\n');
    }
}

static void print_view(const struct sweep_reader *v, int top, bool curves)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *pareto = sweep_reader_pareto(v);
    AUTO(json) json_t *trials = sweep_reader_top(v, pareto, (size_t)top);
    if (curves) {
        sweep_print_curves(&b, v->columns, v->spec, trials, CURVE_WIDTH);
        fputs(strbuf_str(&b), stdout);
        return;
    }
    AUTO(json) json_t *importance = sweep_reader_importance(v);
    struct scheduler_counts c = sweep_reader_counts(v);
    strbuf_printf(&b, "%s: ", v->dir->name);
    progress_text_counts(&b, &c);
    strbuf_putc(&b, '\n');
    sweep_reader_status_text(&b, v);
    strbuf_putc(&b, '\n');
    print_workers(&b, v);
    AUTO(free) char *note = sweep_reader_note(v);
    if (note)
        strbuf_printf(&b, "search  %s\n", note);
    if (!json_is_null(importance))
        progress_text_importance(&b, importance);
    AUTO(json) json_t *ranges = sweep_reader_importance_ranges(v, 0);
    AUTO(strv) char **said = sweep_insight(v->columns, ranges, clock_ms_of(CLOCK_REALTIME));
    for (size_t i = 0; i < strv_len(said); i++) {
        utf8_add_line(&b, said[i]);
        strbuf_putc(&b, '\n');
    }
    strbuf_putc(&b, '\n');
    progress_text_table(&b, trials, v->spec, pareto, v->dir->path, (size_t)top);
    fputs(strbuf_str(&b), stdout);
}

static int show_trial(const struct sweep_reader *v, const char *word, bool json, struct err *e)
{
    size_t trial;
    int rc = sweep_output_trial(&trial, v, word, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *dir = sweep_output_dir(v, trial);
    if (json) {
        AUTO(json) json_t *t = sweep_print_trial_json(v->columns, trial);
        json_object_set_new(t, "output", dir ? json_string(dir) : json_null());
        AUTO(free) char *line = json_line(t);
        puts(line);
        return 0;
    }
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(strbuf) struct strbuf command = {0};
    const struct run_message_opts m = {v->spec, v->dir->name, v->dir->path, "."};
    int node = v->columns->trials[trial].node;
    sweep_print_trial(&b, v->columns, v->spec, trial);
    if (sweep_print_trial_command(&command, &m, v->columns, trial, SWEEP_PRINT_TO_PASTE, NULL) == 0)
        strbuf_printf(&b, "command\n  %s\n", strbuf_str(&command));
    if (dir)
        sweep_output_print(&b, dir, text_table_at(&v->columns->texts, node), OUTPUT_LINES);
    fputs(strbuf_str(&b), stdout);
    return 0;
}

static int check_show(const struct show_options *o, const char *trial, struct err *e)
{
    if (o->json + o->csv + o->curves > 1)
        return err_set(e, -EINVAL, "--json, --csv and --curves exclude each other");
    if (trial && (o->csv || o->curves))
        return err_set(e, -EINVAL, "%s shows all trials, not one", o->csv ? "--csv" : "--curves");
    if (o->top >= 0 && (trial || o->csv || o->json))
        return err_set(e, -EINVAL, "--top N is for the table and --curves, not for %s",
                       trial    ? "one trial"
                       : o->csv ? "--csv"
                                : "--json");
    return 0;
}

static int run_show(char **words, void *into, struct err *e)
{
    const struct show_options *o = into;
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    int rc = check_show(o, words[1], e);
    if (rc == 0)
        rc = sweep_reader_open(&v, o->root, words[0], e);
    if (rc < 0)
        return rc;
    if (words[1])
        return show_trial(v, words[1], o->json, e);
    if (o->csv)
        sweep_print_csv(stdout, v->columns);
    else if (o->json)
        sweep_reader_print_json(v, stdout);
    else
        print_view(v, o->top < 0 ? TOP : o->top, o->curves);
    return 0;
}

int cmd_sweep_show(int argc, char **argv)
{
    static const struct command command = {
        .help =
            {"drover sweep show", "NAME [TRIAL] [[--top N] [--curves] | --csv | --json]",
             "Shows a sweep: its workers, what matters most, and its trials, the best first. With "
             "TRIAL, shows all about this trial.",
             "drover sweep show digits --top 5\ndrover sweep show digits 17\n"
             "drover sweep show digits --csv"},
        .options = show_options,
        HPO_COMMAND_SWEEP(2),
        .run = run_show};
    struct show_options o = {.root = "sweeps", .top = -1};
    return command_run(&command, &o, argc, argv);
}

/* ---- best ----------------------------------------------------------------------------------- */

static int run_best(char **words, void *into, struct err *e)
{
    const struct show_options *o = into;
    const char *name = words[0];
    if (o->command && o->json)
        return err_set(e, -EINVAL, "--command and --json exclude each other");
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    int rc = sweep_reader_open(&v, o->root, name, e);
    int best = rc < 0 ? -1 : sweep_reader_recommended(v);
    if (rc < 0)
        return rc;
    if (best < 0) {
        AUTO(free) char *infeasible = sweep_insight_infeasible(v->columns);
        return err_set(e, -ENODATA, "sweep '%s': %s", name,
                       infeasible ? infeasible : "no trial has a value yet");
    }
    const struct run_message_opts m = {v->spec, v->dir->name, v->dir->path, "."};
    AUTO(strbuf) struct strbuf b = {0};
    if (o->command || o->json)
        rc = sweep_print_trial_command(&b, &m, v->columns, (size_t)best, SWEEP_PRINT_TO_PASTE, e);
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
        .options = best_options,
        HPO_COMMAND_SWEEP(1),
        .run = run_best};
    struct show_options o = {.root = "sweeps"};
    return command_run(&command, &o, argc, argv);
}
