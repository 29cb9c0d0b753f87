#include "serve/report/sweep_report.h"

#include <math.h>
#include <pwd.h>
#include <string.h>
#include <time.h>

#include "common/json.h"
#include "common/plural.h"
#include "common/redact.h"
#include "hpo/cmd/sweep_print.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/reader/sweep_insight.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "hpo/spec/spec_outcomes.h"
#include "hpo/trial/stop_reason.h"
#include "serve/data/serve_sweep_file.h"
#include "serve/report/sweep_report_totals.h"

enum { TRIALS_SHOWN = 10, REPEATS_SHOWN = 10, FRONT_SHOWN = 20, HOST_BYTES = 256 };

struct facts {
    struct report_document *d;
    const struct sweep_reader *v;
    const struct sweep_columns *c;
    const struct spec *spec;
    const char *metric; /* borrowed */
    int best;           /* -1: none */
    struct sweep_report_totals totals;
    struct sweep_report_importance *importance;
    size_t importance_count;
};

static void add_own_names(struct report_anonymous *a)
{
    static const char *const variables[] = {"USER", "LOGNAME", "SUDO_USER"};
    char host[HOST_BYTES] = "";
    if (gethostname(host, sizeof host - 1) == 0)
        report_anonymous_host(a, host);
    const struct passwd *user = getpwuid(getuid());
    report_anonymous_user(a, user ? user->pw_name : NULL);
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        report_anonymous_user(a, getenv(variables[i]));
    const char *home = getenv("HOME"), *base = home ? strrchr(home, '/') : NULL;
    report_anonymous_user(a, base ? base + 1 : NULL);
}

void sweep_report_names(struct report_anonymous *a, const struct sweep_reader *v)
{
    size_t i;
    json_t *w;
    AUTO(json) json_t *workers = sweep_reader_workers(v);
    for (i = 0; i < v->columns->lease_count; i++) {
        report_anonymous_host(a, text_table_at(&v->columns->texts, v->columns->leases[i].node));
        report_anonymous_host(a, text_table_at(&v->columns->texts, v->columns->leases[i].worker));
    }
    json_array_foreach (workers, i, w) {
        report_anonymous_host(a, json_string_value(json_object_get(w, "node")));
        report_anonymous_host(a, json_string_value(json_object_get(w, "id")));
    }
    struct lockfile_owner owner = sweep_dir_owner(v->dir);
    report_anonymous_host(a, owner.host);
    add_own_names(a);
}

/* ---- small texts ---------------------------------------------------------------------------- */

/* The caller frees each of these texts. */

static char *seconds_text(double s)
{
    struct strbuf b = {0};
    progress_text_seconds(&b, s);
    return strbuf_take(&b);
}

static char *time_text(int64_t ms)
{
    char text[32] = "–";
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    if (ms > 0 && gmtime_r(&s, &tm))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm);
    return xstrdup(text);
}

static char *value_text(const json_t *v)
{
    return json_is_string(v) ? xstrdup(json_string_value(v)) : json_line(v);
}

enum digits { SHORT, EXACT };

static char *param_text(const struct sweep_columns *c, size_t param, size_t trial, enum digits how)
{
    const char *name = c->params[param].name;
    struct columns_value v = sweep_columns_value(c, param, trial);
    if (v.kind == COLUMNS_ABSENT)
        return xstrdup("–");
    if (v.kind == COLUMNS_REAL && how == SHORT)
        return xasprintf("%.6g", v.number);
    AUTO(json) json_t *value = redact_json(name, sweep_columns_value_json(c, v));
    return value ? value_text(value) : xstrdup(text_table_at(&c->texts, v.json));
}

static char *command_text(const struct facts *f, size_t trial)
{
    struct strbuf b = {0};
    const struct run_message_opts m = {f->spec, f->v->dir->name, f->v->dir->path, "."};
    if (sweep_print_trial_command(&b, &m, f->c, trial, SWEEP_PRINT_FOR_OTHERS, NULL) == 0)
        return strbuf_take(&b);
    strbuf_free(&b);
    return NULL;
}

/* ---- the question --------------------------------------------------------------------------- */

