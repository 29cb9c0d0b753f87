#include "hpo/coordinator/progress_display.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/trial/trial.h"

enum { PAINT_MS = 100, ROWS_MAX = 24 };

struct screen {
    const char *name;
    const struct spec *spec;
    bool quiet, terminal;
    int *out; /* trials that workers hold, in the order in which they got them */
    size_t out_count, out_cap;
    bool paused; /* as it was said */
    int lines;   /* of the block that is there now */
    int64_t opened_ms, painted_ms;
};

static void add(struct screen *s, int trial)
{
    if (s->out_count == s->out_cap) {
        s->out_cap = s->out_cap ? s->out_cap * 2 : 16;
        s->out = xrealloc(s->out, s->out_cap, sizeof *s->out);
    }
    s->out[s->out_count++] = trial;
}

static void drop(struct screen *s, int trial)
{
    for (size_t i = 0; i < s->out_count; i++) {
        if (s->out[i] != trial)
            continue;
        memmove(&s->out[i], &s->out[i + 1], (--s->out_count - i) * sizeof *s->out);
        return;
    }
}

static bool is_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* The cursor back to where the block begins, nothing below it. */
static void wipe(struct screen *s)
{
    if (s->lines > 0)
        fprintf(stderr, "\033[%dA\033[J", s->lines);
    s->lines = 0;
}

void screen_say(struct screen *s, const char *text)
{
    wipe(s);
    fprintf(stderr, "%s\n", text);
}

static void say_paused(struct screen *s, bool paused)
{
    AUTO(free)
    char *text = xasprintf("drover sweep: paused, until: drover sweep resume %s", s->name);
    s->paused = paused;
    if (!s->quiet)
        screen_say(s, paused ? text : "drover sweep: goes on");
}

struct screen *screen_open(const char *name, const struct spec *spec, const struct sched *sched,
                           bool quiet)
{
    struct screen *s = xzalloc(sizeof *s);
    s->name = name;
    s->spec = spec;
    s->quiet = quiet;
    s->terminal = !quiet && is_terminal();
    s->opened_ms = clock_ms();
    for (int i = 0; i < sched_trial_count(sched); i++) {
        AUTO(json) json_t *t = sched_trial_json(sched, i);
        const char *state = json_string_value(json_object_get(t, "state"));
        int known = state ? trial_state_parse(state) : -1;
        if (known >= 0 && trial_out((enum trial_state)known))
            add(s, i);
    }
    if (sched_paused(sched))
        say_paused(s, true);
    return s;
}

void screen_close(struct screen *s)
{
    if (!s)
        return;
    wipe(s);
    free(s->out);
    free(s);
}

void screen_stored(struct screen *s, const struct sched *sched, enum sched_record_kind kind,
                   int trial)
{
    if (s->paused != sched_paused(sched))
        say_paused(s, !s->paused);
    if (kind == SCHED_REC_LEASED)
        add(s, trial);
    else if (kind == SCHED_REC_REQUEUED || kind == SCHED_REC_ENDED || kind == SCHED_REC_PAUSED)
        drop(s, trial);
    if (kind != SCHED_REC_ENDED || s->quiet || s->terminal)
        return;
    AUTO(json) json_t *t = sched_trial_json(sched, trial);
    AUTO(strbuf) struct strbuf b = {0};
    progress_ended(&b, t, s->spec->metrics[0].name, sched_best(sched) == trial);
    fputs(strbuf_str(&b), stderr);
}

void screen_paint(struct screen *s, const struct sched *sched)
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
    int best = sched_best(sched);
    AUTO(json) json_t *best_trial = best >= 0 ? sched_trial_json(sched, best) : NULL;
    AUTO(json) json_t *running = json_array();
    for (size_t i = 0; i < s->out_count; i++) /* those that do not fit are only counted */
        json_array_append_new(running, i < (size_t)rows ? sched_trial_json(sched, s->out[i])
                                                        : json_object());
    const struct progress p = {.name = s->name,
                               .metric = s->spec->metrics[0].name,
                               .counts = sched_counts(sched),
                               .best = best_trial,
                               .running = running,
                               .seconds = (double)(now - s->opened_ms) / 1000};
    AUTO(strbuf) struct strbuf b = {0};
    progress_block(&b, &p, columns, rows);
    wipe(s);
    fputs(strbuf_str(&b), stderr);
    for (const char *c = strbuf_str(&b); *c; c++)
        s->lines += *c == '\n';
    s->painted_ms = now;
}
