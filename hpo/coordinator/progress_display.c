#include "hpo/coordinator/progress_display.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/trial/metric_guess.h"
#include "hpo/trial/trial.h"

enum { PAINT_MS = 100, ROWS_MAX = 24, OUTPUT_READ = 64 << 10 };

struct progress_display {
    const char *name, *dir;
    const struct spec *spec;
    bool quiet, terminal;
    bool metric_help; /* was shown */
    int *leased;      /* trials that workers have, in the order of their leases */
    size_t leased_count, leased_cap;
    bool paused; /* as printed last */
    int lines;   /* of the block on the terminal */
    int64_t opened_ms, painted_ms;
};

static void add(struct progress_display *s, int trial)
{
    if (s->leased_count == s->leased_cap) {
        s->leased_cap = s->leased_cap ? s->leased_cap * 2 : 16;
        s->leased = xrealloc(s->leased, s->leased_cap, sizeof *s->leased);
    }
    s->leased[s->leased_count++] = trial;
}

static void drop(struct progress_display *s, int trial)
{
    for (size_t i = 0; i < s->leased_count; i++) {
        if (s->leased[i] != trial)
            continue;
        memmove(&s->leased[i], &s->leased[i + 1], (--s->leased_count - i) * sizeof *s->leased);
        return;
    }
}

static bool is_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* Moves the cursor to the first line of the block, and clears from there. */
static void wipe(struct progress_display *s)
{
    if (s->lines > 0)
        fprintf(stderr, "\033[%dA\033[J", s->lines);
    s->lines = 0;
}

void progress_display_print(struct progress_display *s, const char *text)
{
    wipe(s);
    fprintf(stderr, "%s\n", text);
}

static void print_paused(struct progress_display *s, bool paused)
{
    AUTO(free)
    char *text = xasprintf("drover sweep: paused; to continue: drover sweep resume %s", s->name);
    s->paused = paused;
    if (!s->quiet)
        progress_display_print(s, paused ? text : "drover sweep: resumed");
}

struct progress_display *progress_display_open(const char *name, const char *dir,
                                               const struct spec *spec,
                                               const struct scheduler *sched, bool quiet)
{
    struct progress_display *s = xzalloc(sizeof *s);
    s->name = name;
    s->dir = dir;
    s->spec = spec;
    s->quiet = quiet;
    s->terminal = !quiet && is_terminal();
    s->opened_ms = clock_ms();
    for (int i = 0; i < scheduler_trial_count(sched); i++) {
        AUTO(json) json_t *t = scheduler_trial_json(sched, i);
        const char *state = json_string_value(json_object_get(t, "state"));
        int known = state ? trial_state_parse(state) : -1;
        if (known >= 0 && trial_is_active((enum trial_state)known))
            add(s, i);
    }
    if (scheduler_is_paused(sched))
        print_paused(s, true);
    return s;
}

void progress_display_close(struct progress_display *s)
{
    if (!s)
        return;
    wipe(s);
    free(s->leased);
    free(s);
}

/* Shows once how a trial can report the metric: after the first one that ended well without it.
 * What its output has is shown if this machine sees the file. */
static void help_with_metric(struct progress_display *s, const json_t *trial)
{
    const char *metric = s->spec->metrics[0].name;
    const char *state = json_string_value(json_object_get(trial, "state"));
    if (s->metric_help || !metric || trial_state_parse(state) != TRIAL_INVALID ||
        json_object_get(json_object_get(trial, "metrics"), metric))
        return;
    s->metric_help = true;
    AUTO(strbuf) struct strbuf path = {0};
    progress_text_output(&path, trial, s->dir);
    strbuf_puts(&path, "/stdout");
    static char output[OUTPUT_READ];
    AUTO(fd) int fd = open(strbuf_str(&path), O_RDONLY | O_CLOEXEC);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    off_t from = size > OUTPUT_READ ? size - OUTPUT_READ : 0;
    ssize_t n = fd < 0 ? 0 : pread(fd, output, sizeof output, from);
    AUTO(free) char *line = NULL, *pattern = NULL;
    (void)metric_guess(&line, &pattern, output, n > 0 ? (size_t)n : 0, metric);
    AUTO(strbuf) struct strbuf b = {0};
    progress_text_metric_help(&b, metric, line, pattern);
    wipe(s);
    fputs(strbuf_str(&b), stderr);
}

void progress_display_stored(struct progress_display *s, const struct scheduler *sched,
                             enum scheduler_record_kind kind, int trial)
{
    if (s->paused != scheduler_is_paused(sched))
        print_paused(s, !s->paused);
    if (kind == SCHEDULER_REC_LEASED)
        add(s, trial);
    else if (kind == SCHEDULER_REC_REQUEUED || kind == SCHEDULER_REC_ENDED ||
             kind == SCHEDULER_REC_PAUSED)
        drop(s, trial);
    if (kind != SCHEDULER_REC_ENDED || s->quiet)
        return;
    AUTO(json) json_t *t = scheduler_trial_json(sched, trial);
    help_with_metric(s, t);
    const char *state = json_string_value(json_object_get(t, "state"));
    bool failed = state && !trial_has_signal((enum trial_state)trial_state_parse(state)) &&
                  json_object_get(t, "error");
    if (s->terminal && !failed)
        return;
    AUTO(strbuf) struct strbuf b = {0};
    progress_text_ended(&b, t, s->spec->metrics[0].name, scheduler_best(sched) == trial);
    if (failed) {
        strbuf_puts(&b, "  output: ");
        progress_text_output(&b, t, s->dir);
        strbuf_putc(&b, '\n');
    }
    wipe(s);
    fputs(strbuf_str(&b), stderr);
}

void progress_display_paint(struct progress_display *s, const struct scheduler *sched)
{
    int64_t now = clock_ms();
    if (!s->terminal || now - s->painted_ms < PAINT_MS)
        return;
    struct winsize size = {0};
    int columns = 80, rows = ROWS_MAX;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && size.ws_row > 1) {
        columns = size.ws_col - 1; /* a full line would wrap */
        rows = size.ws_row - 1 < ROWS_MAX ? size.ws_row - 1 : ROWS_MAX;
    }
    int best = scheduler_best(sched);
    AUTO(json) json_t *best_trial = best >= 0 ? scheduler_trial_json(sched, best) : NULL;
    AUTO(json) json_t *running = json_array();
    for (size_t i = 0; i < s->leased_count; i++) /* trials that do not fit are only counted */
        json_array_append_new(running, i < (size_t)rows ? scheduler_trial_json(sched, s->leased[i])
                                                        : json_object());
    const struct progress_text p = {.name = s->name,
                                    .metric = s->spec->metrics[0].name,
                                    .counts = scheduler_counts(sched),
                                    .best = best_trial,
                                    .running = running,
                                    .seconds = (double)(now - s->opened_ms) / 1000};
    AUTO(strbuf) struct strbuf b = {0};
    progress_text_block(&b, &p, columns, rows);
    wipe(s);
    fputs(strbuf_str(&b), stderr);
    for (const char *c = strbuf_str(&b); *c; c++)
        s->lines += *c == '\n';
    s->painted_ms = now;
}
