/* cmd_why - `drover why`: what changed between a run that went wrong and the last good one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/command.h"
#include "common/plural.h"
#include "common/utf8.h"
#include "launcher/jobs/commands.h"
#include "launcher/jobs/run_store.h"
#include "launcher/why/fact_changes.h"
#include "launcher/why/run_facts.h"

enum { ROWS = 10, EARLIER_MAX = 64, FACT_COLUMNS = 28, VALUE_COLUMNS = 24 };

struct why_opts {
    const char *good;
    bool all, json;
};

/* What is known of the two runs, and of earlier ones. */
struct why {
    struct run_list list;
    struct run_entry *bad, *good;
    struct fact_history earlier[EARLIER_MAX];
    struct fact_question question;
    struct strbuf sentence;
};

/* ---- reading -------------------------------------------------------------------------------- */

static void take_report(void *arg, const char *text)
{
    json_t *report = NULL;
    if (json_parse(&report, text, strlen(text), NULL) == 0)
        json_array_append_new(arg, report);
}

/* Reads the first and the last report of a rank into `meta`. */
static void read_series(struct run_entry *r)
{
    static const char sql[] =
        "WITH own AS NOT MATERIALIZED (SELECT seq, json_object('at', at_ms, 'data', json(data)) AS "
        "text FROM record "
        "WHERE kind = 'report' AND rank = "
        "(SELECT rank FROM record WHERE kind = 'report' ORDER BY seq LIMIT 1)) "
        "SELECT * FROM (SELECT text FROM own ORDER BY seq LIMIT 1) UNION ALL "
        "SELECT * FROM (SELECT text FROM own ORDER BY seq DESC LIMIT 1)";
    AUTO(json) json_t *series = json_array();
    if (json_object_get(r->meta, "series"))
        return;
    (void)run_store_each(r, sql, take_report, series, NULL); /* without it, no speed is known */
    json_object_set(r->meta, "series", series);
}

/* Reads the earlier runs that ended well; the newest one of the same program is the good one, if it
 * was not slower and the user has not chosen another. */
static int look_back(struct why *w, struct err *e)
{
    static const char *const missing[] = {"no earlier run of this program is known",
                                          "no earlier run of this program ended well",
                                          "it ended well, and no earlier run was faster"};
    AUTO(free) char *own = run_facts_program(w->bad->meta);
    size_t n = 0, known = 0;
    read_series(w->bad);
    for (size_t i = 0; i < w->list.count && !(w->good && n == EARLIER_MAX); i++) {
        struct run_entry *r = &w->list.at[i];
        if (!run_store_read(r) ||
            run_store_number(r, "begin_ms", 0) >= run_store_number(w->bad, "begin_ms", 0))
            continue;
        AUTO(free) char *program = run_facts_program(r->meta);
        bool same = *own && strcmp(program, own) == 0, done = run_store_is(r, "done");
        if (same && known <= done)
            known = done ? 2 : 1;
        if (same && done) {
            read_series(r);
            bool suits =
                !run_store_is(w->bad, "done") || run_facts_slowdown(w->bad->meta, r->meta) >= 1;
            w->good = w->good || !suits ? w->good : r;
        }
        if (done && n < EARLIER_MAX)
            w->earlier[EARLIER_MAX - ++n] = (struct fact_history){run_facts_of(r->meta), same};
    }
    w->question.earlier = &w->earlier[EARLIER_MAX - n];
    w->question.earlier_count = n;
    if (w->good)
        return 0;
    err_set(e, -ENOENT, "run %s: %s", w->bad->id, missing[known]);
    (void)err_hint(e, "drover why %s --good RUN, which compares it with any run", w->bad->id);
    return -ENOENT;
}

/* ---- printing ------------------------------------------------------------------------------- */

/* Writes what has happened to the bad run. */
static void write_sentence(struct why *w)
{
    const struct run_entry *bad = w->bad;
    char duration[24];
    AUTO(strbuf) struct strbuf cause = {0};
    double slower = run_facts_slowdown(bad->meta, w->good->meta);
    run_store_cause(&cause, bad);
    run_store_duration(duration, bad);
    strbuf_printf(&w->sentence, "%s %s after %s", bad->id,
                  run_store_is(bad, "running")   ? "still runs"
                  : run_store_is(bad, "done")    ? "ended well"
                  : run_store_is(bad, "stopped") ? "was stopped"
                                                 : "failed",
                  duration);
    if (cause.len)
        strbuf_printf(&w->sentence, ": %s", strbuf_str(&cause));
    else if (slower >= 1.05)
        strbuf_printf(&w->sentence, ", %.3g times slower than the good run", slower);
}

