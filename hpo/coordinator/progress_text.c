#include "hpo/coordinator/progress_text.h"

#include <math.h>
#include <string.h>

#include "common/mem.h"
#include "common/number_format.h"
#include "common/plural.h"
#include "common/utf8.h"
#include "hpo/scheduler/worker_health.h"
#include "hpo/spec/spec.h"
#include "hpo/spec/trial_command.h"
#include "hpo/trial/metric_guess.h"
#include "hpo/worker/trial_dir.h"
#include "launcher/io/terminal_text.h"

enum {
    LINE_SHOWN = 160 /* of a trial's output */,
    LINE_MAX_SHOWN = 2000,
    AWAITED_MAX = 5,
    NAMES_SHOWN = 3
};

static const char *text_of(const json_t *trial, const char *key)
{
    const char *s = json_string_value(json_object_get(trial, key));
    return s ? s : "";
}

static int id_of(const json_t *trial)
{
    return (int)json_integer_value(json_object_get(trial, "id"));
}

/* NAN if the trial has no value. */
static double value_of(const json_t *trial)
{
    const json_t *v = json_object_get(trial, "value");
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

/* Appends a string as it is, a number with six digits, and other values as JSON. */
static void add_json(struct strbuf *out, const json_t *v)
{
    if (json_is_string(v)) {
        strbuf_puts(out, json_string_value(v));
    } else if (json_is_real(v)) {
        strbuf_printf(out, "%.6g", json_real_value(v));
    } else {
        AUTO(free) char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : NULL;
        strbuf_puts(out, text ? text : "");
    }
}

void progress_text_constants(json_t **constants, const json_t *params)
{
    const char *name;
    json_t *v;
    void *next;
    if (!*constants) {
        *constants = json_copy((json_t *)params);
        return;
    }
    json_object_foreach_safe (*constants, next, name, v)
        if (!json_equal(v, json_object_get(params, name)))
            json_object_del(*constants, name);
}

void progress_text_params(struct strbuf *out, const json_t *params, const json_t *constants)
{
    const char *name, *before = "";
    json_t *v;
    for (int constant = 0; constant <= 1; constant++)
        json_object_foreach ((json_t *)params, name, v) {
            if (constant != (json_object_get(constants, name) != NULL))
                continue;
            strbuf_printf(out, "%s%s=", before, name);
            add_json(out, v);
            before = " ";
        }
}

void progress_text_seconds(struct strbuf *out, double s)
{
    if (s < 60)
        strbuf_printf(out, "%.1f s", s);
    else if (s < 3600)
        strbuf_printf(out, "%d min %02d s", (int)s / 60, (int)s % 60);
    else
        strbuf_printf(out, "%.0f h %02d min", floor(s / 3600), (int)fmod(s, 3600) / 60);
}

void progress_text_counts(struct strbuf *out, const struct scheduler_counts *c)
{
    const struct {
        int n;
        const char *what;
    } parts[] = {
        {c->done, "done"},
        {c->pruned, "pruned"},
        {c->failed, "failed"},
        {c->oom, "out of memory"},
        {c->invalid, "invalid"},
        {c->cancelled, "cancelled"},
        {c->running + c->stopping, "running"},
        {c->paused, "paused"},
        {c->waiting, "waiting"},
    };
    int ended = c->done + c->pruned + c->failed + c->oom + c->invalid + c->cancelled;
    strbuf_printf(out, "%d", ended);
    if (c->total_wanted >= 0)
        strbuf_printf(out, " of %d", c->total_wanted);
    strbuf_printf(out, " trial%s", ended == 1 && c->total_wanted < 0 ? "" : "s");
    const char *before = ": ";
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if (parts[i].n == 0)
            continue;
        strbuf_printf(out, "%s%d %s", before, parts[i].n, parts[i].what);
        before = ", ";
    }
}

/* Ends the line that began at `start` after at most `columns` cells, and escapes control
 * characters. */
static void end_line(struct strbuf *out, size_t start, int columns)
{
    AUTO(free) char *text = xstrndup(strbuf_str(out) + start, out->len - start);
    out->len = start;
    (void)terminal_text_add(out, text, columns);
    strbuf_putc(out, '\n');
}