/* "min 0.001, max 1.0" */
static char *bounds_text(const char *name, json_t *distribution)
{
    struct strbuf b = {0};
    const char *key;
    json_t *v, *item;
    size_t i;
    AUTO(json) json_t *shown = redact_json(name, json_incref(distribution));
    json_object_foreach (shown, key, v) {
        if (strcmp(key, "distribution") == 0)
            continue;
        strbuf_printf(&b, "%s%s ", b.len ? ", " : "", key);
        if (!json_is_array(v)) {
            AUTO(free) char *text = value_text(v);
            strbuf_puts(&b, text);
        }
        json_array_foreach (v, i, item) {
            AUTO(free) char *text = value_text(item);
            strbuf_printf(&b, "%s%s", i > 0 ? ", " : "", text);
        }
    }
    return strbuf_take(&b);
}

static void add_goal(const struct facts *f)
{
    const struct spec *spec = f->spec;
    const struct resources *need = &spec->need;
    report_document_columns(f->d, "question|");
    if (spec->description)
        report_document_fact(f->d, "description", "%s", spec->description);
    for (int i = 0; i < spec->metric_count; i++) {
        const struct spec_metric *m = &spec->metrics[i];
        AUTO(free)
        char *target = m->has_target ? xasprintf(", target %.6g", m->target) : xstrdup("");
        report_document_fact(f->d, m->maximize ? "maximize" : "minimize", "%s%s%s", m->name, target,
                             i > 0              ? ""
                             : spec->value_last ? " (the last value of a trial)"
                                                : " (the best value of a trial)");
    }
    report_document_fact(f->d, "method", "%s", spec->method->name);
    if (spec->early_terminate) {
        AUTO(free) char *text = json_line(spec->early_terminate);
        report_document_fact(f->d, "early termination", "%s", text);
    }
    AUTO(strbuf) struct strbuf text = {0};
    strbuf_printf(&text, "%d node%s, %d rank%s per node", need->nodes, need->nodes > 1 ? "s" : "",
                  need->ranks, need->ranks > 1 ? "s" : "");
    if (need->gpus > 0)
        strbuf_printf(&text, ", %g GPU%s per node", need->gpus, need->gpus > 1 ? "s" : "");
    if (need->cpus > 0)
        strbuf_printf(&text, ", %d CPU%s per rank", need->cpus, need->cpus > 1 ? "s" : "");
    report_document_fact(f->d, "resources per trial", "%s", strbuf_str(&text));
    if (spec->repeats > 1)
        report_document_fact(f->d, "trials per point", "%d", spec->repeats);
}

static void add_conditions(const struct facts *f)
{
    AUTO(json) json_t *outcomes = spec_outcomes_json(&f->spec->outcomes);
    const struct {
        const char *text;
        const json_t *value;
    } rules[] = {
        {"Conditions: a parameter is active only if others have these values.", f->spec->when},
        {"Constraints, which each point satisfies:", f->spec->constraints},
        {"Outcome constraints; a trial that does not satisfy them is not the best:", outcomes}};
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        if (!rules[i].value)
            continue;
        AUTO(json) json_t *shown = redact_json(NULL, json_incref((json_t *)rules[i].value));
        AUTO(free) char *text = json_line(shown);
        report_document_text(f->d, "%s", rules[i].text);
        report_document_code(f->d, text);
    }
}

static void add_question(const struct facts *f)
{
    report_document_heading(f->d, "Question");
    add_goal(f);
    report_document_columns(f->d, "parameter|distribution|values");
    for (size_t i = 0; i < space_dims(f->spec->space); i++) {
        AUTO(json) json_t *o = distribution_json(space_distribution(f->spec->space, i));
        AUTO(free) char *bounds = bounds_text(space_name(f->spec->space, i), o);
        const char *name = json_string_value(json_object_get(o, "distribution"));
        report_document_cell(f->d, "%s", space_name(f->spec->space, i));
        report_document_cell(f->d, "%s", name ? name : "");
        report_document_cell(f->d, "%s", bounds);
    }
    add_conditions(f);
}

/* ---- the result ----------------------------------------------------------------------------- */

static void add_trial_columns(const struct facts *f, const char *first)
{
    report_document_columns(f->d, first);
    report_document_head(f->d, f->metric, true);
    for (size_t k = 0; k < f->c->param_count; k++)
        report_document_head(f->d, f->c->params[k].name, false);
}

