/* cmd_runs - `drover runs`: the runs of this user that are remembered, and their logs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/command.h"
#include "common/duration.h"
#include "common/log.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "common/utf8.h"
#include "launcher/jobs/commands.h"
#include "launcher/jobs/job_events.h"
#include "launcher/jobs/run_store.h"

enum { COUNT = 20 };

struct runs_opts {
    bool json;
    int count;
    const char *format;
};

/* ---- a run as text -------------------------------------------------------------------------- */

static void write_metric(struct strbuf *b, const char *name, const json_t *m)
{
    double last = 0, best = 0;
    (void)json_as_number(&last, json_object_get(m, "last")); /* it is one */
    (void)json_as_number(&best, json_object_get(m, "best"));
    utf8_add_line(b, name);
    strbuf_printf(b, " %.6g (best %.6g)", last, best);
}

/* Writes the metric that tells most: a loss, or else the first one. */
static void write_main_metric(struct strbuf *b, const struct run_entry *r)
{
    json_t *metrics = json_object_get(r->meta, "metrics"), *m;
    const char *name, *chosen = NULL;
    json_object_foreach (metrics, name, m)
        if (!chosen || (strstr(name, "loss") && !strstr(chosen, "loss")))
            chosen = name;
    if (chosen)
        write_metric(b, chosen, json_object_get(metrics, chosen));
    else
        strbuf_putc(b, '-');
}

/* ---- list ----------------------------------------------------------------------------------- */

static void print_json(const json_t *j)
{
    AUTO(free) char *line = json_line(j);
    puts(line);
}

static void print_row(const struct run_entry *r)
{
    char duration[24], age[24];
    AUTO(strbuf) struct strbuf name = {0}, metric = {0}, cause = {0};
    utf8_add_line(&name, *run_store_text(r, "name") ? run_store_text(r, "name") : "-");
    run_store_duration(duration, r);
    duration_format(age, sizeof age, time(NULL) - run_store_number(r, "begin_ms", 0) / 1000);
    write_main_metric(&metric, r);
    run_store_cause(&cause, r);
    printf("%-23s  %-12s  %-7s  %7s  %7s  %4d  %-28s  %s\n", r->id, strbuf_str(&name),
           run_store_text(r, "state"), age, duration,
           (int)json_integer_value(json_object_get(json_object_get(r->meta, "plan"), "gpus")),
           strbuf_str(&metric), cause.len ? strbuf_str(&cause) : run_store_text(r, "command"));
}

/* The whole of a run is large: the list leaves out what `show` has. */
static void print_short_json(const struct run_entry *r)
{
    AUTO(json) json_t *j = json_copy(r->meta);
    static const char *const left_out[] = {"argv", "environment", "files",
                                           "git",  "libraries",   "process"};
    for (size_t i = 0; i < COUNT_OF(left_out); i++)
        json_object_del(j, left_out[i]);
    print_json(j);
}

static int list(char **words, void *into, struct err *e)
{
    const struct runs_opts *o = into;
    struct run_list l;
    run_store_trim();
    int rc = run_store_list(&l, e), shown = 0;
    if (rc == 0 && !o->json)
        printf("%-23s  %-12s  %-7s  %7s  %7s  %4s  %-28s  %s\n", "RUN", "NAME", "STATE", "BEGAN",
               "FOR", "GPUS", "METRIC", "CAUSE OR COMMAND");
    for (size_t i = 0; i < l.count && (o->count == 0 || shown < o->count); i++) {
        if (!run_store_read(&l.at[i]))
            continue;
        shown++;
        (o->json ? print_short_json : print_row)(&l.at[i]);
    }
    run_store_end(&l);
    return rc;
}

/* ---- show ----------------------------------------------------------------------------------- */

static void print_line(void *arg, const char *text)
{
    puts(text);
}

/* Prints lines of what a run has said, which may have any characters. */
static void print_lines(void *arg, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        AUTO(free) char *raw = xstrndup(text, len);
        AUTO(strbuf) struct strbuf line = {0};
        utf8_add_line(&line, raw);
        puts(strbuf_str(&line));
        text += len + (text[len] == '\n');
    }
}

static void print_facts(const struct run_entry *r)
{
    static const char *const keys[] = {"id", "name", "state", "command", "dir"};
    const json_t *plan = json_object_get(r->meta, "plan"), *git = json_object_get(r->meta, "git");
    size_t nodes = json_array_size(json_object_get(plan, "nodes"));
    long long ranks = json_integer_value(json_object_get(plan, "ranks"));
    long long gpus = json_integer_value(json_object_get(plan, "gpus"));
    char duration[24], began[25];
    run_store_duration(duration, r);
    job_events_time(began, run_store_number(r, "begin_ms", 0));
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        AUTO(strbuf) struct strbuf line = {0};
        utf8_add_line(&line, run_store_text(r, keys[i]));
        if (line.len)
            printf("%-10s  %s\n", keys[i], strbuf_str(&line));
    }
    printf("%-10s  %s, for %s\n", "began", began, duration);
    printf("%-10s  %lld on %zu node%s, %lld GPU%s\n", "ranks", ranks, nodes,
           plural_s((long long)nodes), gpus, plural_s(gpus));
    if (run_store_number(r, "status", -1) >= 0)
        printf("%-10s  %lld after %lld restart%s\n", "status",
               (long long)run_store_number(r, "status", -1),
               (long long)run_store_number(r, "restarts", 0),
               plural_s(run_store_number(r, "restarts", 0)));
    if (git)
        printf("%-10s  %s%s\n", "commit", json_string_value(json_object_get(git, "commit")),
               json_is_true(json_object_get(git, "dirty")) ? ", with changes" : "");
}