/* Prints a value in a column, from shortly before the place where it differs from the other. */
static void print_value(const char *value, const char *other)
{
    AUTO(strbuf) struct strbuf b = {0};
    size_t same = 0, width = 0;
    while (value && other && value[same] && value[same] == other[same])
        same++;
    const char *from = !value ? "-" : strcmp(value, "***") == 0 ? "masked" : value;
    if (same > VALUE_COLUMNS / 2 && strlen(from) > VALUE_COLUMNS) {
        for (from += same - VALUE_COLUMNS / 4; (*from & 0xc0) == 0x80;) /* inside a character */
            from--;
        strbuf_puts(&b, "…");
        width = 1;
    }
    for (size_t len; *from && width < VALUE_COLUMNS; from += len, width++) {
        len = utf8_length(from) ? utf8_length(from) : 1;
        AUTO(free) char *character = xstrndup(from, len);
        utf8_add_line(&b, width == VALUE_COLUMNS - 1 && from[len] ? "…" : character);
    }
    printf("  %s%*s", strbuf_str(&b), (int)(VALUE_COLUMNS - width), "");
}

static void print_table(const struct why *w, const json_t *changes, size_t rows)
{
    printf("%s\ncompared with %s, and with %zu earlier run%s that ended well\n",
           strbuf_str(&w->sentence), w->good->id, w->question.earlier_count,
           plural_s((long long)w->question.earlier_count));
    if (json_array_size(changes) == 0)
        puts("no fact that the logs have differs");
    else
        printf("%-*s  %-*s  %-*s  %s\n", FACT_COLUMNS, "FACT", VALUE_COLUMNS, "GOOD", VALUE_COLUMNS,
               "BAD", "WHY");
    for (size_t i = 0; i < rows && i < json_array_size(changes); i++) {
        const json_t *c = json_array_get(changes, i);
        const char *good = json_string_value(json_object_get(c, "good"));
        const char *bad = json_string_value(json_object_get(c, "bad"));
        AUTO(strbuf) struct strbuf shown = {0};
        utf8_add_line(&shown, json_string_value(json_object_get(c, "fact")));
        printf("%-*s", FACT_COLUMNS, strbuf_str(&shown));
        print_value(good, bad);
        print_value(bad, good);
        printf("  %s\n", json_string_value(json_object_get(c, "why")));
    }
    if (rows < json_array_size(changes))
        printf("%zu more with --all\n", json_array_size(changes) - rows);
}

/* ---- the command ---------------------------------------------------------------------------- */

static void compare(struct why *w, const struct why_opts *o)
{
    read_series(w->good);
    write_sentence(w);
    AUTO(json) json_t *good = run_facts_of(w->good->meta), *bad = run_facts_of(w->bad->meta);
    w->question.good = good;
    w->question.bad = bad;
    w->question.cause = strbuf_str(&w->sentence);
    w->question.text = run_store_text(w->bad, "cause");
    AUTO(json) json_t *changes = fact_changes_find(&w->question);
    if (!o->json) {
        print_table(w, changes, o->all ? SIZE_MAX : ROWS);
        return;
    }
    AUTO(json)
    json_t *all = json_pack("{s:s, s:s, s:s, s:I, s:O}", "bad", w->bad->id, "good", w->good->id,
                            "sentence", strbuf_str(&w->sentence), "earlier",
                            (json_int_t)w->question.earlier_count, "changes", changes);
    AUTO(free) char *line = json_line(all);
    puts(line);
}

static int run(char **words, void *into, struct err *e)
{
    const struct why_opts *o = into;
    struct why w = {0};
    int rc = run_store_list(&w.list, e);
    if (rc == 0)
        rc = run_store_find(&w.bad, &w.list, words[0], e);
    if (rc == 0 && o->good)
        rc = run_store_find(&w.good, &w.list, o->good, e);
    if (rc == 0 && w.good == w.bad)
        rc = err_set(e, -EINVAL, "--good %s: it is the bad run itself", o->good);
    if (rc == 0)
        rc = look_back(&w, e);
    if (rc == 0)
        compare(&w, o);
    for (size_t i = 0; i < EARLIER_MAX; i++)
        json_decref(w.earlier[i].facts);
    strbuf_free(&w.sentence);
    run_store_end(&w.list);
    return rc;
}

static const struct opt options[] = {
    OPT_STR(0, "good", "RUN", "the good run (default: the last one before)", struct why_opts, good),
    OPT_FLAG(0, "all", "print all changes, not only the first 10", struct why_opts, all),
    OPT_FLAG(0, "json", "print all changes as one line of JSON", struct why_opts, json),
    OPT_END,
};

int cmd_why(int argc, char **argv)
{
    static const struct command command = {
        .help = {.program = "drover why",
                 .usage = "[options] RUN",
                 .summary = "Shows what changed between a run that failed, hung or slowed down and "
                            "the last good run of the same program: first what seldom changes, and "
                            "what relates to the cause. RUN is the id of a run, the beginning of "
                            "it, or its name (drover runs).",
                 .examples = "drover why lr-0.1\ndrover why drover-4711 --good baseline --all"},
        .options = options,
        .words_min = 1,
        .words_max = 1,
        .missing = "the run is missing",
        .missing_hint = "drover why RUN; 'drover runs' lists the runs",
        .run = run};
    struct why_opts o = {0};
    return command_run(&command, &o, argc, argv);
}