static void add_value(struct strbuf *out, const json_t *trial, const char *metric)
{
    double v = value_of(trial);
    if (!isnan(v))
        strbuf_printf(out, "  %s %.6g", metric ? metric : "value", v);
}

static double seconds_until(const json_t *at_ms, int64_t now_ms)
{
    double ms = (double)(json_integer_value(at_ms) - now_ms);
    return ms > 0 ? ms / 1000 : 0;
}

void progress_text_fault(struct strbuf *out, const char *worker, const char *node,
                         const json_t *fault, int64_t now_ms)
{
    const char *state = text_of(fault, "state");
    bool excluded = strcmp(state, "excluded") == 0, tested = strcmp(state, "suspect") == 0;
    size_t start = out->len;
    if (excluded || strcmp(state, "backing off") == 0) {
        strbuf_printf(out, "worker %s on %s cannot run trials: %s; ", worker, node,
                      text_of(fault, "error"));
        strbuf_puts(out, excluded ? "it gets none until a self-test passes, the next in "
                                  : "it gets none for ");
        progress_text_seconds(out, seconds_until(json_object_get(fault, "due_ms"), now_ms));
    } else if (strcmp(state, "good") == 0 ||
               (tested && json_integer_value(json_object_get(fault, "failures")) >=
                              WORKER_HEALTH_FAULTS_MAX)) {
        strbuf_printf(out, "worker %s on %s %s", worker, node,
                      tested ? "has passed its self-test: it gets trials again"
                             : "runs trials again");
    }
    if (out->len == start)
        return;
    end_line(out, start, 2000);
    out->data[--out->len] = 0; /* the newline */
}

void progress_text_awaited(struct strbuf *out, const json_t *workers, int64_t now_ms)
{
    size_t i;
    json_t *w;
    json_array_foreach (workers, i, w) {
        strbuf_puts(out, i == 0 ? "waiting for workers of an earlier coordinator: " : ", ");
        if (i == AWAITED_MAX) {
            strbuf_printf(out, "and %zu more", json_array_size(workers) - i);
            break;
        }
        strbuf_printf(out, "%s on %s", text_of(w, "id"), text_of(w, "node"));
    }
    if (i == 0)
        return;
    strbuf_puts(out, "; their trials are requeued in ");
    progress_text_seconds(
        out, seconds_until(json_object_get(json_array_get(workers, 0), "lost_ms"), now_ms));
}

bool progress_text_infeasible(const json_t *trial)
{
    const char *state = text_of(trial, "state");
    return json_is_false(json_object_get(trial, "feasible")) &&
           (strcmp(state, "done") == 0 || strcmp(state, "pruned") == 0);
}

void progress_text_ended(struct strbuf *out, const json_t *trial, const char *metric, bool new_best)
{
    size_t start = out->len;
    strbuf_printf(out, "trial %d  %s", id_of(trial), text_of(trial, "state"));
    add_value(out, trial, metric);
    strbuf_puts(out, "  ");
    progress_text_params(out, json_object_get(trial, "params"), NULL);
    strbuf_puts(out, "  ");
    progress_text_seconds(out, json_number_value(json_object_get(trial, "seconds")));
    if (new_best)
        strbuf_puts(out, "  best so far");
    if (progress_text_infeasible(trial))
        strbuf_puts(out, "  infeasible");
    if (*text_of(trial, "error"))
        strbuf_printf(out, "  (%s)", text_of(trial, "error"));
    end_line(out, start, LINE_MAX_SHOWN);
}

static void add_yaml_quoted(struct strbuf *out, const char *text)
{
    strbuf_putc(out, '\'');
    for (; *text; text++)
        strbuf_puts(out, *text == '\'' ? "\'\'" : (char[]){*text, 0});
    strbuf_putc(out, '\'');
}