static void add_params(const struct facts *f, size_t trial)
{
    for (size_t k = 0; k < f->c->param_count; k++) {
        AUTO(free) char *text = param_text(f->c, k, trial, SHORT);
        report_document_cell(f->d, "%s", text);
    }
}

static void add_best(const struct facts *f)
{
    const struct columns_trial *t = &f->c->trials[f->best];
    AUTO(free) char *command = command_text(f, (size_t)f->best);
    AUTO(free) char *seconds = seconds_text(t->seconds);
    report_document_columns(f->d, "best trial|");
    report_document_fact(f->d, "trial", "%d (%s)", f->best, trial_state_name(t->state));
    report_document_fact(f->d, f->metric, "%.6g", sweep_columns_score(f->c, (size_t)f->best));
    for (size_t k = 0; k < f->c->param_count; k++) {
        AUTO(free) char *text = param_text(f->c, k, (size_t)f->best, EXACT);
        report_document_fact(f->d, f->c->params[k].name, "%s", text);
    }
    for (int k = 0; k < t->metric_count; k++) {
        AUTO(free)
        char *name = xasprintf("%s, last value", text_table_at(&f->c->texts, t->metrics[k].name));
        report_document_fact(f->d, name, "%.6g", t->metrics[k].last);
    }
    report_document_fact(f->d, "duration", "%s", seconds);
    report_document_text(f->d, command ? "The command of the best trial:"
                                       : "The command of the best trial cannot be made.");
    if (command)
        report_document_code(f->d, command);
}

static void add_repeats(const struct facts *f)
{
    if (f->totals.repeat_count == 0)
        return;
    report_document_heading(f->d, "Repeated seeds");
    report_document_text(
        f->d,
        "%zu set%s of parameters ran more than once, apart from the seed. Mean and "
        "standard deviation of the value:",
        f->totals.repeat_count, plural_s((long long)f->totals.repeat_count));
    add_trial_columns(f, "#trials");
    for (size_t i = 0; i < f->totals.repeat_count && i < REPEATS_SHOWN; i++) {
        const struct sweep_report_repeat *r = &f->totals.repeats[i];
        report_document_cell(f->d, "%d", r->count);
        report_document_cell(f->d, "%.6g ± %.2g", r->mean, r->deviation);
        add_params(f, (size_t)r->first);
    }
}

/* The trials that no other one beats in all objectives. */
static void add_front(const struct facts *f)
{
    size_t i;
    json_t *id;
    AUTO(json) json_t *front = sweep_reader_pareto(f->v);
    if (json_array_size(front) == 0)
        return;
    report_document_heading(f->d, "Pareto front");
    report_document_columns(f->d, "#trial");
    for (int k = 0; k < f->spec->metric_count; k++)
        report_document_head(f->d, f->spec->metrics[k].name, true);
    for (size_t k = 0; k < f->c->param_count; k++)
        report_document_head(f->d, f->c->params[k].name, false);
    json_array_foreach (front, i, id) {
        size_t trial = (size_t)json_integer_value(id);
        if (i == FRONT_SHOWN)
            break;
        report_document_cell(f->d, "%zu", trial);
        for (int k = 0; k < f->spec->metric_count; k++) {
            const struct columns_metric *m =
                sweep_columns_metric(f->c, trial, f->spec->metrics[k].name);
            report_document_number(f->d, k == 0 ? sweep_columns_score(f->c, trial)
                                         : m    ? m->last
                                                : (double)NAN);
        }
        add_params(f, trial);
    }
    if (i < json_array_size(front))
        report_document_text(f->d, "%zu of %zu trials of the front.", i, json_array_size(front));
}

static void add_result(const struct facts *f)
{
    report_document_heading(f->d, "Result");
    if (f->best < 0) {
        report_document_text(f->d, f->spec->outcomes.count > 0
                                       ? "No trial satisfies the outcome constraints."
                                       : "No trial has a value.");
        return;
    }
    add_best(f);
    size_t n = f->totals.order_count < TRIALS_SHOWN ? f->totals.order_count : TRIALS_SHOWN;
    report_document_text(f->d, "The %zu best of %zu trial%s with a value:", n,
                         f->totals.order_count, plural_s((long long)f->totals.order_count));
    add_trial_columns(f, "#trial");
    for (size_t i = 0; i < n; i++) {
        size_t trial = (size_t)f->totals.order[i];
        report_document_cell(f->d, "%zu%s", trial,
                             sweep_columns_feasible(f->c, trial) ? "" : " (infeasible)");
        report_document_number(f->d, sweep_columns_score(f->c, trial));
        add_params(f, trial);
    }
    add_front(f);
    add_repeats(f);
}

