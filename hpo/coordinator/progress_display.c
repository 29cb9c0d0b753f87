#include "hpo/coordinator/progress_display.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/coordinator/progress_frame.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/coordinator/worker_roster.h"
#include "hpo/spec/spec.h"
#include "hpo/store/command_mailbox.h"
#include "hpo/trial/metric_guess.h"
#include "hpo/trial/trial.h"
#include "launcher/io/metric_mapping.h"
#include "launcher/io/terminal.h"

enum {
    LISTED_MAX = 64,  /* trials in a frame */
    TOTALS_MS = 1000, /* between two counts of the workers, of which there may be thousands */
    OUTPUT_READ = 64 << 10
};

struct ids { /* of trials */
    int *at;
    size_t count;
};

struct progress_display {
    struct progress_display_opts opts;
    struct coordinator_view view;
    struct terminal *terminal; /* NULL: stderr is not a terminal, or `quiet` */
    bool metric_help;          /* was shown */
    bool command_help;         /* was shown */
    bool exploring;            /* the search's note was shown, and still holds */
    bool help;                 /* the keys are explained */
    bool paused;               /* as printed last */
    struct ids leased;         /* trials that workers have, in the order of their leases */
    struct ids ended;          /* in the order of their ends */
    double *curve;             /* the best value after each end of a trial with a value */
    size_t curve_count;
    int ended_here;
    json_t *command; /* from a key, until its reply; NULL: none */
    bool submitted;  /* the command is in the mailbox */
    int64_t opened_ms, counted_ms;
    struct worker_roster_totals totals;
};

static void add(struct ids *ids, int trial)
{
    ids->at = xgrow(ids->at, ids->count, sizeof *ids->at);
    ids->at[ids->count++] = trial;
}

static void drop(struct ids *ids, int trial)
{
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->at[i] != trial)
            continue;
        memmove(&ids->at[i], &ids->at[i + 1], (--ids->count - i) * sizeof *ids->at);
        return;
    }
}