/* Appends a line of a hint: the metric in the sweep file, under this name. */
static void add_metric(struct strbuf *out, const struct progress_text_metric *m, const char *name,
                       const char *pattern, const char *why)
{
    strbuf_printf(out, "    %s{name: ", m->listed ? "- " : "metric: ");
    add_yaml_quoted(out, name);
    if (m->metric->maximize)
        strbuf_puts(out, ", goal: maximize");
    if (m->metric->has_target) {
        strbuf_puts(out, ", target: ");
        number_format(out, m->metric->target);
    }
    if (pattern) {
        strbuf_puts(out, ", pattern: ");
        add_yaml_quoted(out, pattern);
    }
    strbuf_printf(out, "}    in %sthe sweep file%s\n", m->listed ? "`metrics` of " : "", why);
}

void progress_text_metric_help(struct strbuf *out, const struct progress_text_metric *m)
{
    const char *metric = m->metric->name, *name;
    AUTO(free) char *example = xasprintf("%s: *([-+.0-9eE]+)", metric);
    AUTO(free) const char **names = xcalloc(json_object_size(m->others) + 1, sizeof *names);
    json_t *value;
    size_t n = 0;
    if (m->line) {
        strbuf_printf(out, "this line of its %s looks like the metric%s%s:\n",
                      m->on_stderr ? "stderr" : "output",
                      m->on_stderr ? ", but metrics are read from stdout only" : "",
                      m->quoted ? ", but a number in quotes is a text" : "");
        size_t start = out->len;
        strbuf_printf(out, "    %s", m->line);
        end_line(out, start, LINE_SHOWN);
    }
    strbuf_printf(out, "a trial reports '%s' in one of %s ways:\n", metric,
                  m->line && !m->pattern ? "two" : "three");
    if (!m->line)
        json_object_foreach ((json_t *)m->others, name, value)
            names[n++] = name;
    metric_guess_nearest(names, n, NAMES_SHOWN, metric);
    for (size_t i = 0; i < n && i < NAMES_SHOWN; i++)
        add_metric(out, m, names[i], NULL, ": a name that it has reported");
    if (n == 0 && (m->pattern || !m->line))
        add_metric(out, m, metric, m->pattern ? m->pattern : example,
                   m->on_stderr ? ", and tqdm(…, file=sys.stdout) or "
                                  "logging.StreamHandler(sys.stdout) in the program"
                                : "");
    strbuf_printf(out,
                  "    print(json.dumps({\"%s\": %s}))    in the program\n"
                  "    drover.report({\"%s\": value})    in the program, after import drover\n",
                  metric, m->quoted ? "float(value)" : "value", metric);
}

void progress_text_command_help(struct strbuf *out, char *const *items, const char *output)
{
    static const struct {
        const char *says, *macro, *why;
    } rows[] = {
        /* argparse, click, getopt_long() */
        {"ignored explicit argument", "${args_no_boolean_flags}", "a flag takes no value"},
        {"does not take a value", "${args_no_boolean_flags}", "a flag takes no value"},
        {"doesn't allow an argument", "${args_no_boolean_flags}", "a flag takes no value"},
        /* Hydra */
        {"Could not override", "${args_append_hydra}", "Hydra adds a key by +"},
        {"unrecognized arguments: --", "${args_no_hyphens}", "a program of Hydra takes NAME=VALUE"},
    };
    size_t at = 0;
    while (at < COUNT_OF(rows) && !strstr(output, rows[at].says))
        at++;
    items = items ? items : trial_command_default;
    for (char *const *item = items; at < COUNT_OF(rows) && *item; item++)
        if (strcmp(*item, rows[at].macro) == 0)
            return;
    if (at == COUNT_OF(rows))
        return;
    strbuf_printf(out, "%s; in the sweep file:\n    command: [", rows[at].why);
    for (char *const *item = items; *item; item++) {
        bool args = strncmp(*item, "${args", 6) == 0;
        strbuf_puts(out, item == items ? "" : ", ");
        add_yaml_quoted(out, args ? rows[at].macro : *item);
    }
    strbuf_puts(out, "]\n");
}

/* ---- the table ------------------------------------------------------------------------------ */

struct entry {
    const json_t *trial;
    double value;
    size_t order;
    bool maximize, front, infeasible;
    bool failed; /* its value does not count */
};