static void add_range(const struct facts *f, const json_t *best)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; i < json_array_size(best); i++) {
        const json_t *v = json_array_get(best, i);
        AUTO(free) char *text = json_is_string(v) ? NULL : json_line(v);
        strbuf_puts(&b, i > 0 ? " to " : "");
        if (json_is_real(v))
            strbuf_printf(&b, "%.3g", json_real_value(v));
        else
            strbuf_puts(&b, text ? text : json_string_value(v));
    }
    report_document_cell(f->d, "%s", strbuf_str(&b));
}

static void add_importance(const struct facts *f)
{
    report_document_heading(f->d, "Importance");
    if (f->importance_count == 0) {
        report_document_text(f->d, "Too few trials with a value to say which parameters matter.");
        return;
    }
    report_document_text(f->d,
                         "The share of the value's variance over the space that a parameter "
                         "decides, with its interactions (interval: from ten parts of the trials) "
                         "and alone; its share in the best fifth of the space; and its range in "
                         "the best twentieth. The values are those that a model expects.");
    report_document_columns(
        f->d, "parameter|#share|#interval|#alone|#in the best fifth|best range|better");
    for (size_t i = 0; i < f->importance_count; i++) {
        const struct sweep_report_importance *p = &f->importance[i];
        report_document_cell(f->d, "%s", p->name);
        report_document_cell(f->d, "%.2f", p->share);
        report_document_cell(f->d, "%.2f to %.2f", p->low, p->high);
        report_document_cell(f->d, "%.2f", p->first);
        report_document_cell(f->d, "%.2f", p->region);
        add_range(f, p->best);
        report_document_cell(f->d, "%s", p->better ? p->better : "");
    }
}

/* ---- cost and failures ---------------------------------------------------------------------- */

static void add_cost_row(const struct facts *f, const char *name, int trials, double seconds)
{
    AUTO(free) char *text = seconds_text(seconds);
    double gpus = f->spec->need.gpus * f->spec->need.nodes;
    report_document_cell(f->d, "%s", name);
    report_document_cell(f->d, "%d", trials);
    report_document_cell(f->d, "%s", text);
    if (gpus > 0)
        report_document_cell(f->d, "%.3g", seconds * gpus / 3600);
}

static void add_cost(const struct facts *f)
{
    const int *states = f->c->states;
    double total = 0;
    AUTO(free) char *begin = time_text(f->totals.begin_ms), *end = time_text(f->totals.end_ms);
    AUTO(free) char *span = seconds_text((double)(f->totals.end_ms - f->totals.begin_ms) / 1e3);
    report_document_heading(f->d, "Cost");
    report_document_columns(f->d, "state|#trials|#time of trials");
    if (f->spec->need.gpus > 0)
        report_document_head(f->d, "GPU hours", true);
    for (int i = 0; i < TRIAL_STATES; i++) {
        if (states[i] > 0)
            add_cost_row(f, trial_state_name((enum trial_state)i), states[i], f->totals.seconds[i]);
        total += f->totals.seconds[i];
    }
    add_cost_row(f, "all", (int)f->c->count, total);
    if (f->totals.begin_ms)
        report_document_text(f->d, "From %s to %s, %s.", begin, end, span);
    if (f->totals.lost_seconds > 0) {
        AUTO(free) char *lost = seconds_text(f->totals.lost_seconds);
        report_document_text(f->d, "%s of it are runs that were lost, preempted or paused.", lost);
    }
}