static void add_ended(struct progress_display *s, const struct trial *t)
{
    double v = trial_value(t, s->opts.spec->value_last);
    add(&s->ended, t->id);
    if (!trial_has_signal(t->state) || isnan(v) ||
        !outcome_feasible(&s->opts.spec->outcomes, t->metrics))
        return;
    s->curve = xgrow(s->curve, s->curve_count, sizeof *s->curve);
    double before = s->curve_count ? s->curve[s->curve_count - 1] : v;
    s->curve[s->curve_count++] =
        s->opts.spec->metrics[0].maximize ? fmax(before, v) : fmin(before, v);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Complete lines. */
static void print(struct progress_display *s, const char *text)
{
    if (s->terminal)
        terminal_print(s->terminal, text);
    else
        fputs(text, stderr);
}

void progress_display_print(struct progress_display *s, const char *text)
{
    AUTO(free) char *line = xasprintf("%s\n", text);
    print(s, line);
}

static void print_paused(struct progress_display *s, bool paused)
{
    AUTO(free)
    char *text = xasprintf("drover sweep: paused; to continue: %s", s->opts.resume);
    s->paused = paused;
    if (!s->opts.quiet)
        progress_display_print(s, paused ? text : "drover sweep: resumed");
}

/* Sets `*end` to the end of a stream of the trial's output, as a string; "" if this machine does
 * not see the file. The caller frees it. */
static void read_output(char **end, const struct progress_display *s, const json_t *trial,
                        const char *stream)
{
    AUTO(strbuf) struct strbuf path = {0};
    progress_text_output(&path, trial, s->opts.dir);
    strbuf_printf(&path, "/%s", stream);
    AUTO(fd) int fd = open(strbuf_str(&path), O_RDONLY | O_CLOEXEC);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    off_t from = size > OUTPUT_READ ? size - OUTPUT_READ : 0;
    free(*end);
    *end = xcalloc(OUTPUT_READ + 1, 1);
    if (fd >= 0 && pread(fd, *end, OUTPUT_READ, from) < 0)
        **end = '\0';
}

/* Returns the first metric that the trial has not reported, or NULL. */
static const struct spec_metric *missing_metric(const struct spec *spec, const json_t *trial)
{
    const json_t *reported = json_object_get(trial, "metrics");
    for (int i = 0; i < spec->metric_count; i++)
        if (!json_object_get(reported, spec->metrics[i].name))
            return &spec->metrics[i];
    return NULL;
}

/* Shows once how a trial can report a metric: after the first one that ended well without it. What
 * its output has is shown if this machine sees the file. */
static void help_with_metric(struct progress_display *s, const json_t *trial)
{
    const struct spec *spec = s->opts.spec;
    AUTO(json) json_t *others = json_copy(json_object_get(trial, "metrics"));
    struct progress_text_metric m = {
        .metric = missing_metric(spec, trial), .listed = spec->metric_count > 1, .others = others};
    const char *state = json_string_value(json_object_get(trial, "state"));
    if (s->metric_help || !m.metric || trial_state_parse(state) != TRIAL_INVALID)
        return;
    s->metric_help = true;
    for (int i = 0; i < spec->metric_count; i++)
        (void)json_object_del(others, spec->metrics[i].name); /* it may not be there */
    AUTO(free) char *output = NULL, *line = NULL, *pattern = NULL;
    read_output(&output, s, trial, "stdout");
    (void)metric_guess(&line, &pattern, output, strlen(output), m.metric->name);
    AUTO(json) json_t *mapping = line ? metric_mapping_read(line, strlen(line)) : NULL;
    if (!line) {
        read_output(&output, s, trial, "stderr");
        m.on_stderr = metric_guess(&line, &pattern, output, strlen(output), m.metric->name);
    }
    m.quoted = pattern && metric_guess_is_quoted(pattern);
    if (!mapping || m.quoted) { /* the names of a mapping are reported */
        m.line = line;
        m.pattern = mapping ? NULL : pattern;
    }
    AUTO(strbuf) struct strbuf b = {0};
    progress_text_metric_help(&b, &m);
    print(s, strbuf_str(&b));
}

/* Shows once the `command` that a trial needs which did not understand its arguments. */
static void help_with_command(struct progress_display *s, const json_t *trial)
{
    AUTO(free) char *output = NULL;
    AUTO(strbuf) struct strbuf b = {0};
    if (s->command_help)
        return;
    read_output(&output, s, trial, "stderr");
    progress_text_command_help(&b, s->opts.spec->command, output);
    s->command_help = b.len > 0;
    print(s, strbuf_str(&b));
}

/* Prints the search's note once, when it begins to hold. */
static void tell_note(struct progress_display *s, const struct scheduler *sched)
{
    AUTO(free) char *note = scheduler_note(sched);
    AUTO(free) char *line = note && !s->exploring ? xasprintf("search: %s\n", note) : NULL;
    s->exploring = note != NULL;
    if (line)
        print(s, line);
}

void progress_display_stored(struct progress_display *s, const struct scheduler *sched,
                             enum scheduler_record_kind kind, int trial)
{
    if (s->paused != scheduler_is_paused(sched))
        print_paused(s, !s->paused);
    if (kind == SCHEDULER_REC_LEASED)
        add(&s->leased, trial);
    else if (kind == SCHEDULER_REC_REQUEUED || kind == SCHEDULER_REC_ENDED ||
             kind == SCHEDULER_REC_PAUSED)
        drop(&s->leased, trial);
    else if (kind == SCHEDULER_REC_RETRIED)
        drop(&s->ended, trial);
    if (kind != SCHEDULER_REC_ENDED || s->opts.quiet)
        return;
    s->ended_here++;
    add_ended(s, scheduler_view(sched).trials[trial]);
    AUTO(json) json_t *t = scheduler_trial_json(sched, trial);
    help_with_metric(s, t);
    tell_note(s, sched);
    const char *state = json_string_value(json_object_get(t, "state"));
    bool failed = state && !trial_has_signal((enum trial_state)trial_state_parse(state)) &&
                  json_object_get(t, "error");
    if (s->terminal && !failed)
        return;
    AUTO(strbuf) struct strbuf b = {0};
    progress_text_ended(&b, t, s->opts.spec->metrics[0].name, scheduler_best(sched) == trial);
    if (failed) {
        strbuf_puts(&b, "  output: ");
        progress_text_output(&b, t, s->opts.dir);
        strbuf_putc(&b, '\n');
    }
    print(s, strbuf_str(&b));
    if (failed)
        help_with_command(s, t);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* A key sends the command that `drover sweep` would send, the same way. The reply to an earlier one
 * is awaited first. */
static void send_command(struct progress_display *s, json_t *command)
{
    struct err e = {0};
    if (!s->command && command_mailbox_set_id(command, &e)) {
        s->command = json_incref(command);
        json_object_set_new(command, "instance", json_integer(s->opts.instance));
        s->submitted = false;
    }
    json_decref(command);
}

static void print_error(struct progress_display *s, const char *text)
{
    AUTO(free) char *line = xasprintf("drover sweep: %s", text);
    progress_display_print(s, line);
}

/* Submits the command, then awaits its reply. */
static void continue_command(struct progress_display *s)
{
    struct err e = {0};
    if (!s->command)
        return;
    if (!s->submitted) {
        int rc = command_mailbox_submit(s->opts.dir, s->command, &e);
        s->submitted = rc == 0;
        if (rc == 0)
            return;
        print_error(s, e.text);
    } else {
        const char *id = json_string_value(json_object_get(s->command, "ask"));
        AUTO(json) json_t *reply = command_mailbox_poll_reply(s->opts.dir, id);
        const char *error = json_string_value(json_object_get(reply, "error"));
        if (error)
            print_error(s, error);
        if (!reply)
            return;
    }
    json_decref(TAKE(s->command));
}

static void press(struct progress_display *s, char key)
{
    if (key == 'q')
        send_command(s, json_pack("{s:s, s:b}", "verb", "stop", "finish", 1));
    else if (key == 'p' && s->paused)
        send_command(s, json_pack("{s:s}", "verb", "resume"));
    else if (key == 'p')
        send_command(s, json_pack("{s:s, s:b}", "verb", "pause", "finish", 1));
    else if (key == 'Q')
        (void)raise(SIGINT);
    else if (key == '?')
        s->help = !s->help;
}

static void on_keys(void *arg, const char *keys, size_t len)
{
    for (size_t i = 0; i < len; i++)
        press(arg, keys[i]);
}

/* ---- a frame -------------------------------------------------------------------------------- */

static struct progress_frame_trial shown_trial(const struct progress_display *s, int id)
{
    const struct trial *t = scheduler_view(s->view.sched).trials[id];
    const struct trial_curve *c = &t->curve;
    bool ended = trial_is_ended(t->state), reported = c->count > 0;
    bool feasible = outcome_feasible(&s->opts.spec->outcomes, t->metrics);
    double step = reported ? c->points[c->count - 1].step : (double)NAN;
    double last = reported ? c->points[c->count - 1].value : (double)NAN;
    /* The time of records is the wall clock's, or later. */
    double running = (double)(clock_ms_of(CLOCK_REALTIME) - t->leased_ms) / 1000;
    double budget = json_number_value(json_object_get(s->opts.spec->early_terminate, "max_iter"));
    return (struct progress_frame_trial){
        .id = id,
        .state = trial_state_name(t->state),
        .reason = t->error                                           ? t->error
                  : ended && trial_has_signal(t->state) && !feasible ? "infeasible"
                                                                     : trial_stop_word(t),
        .params = t->params,
        .step = step,
        .value = ended ? trial_value(t, s->opts.spec->value_last) : last,
        .seconds = ended ? t->seconds : fmax(running, 0),
        .share = budget > 0 && reported ? step / budget : (double)NAN,
    };
}

static bool is_utf8(void)
{
    const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static const char *mode_of(const struct scheduler *s)
{
    return scheduler_is_stopped(s) ? "stopping" : scheduler_is_paused(s) ? "paused" : "running";
}

static void count_workers(struct progress_display *s, int64_t now)
{
    if (s->counted_ms && now - s->counted_ms < TOTALS_MS)
        return;
    s->totals = worker_roster_totals(s->view.workers);
    s->counted_ms = now;
}

static void on_frame(void *arg)
{
    struct progress_display *s = arg;
    const struct scheduler *sched = s->view.sched;
    struct progress_frame_trial running[LISTED_MAX], ended[LISTED_MAX];
    int64_t now = clock_ms();
    int columns, rows, best = scheduler_best(sched);
    struct progress_frame f = {.name = s->opts.name,
                               .metric = s->opts.spec->metrics[0].name,
                               .mode = mode_of(sched),
                               .counts = scheduler_counts(sched),
                               .seconds = (double)(now - s->opened_ms) / 1000,
                               .ended_here = s->ended_here,
                               .best = best,
                               .curve = s->curve,
                               .curve_count = s->curve_count,
                               .running = running,
                               .running_total = s->leased.count,
                               .ended = ended,
                               .keys = terminal_has_keys(s->terminal),
                               .help = s->help,
                               .colour = s->opts.colour,
                               .utf8 = is_utf8()};
    continue_command(s);
    count_workers(s, now);
    f.workers = s->totals.workers;
    f.slots = s->totals.slots;
    f.gpus = s->totals.gpus;
    if (best >= 0) {
        const struct trial *t = scheduler_view(sched).trials[best];
        f.best_value = trial_value(t, s->opts.spec->value_last);
        f.best_params = t->params;
    }
    while (f.running_count < LISTED_MAX && f.running_count < s->leased.count) {
        running[f.running_count] = shown_trial(s, s->leased.at[f.running_count]);
        f.running_count++;
    }
    while (f.ended_count < LISTED_MAX && f.ended_count < s->ended.count) {
        ended[f.ended_count] = shown_trial(s, s->ended.at[s->ended.count - 1 - f.ended_count]);
        f.ended_count++;
    }
    terminal_size(s->terminal, &columns, &rows);
    terminal_paint_block(s->terminal, progress_frame_lines(&f, columns, rows));
    if (s->command)
        terminal_changed(s->terminal); /* looks for its reply */
}

void progress_display_changed(struct progress_display *s)
{
    if (s->terminal)
        terminal_changed(s->terminal);
}

/* ---- life ----------------------------------------------------------------------------------- */

static int by_end(const void *a, const void *b)
{
    const struct trial *const *x = a, *const *y = b;
    return ((*x)->end_order > (*y)->end_order) - ((*x)->end_order < (*y)->end_order);
}

/* Takes over the trials of earlier coordinators. */
static void add_stored(struct progress_display *s)
{
    struct trial_view all = scheduler_view(s->view.sched);
    AUTO(free) const struct trial **ended = xcalloc(all.count, sizeof *ended);
    size_t n = 0;
    for (size_t i = 0; i < all.count; i++) {
        if (trial_is_active(all.trials[i]->state))
            add(&s->leased, all.trials[i]->id);
        else if (trial_is_ended(all.trials[i]->state))
            ended[n++] = all.trials[i];
    }
    qsort(ended, n, sizeof *ended, by_end);
    for (size_t i = 0; i < n; i++)
        add_ended(s, ended[i]);
}

struct progress_display *progress_display_open(const struct progress_display_opts *opts,
                                               const struct coordinator_view *view)
{
    static const struct terminal_events terminal_events = {.keys = on_keys, .frame = on_frame};
    struct progress_display *s = xzalloc(sizeof *s);
    s->opts = *opts;
    s->view = *view;
    s->opened_ms = clock_ms();
    add_stored(s);
    if (!opts->quiet && terminal_usable(TERMINAL_BLOCK))
        s->terminal = terminal_open(view->loop, TERMINAL_BLOCK, &terminal_events, s);
    if (scheduler_is_paused(view->sched))
        print_paused(s, true);
    return s;
}

void progress_display_stop(struct progress_display *s)
{
    if (s->command && s->submitted)
        command_mailbox_abandon(s->opts.dir, json_string_value(json_object_get(s->command, "ask")));
    json_decref(TAKE(s->command));
    terminal_stop(s->terminal);
}

void progress_display_close(struct progress_display *s)
{
    if (!s)
        return;
    terminal_free(s->terminal);
    free(s->leased.at);
    free(s->ended.at);
    free(s->curve);
    free(s);
}