static int better_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->front != y->front)
        return x->front ? -1 : 1;
    if (x->failed != y->failed)
        return x->failed ? 1 : -1;
    if (isnan(x->value) != isnan(y->value))
        return isnan(x->value) ? 1 : -1;
    if (x->infeasible != y->infeasible)
        return x->infeasible ? 1 : -1;
    if (!isnan(x->value) && x->value != y->value)
        return (x->value < y->value) == x->maximize ? 1 : -1;
    return x->order < y->order ? -1 : 1;
}

enum { FIXED_COLUMNS = 4, CELL_MAX = 32 };

/* Appends the names of all parameters of any trial, in the order of their first appearance. Those
 * that have one value in all trials are last. */
static void add_names(char ***names, const struct entry *rows, size_t n)
{
    AUTO(json) json_t *seen = json_object(), *constants = NULL;
    const char *name;
    json_t *v;
    for (size_t i = 0; i < n; i++) {
        const json_t *params = json_object_get(rows[i].trial, "params");
        progress_text_constants(&constants, params);
        json_object_update(seen, (json_t *)params);
    }
    for (int constant = 0; constant <= 1; constant++)
        json_object_foreach (seen, name, v)
            if (constant == (json_object_get(constants, name) != NULL))
                strv_push(names, xstrdup(name));
}

/* Returns the text without control characters and cut to CELL_MAX. To be freed. */
static char *cut_cell(const char *text)
{
    struct strbuf b = {0};
    strbuf_puts(&b, text);
    end_line(&b, 0, CELL_MAX);
    b.data[--b.len] = 0; /* the newline */
    return strbuf_take(&b);
}

/* Returns a cell, without control characters and cut to CELL_MAX. After the fixed columns there are
 * `others` metrics, then parameters. To be freed. */
static char *cell(const struct entry *row, size_t rank, size_t column, char *const *names,
                  size_t others)
{
    const json_t *metric = json_object_get(json_object_get(row->trial, "metrics"), names[column]);
    const json_t *param = json_object_get(json_object_get(row->trial, "params"), names[column]);
    bool is_metric = column < FIXED_COLUMNS + others;
    struct strbuf b = {0};
    if (column == 0 && row->front)
        strbuf_putc(&b, '*');
    else if (column == 0)
        strbuf_printf(&b, "%zu", rank);
    else if (column == 1)
        strbuf_printf(&b, "%d", id_of(row->trial));
    else if (column == 2)
        strbuf_printf(&b, "%s%s", text_of(row->trial, "state"),
                      progress_text_infeasible(row->trial) ? ", infeasible" : "");
    else if (column == 3 && !isnan(row->value))
        strbuf_printf(&b, "%.6g", row->value);
    else if (is_metric && (column == 3 || !metric))
        strbuf_puts(&b, "-");
    else
        add_json(&b, is_metric ? metric : param);
    AUTO(free) char *text = strbuf_take(&b);
    return cut_cell(text);
}

void progress_text_output(struct strbuf *out, const json_t *trial, const char *dir)
{
    json_int_t lease = json_integer_value(json_object_get(trial, "lease"));
    AUTO(free) char *path = trial_dir_path(dir, id_of(trial));
    if (lease > 0)
        strbuf_printf(out, "%s/%lld", path, (long long)lease);
}

/* "             3 trials: exit status 3; output: sweeps/s/trials/000017/4", below the first entry
 * that has this error. */
static void print_error(struct strbuf *out, const struct entry *entries, size_t at, size_t n,
                        const char *dir, int indent)
{
    AUTO(strbuf) struct strbuf path = {0};
    const json_t *trial = entries[at].trial;
    size_t start = out->len, others = 0;
    if (!*text_of(trial, "error"))
        return;
    for (size_t i = 0; i < n; i++) {
        if (i == at || strcmp(text_of(entries[i].trial, "error"), text_of(trial, "error")) != 0)
            continue;
        if (i < at)
            return;
        others++;
    }
    if (dir)
        progress_text_output(&path, trial, dir);
    strbuf_printf(out, "%*s", indent, "");
    if (others > 0)
        strbuf_printf(out, "%zu trial%s: ", others + 1, plural_s((long long)others + 1));
    strbuf_printf(out, "%s%s%s", text_of(trial, "error"), path.len > 0 ? "; output: " : "",
                  strbuf_str(&path));
    end_line(out, start, LINE_MAX_SHOWN);
}