static void add_failures(const struct facts *f)
{
    report_document_heading(f->d, "Failures");
    if (f->totals.cause_count == 0) {
        report_document_text(f->d, "No trial has failed.");
        return;
    }
    report_document_columns(f->d, "#trials|state|cause|newest");
    for (size_t i = 0; i < f->totals.cause_count; i++) {
        const struct sweep_report_cause *cause = &f->totals.causes[i];
        AUTO(strbuf) struct strbuf newest = {0};
        for (int k = 0; k < cause->newest_count; k++)
            strbuf_printf(&newest, "%s%d", k > 0 ? ", " : "", cause->newest[k]);
        report_document_cell(f->d, "%d", cause->trials);
        report_document_cell(f->d, "%s", trial_state_name(cause->state));
        report_document_cell(f->d, "%s", cause->text);
        report_document_cell(f->d, "%s", strbuf_str(&newest));
    }
    if (f->totals.other_failures > 0)
        report_document_text(f->d, "%d more trial%s other causes.", f->totals.other_failures,
                             f->totals.other_failures == 1 ? " has" : "s have");
}

/* ---- machines, and again -------------------------------------------------------------------- */

static void add_machines(const struct facts *f)
{
    AUTO(json) json_t *workers = sweep_reader_workers(f->v);
    report_document_heading(f->d, "Machines and versions");
    report_document_columns(f->d, "node|#runs of trials|#of failed trials|#time of trials");
    for (size_t i = 0; i < f->totals.node_count; i++) {
        const struct sweep_report_node *n = &f->totals.nodes[i];
        AUTO(free) char *text = seconds_text(n->seconds);
        report_document_cell(f->d, "%s", n->name ? n->name : "?");
        report_document_cell(f->d, "%d", n->leases);
        report_document_cell(f->d, "%d", n->failed);
        report_document_cell(f->d, "%s", text);
    }
    size_t i;
    json_t *w;
    json_array_foreach (workers, i, w) {
        const char *node = json_string_value(json_object_get(w, "node"));
        AUTO(free) char *gpus = json_line(json_object_get(w, "gpus"));
        AUTO(free) char *slots = json_line(json_object_get(w, "slots"));
        report_document_text(f->d, "Worker on %s: CPUs %s, GPUs %s.", node ? node : "?", slots,
                             gpus);
    }
    report_document_text(f->d, "This report was made by drover %s.", DROVER_VERSION);
}

static void add_again(const struct facts *f)
{
    const char *name = f->v->dir->name;
    AUTO(free)
    char *command = xasprintf("drover sweep %s.yaml --name %s-again --seed %llu\n", name, name,
                              (unsigned long long)f->v->dir->seed);
    report_document_heading(f->d, "Run it again");
    report_document_text(f->d, "Save this as %s.yaml in a directory with the program, then:", name);
    report_document_code(f->d, command);
    AUTO(free) char *file = serve_sweep_file(f->v->dir->file);
    report_document_code(f->d, file);
}

static void add_head(const struct facts *f, int64_t now_ms)
{
    AUTO(free) char *now = time_text(now_ms);
    struct scheduler_counts counts = sweep_reader_counts(f->v);
    AUTO(strbuf) struct strbuf text = {0};
    sweep_reader_status_text(&text, f->v);
    strbuf_puts(&text, ". ");
    progress_text_counts(&text, &counts);
    report_document_text(f->d, "The sweep is %s. Report of %s.", strbuf_str(&text), now);
}

void sweep_report(struct report_document *d, struct serve_sweep *s, int64_t now_ms)
{
    const struct sweep_reader *v = s->reader;
    struct facts f = {.d = d, .v = v, .c = v->columns, .spec = v->spec};
    AUTO(json) json_t *ranges = sweep_reader_importance_ranges(v, READER_RESAMPLES);
    f.metric = f.spec->metrics[0].name ? f.spec->metrics[0].name : "value";
    f.best = sweep_columns_best(f.c);
    f.importance_count = sweep_report_importance(&f.importance, ranges);
    sweep_report_totals(&f.totals, f.c, f.spec, sweep_dir_owner(v->dir).held ? now_ms : 0);
    add_head(&f, now_ms);
    AUTO(strv)
    char **said = sweep_insight(f.c, ranges, sweep_dir_owner(v->dir).held ? now_ms : 0);
    for (size_t i = 0; i < strv_len(said); i++)
        report_document_text(d, "%s", said[i]);
    add_question(&f);
    add_result(&f);
    if (f.totals.order_count > 0)
        report_document_plots(d);
    add_importance(&f);
    add_cost(&f);
    add_failures(&f);
    add_machines(&f);
    add_again(&f);
    sweep_report_totals_end(&f.totals);
    free(f.importance);
}