/* Opens the list, and finds a run in it. */
static int find(struct run_entry **out, struct run_list *l, const char *word, struct err *e)
{
    int rc = run_store_list(l, e);
    return rc < 0 ? rc : run_store_find(out, l, word, e);
}

static int show(char **words, void *into, struct err *e)
{
    static const char events[] =
        "SELECT '  ' || strftime('%H:%M:%S', at_ms / 1000, 'unixepoch', 'localtime') || '  ' || "
        "(data ->> '$.event') || '  ' || json_remove(data, '$.event') FROM record "
        "WHERE kind = 'event' ORDER BY seq";
    struct run_list l;
    struct run_entry *r = NULL;
    int rc = find(&r, &l, words[0], e);
    if (rc == 0) {
        json_t *metrics = json_object_get(r->meta, "metrics"), *m;
        const char *name;
        print_facts(r);
        json_object_foreach (metrics, name, m) {
            AUTO(strbuf) struct strbuf b = {0};
            write_metric(&b, name, m);
            printf("%-10s  %s\n", "metric", strbuf_str(&b));
        }
        puts("events");
        rc = run_store_each(r, events, print_lines, NULL, e);
        print_lines(NULL, run_store_text(r, "cause"));
    }
    run_store_end(&l);
    return rc;
}

/* ---- rm and export -------------------------------------------------------------------------- */

/* Removes all of them, or none if one does not exist or has not ended. */
static int rm(char **words, void *into, struct err *e)
{
    struct run_list l;
    int rc = run_store_list(&l, e);
    for (int pass = 0; pass < 2; pass++)
        for (char **w = words; *w && rc == 0; w++) {
            struct run_entry *r = NULL;
            rc = run_store_find(&r, &l, *w, e);
            if (rc == 0 && (pass > 0 || run_store_is(r, "running")))
                rc = run_store_remove(r, e);
        }
    run_store_end(&l);
    return rc;
}

static int export(char **words, void *into, struct err *e)
{
    static const char csv[] =
        "SELECT at_ms || ',' || rank || ',' || coalesce(data ->> '$.step', '') || ',\"' || "
        "replace(j.key, '\"', '\"\"') || '\",' || trim(data -> j.fullkey, '\"') "
        "FROM record, json_each(data) AS j "
        "WHERE kind = 'report' AND j.key <> 'step' ORDER BY seq";
    static const char json[] =
        "SELECT json_object('seq', seq, 'at_ms', at_ms, 'kind', kind, 'rank', rank, 'data', "
        "json(data)) FROM record ORDER BY seq";
    const struct runs_opts *o = into;
    struct run_list l;
    struct run_entry *r = NULL;
    bool is_csv = strcmp(o->format, "csv") == 0;
    if (!is_csv && strcmp(o->format, "json") != 0) {
        err_set(e, -EINVAL, "unknown format '%s'", o->format);
        return err_hint(e, "csv, json");
    }
    int rc = find(&r, &l, words[0], e);
    if (rc == 0 && is_csv)
        puts("at_ms,rank,step,metric,value");
    else if (rc == 0)
        print_json(r->meta);
    if (rc == 0)
        rc = run_store_each(r, is_csv ? csv : json, print_line, NULL, e);
    run_store_end(&l);
    return rc;
}

/* ---- the command ---------------------------------------------------------------------------- */

static const struct opt options[] = {
    OPT_FLAG(0, "json", "list: print one line of JSON per run", struct runs_opts, json),
    OPT_INT('n', "count", "N", "list: the N newest runs (default: 20; 0: all)", struct runs_opts,
            count, 0, INT_MAX),
    OPT_STR(0, "format", "csv|json", "export: form of the output (default: csv)", struct runs_opts,
            format),
    OPT_END,
};

static int run(char **words, void *into, struct err *e)
{
    static const struct {
        const char *word;
        size_t words_max;
        int (*run)(char **words, void *into, struct err *e);
    } verbs[] = {{"show", 1, show}, {"export", 1, export}, {"rm", COMMAND_WORDS_ANY, rm}};
    if (!words || !words[0])
        return list(words, into, e);
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        if (strcmp(words[0], verbs[i].word) != 0)
            continue;
        if (words[1] && strv_len(words + 1) <= verbs[i].words_max)
            return verbs[i].run(words + 1, into, e);
        err_set(e, -EINVAL, words[1] ? "unexpected argument '%s'" : "the run is missing",
                words[1] ? words[2] : "");
        (void)err_hint(e, "drover runs %s RUN; 'drover runs' lists the runs", words[0]);
        return -EINVAL;
    }
    err_set(e, -EINVAL, "unexpected argument '%s'", words[0]);
    (void)err_hint(e, "drover runs show, logs, rm or export, and a run");
    return -EINVAL;
}

int cmd_runs(int argc, char **argv)
{
    static const struct command command = {
        .help = {.program = "drover runs",
                 .usage = "[options] [show RUN | logs RUN [RANK] | rm RUN... | export RUN]",
                 .summary =
                     "Lists your runs that drover remembers, running or ended, newest first; "
                     "or shows one, prints its last lines or its metrics, or removes it. RUN "
                     "is the id of a run, the beginning of it, or its name (drover run "
                     "--name).\n\nThe first word may be one of:\nshow, logs, rm, export",
                 .examples = "drover runs -n 5\ndrover runs show baseline\n"
                             "drover runs export --format csv baseline"},
        .options = options,
        .words_max = COMMAND_WORDS_ANY,
        .run = run};
    struct runs_opts o = {.count = COUNT, .format = "csv"};
    return argc > 1 && strcmp(argv[1], "logs") == 0 ? cmd_logs(argc - 1, argv + 1)
                                                    : command_run(&command, &o, argc, argv);
}