static void print_cells(struct strbuf *out, char *const *cells, const struct entry *entries,
                        const char *dir, size_t rows, size_t columns, size_t others)
{
    AUTO(free) int *width = xcalloc(columns, sizeof *width);
    for (size_t i = 0; i < rows * columns; i++) {
        int w = terminal_text_cells(cells[i]);
        if (w > width[i % columns])
            width[i % columns] = w;
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            const char *text = cells[r * columns + c];
            int pad = width[c] - terminal_text_cells(text);
            bool right = c != 2 && c < FIXED_COLUMNS + others; /* numbers; the state is text */
            if (right)
                strbuf_printf(out, "%*s", pad, "");
            strbuf_puts(out, text);
            if (c + 1 < columns)
                strbuf_printf(out, "%*s", 2 + (right ? 0 : pad), "");
        }
        strbuf_putc(out, '\n');
        if (r > 0)
            print_error(out, entries, r - 1, rows - 1, dir, width[0] + 2 + width[1] + 2);
    }
}

void progress_text_table(struct strbuf *out, const json_t *trials, const struct spec *spec,
                         const json_t *front, const char *dir, size_t max)
{
    size_t n = json_array_size(trials), others = 0;
    AUTO(free) struct entry *rows = xcalloc(n, sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        const json_t *t = json_array_get(trials, i);
        int state = trial_state_parse(text_of(t, "state"));
        rows[i] = (struct entry){.trial = t,
                                 .value = value_of(t),
                                 .order = i,
                                 .maximize = spec->metrics[0].maximize,
                                 .infeasible = json_is_false(json_object_get(t, "feasible")),
                                 .failed = state >= 0 && !trial_has_signal(state)};
        for (size_t k = 0; k < json_array_size(front) && !rows[i].front; k++)
            rows[i].front = json_integer_value(json_array_get(front, k)) == id_of(t);
    }
    qsort(rows, n, sizeof *rows, better_first);
    n = n > max ? max : n;
    AUTO(strv) char **names = NULL;
    strv_push(&names, xstrdup("rank"));
    strv_push(&names, xstrdup("trial"));
    strv_push(&names, xstrdup("state"));
    strv_push(&names, xstrdup(spec->metric_count > 1 ? spec->metrics[0].name : "value"));
    for (int i = 1; i < spec->metric_count; i++, others++)
        strv_push(&names, xstrdup(spec->metrics[i].name));
    add_names(&names, rows, n);
    size_t columns = strv_len(names);
    AUTO(strv) char **cells = xcalloc((n + 1) * columns + 1, sizeof *cells);
    for (size_t c = 0; c < columns; c++)
        cells[c] = cut_cell(names[c]);
    for (size_t i = 0; i < n * columns; i++)
        cells[columns + i] = cell(&rows[i / columns], i / columns + 1, i % columns, names, others);
    print_cells(out, cells, rows, dir, n + 1, columns, others);
    if (front)
        strbuf_puts(
            out, "* no other trial is better in one objective and at least equal in all others\n");
}

void progress_text_importance(struct strbuf *out, const json_t *importance)
{
    const char *name;
    json_t *share;
    strbuf_puts(out, "importance");
    size_t before = out->len;
    json_object_foreach ((json_t *)importance, name, share) {
        if (json_real_value(share) < 0.005)
            continue;
        strbuf_puts(out, "  ");
        utf8_add_line(out, name);
        strbuf_printf(out, " %.2f", json_real_value(share));
    }
    strbuf_puts(out, out->len == before ? "  no parameter decides\n" : "\n");
}

void progress_text_shell(struct strbuf *out, char *const *argv)
{
    for (size_t i = 0; argv && argv[i]; i++) {
        if (i > 0)
            strbuf_putc(out, ' ');
        utf8_add_shell_word(out, argv[i]);
    }
}
