#include "launcher/watch/section_watch.h"

#include <string.h>

#include "common/utf8.h"

enum { PAUSE_MS = 10 * SECTION_WATCH_INTERVAL_MS };

struct section {
    char *name;
    int64_t begun_ms;
};

struct rank {
    enum section_watch_state state;
    struct section *open;
    int count;
    int64_t outside_ms; /* since when it is OUTSIDE */
    int64_t beat_ms;    /* its last heartbeat, or its start */
    bool beats;         /* it has sent a heartbeat */
    bool used_sections; /* it has begun a section */
    struct section_limits limits;
};

struct section_watch {
    struct rank *ranks;
    int count;
    int64_t checked_ms;            /* 0: never */
    struct section_limits longest; /* times of all ranks */
};

#define ROW(...) STATES_ROW(SECTION_WATCH, __VA_ARGS__)
static const struct states_row rows[] = {
    ROW(UNWATCHED, START, OUTSIDE),
    ROW(UNWATCHED, CONNECT, OUTSIDE),
    ROW(UNWATCHED, BEGIN, INSIDE),
    ROW(UNWATCHED, HEARTBEAT, OUTSIDE),
    ROW(UNWATCHED, EXIT, ENDED),
    ROW(OUTSIDE, CONNECT, OUTSIDE),
    ROW(OUTSIDE, BEGIN, INSIDE),
    ROW(OUTSIDE, HEARTBEAT, OUTSIDE),
    ROW(OUTSIDE, DISCONNECT, UNWATCHED),
    ROW(OUTSIDE, EXIT, ENDED),
    ROW(INSIDE, CONNECT, OUTSIDE),
    ROW(INSIDE, BEGIN, INSIDE),
    ROW(INSIDE, END, INSIDE),
    ROW(INSIDE, END_LAST, OUTSIDE),
    ROW(INSIDE, HEARTBEAT, INSIDE),
    ROW(INSIDE, DISCONNECT, UNWATCHED),
    ROW(INSIDE, EXIT, ENDED),
};

const struct states section_watch_states = STATES_TABLE(rows);

struct section_watch *section_watch_new(int ranks, const struct section_limits *limits)
{
    struct section_watch *w = xzalloc(sizeof *w);
    w->ranks = xcalloc((size_t)ranks, sizeof *w->ranks);
    w->count = ranks;
    for (int i = 0; i < ranks; i++)
        section_limits_copy(&w->ranks[i].limits, limits);
    return w;
}

static void drop_sections(struct rank *r)
{
    for (int i = 0; i < r->count; i++)
        free(r->open[i].name);
    r->count = 0;
}

void section_watch_free(struct section_watch *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->count; i++) {
        drop_sections(&w->ranks[i]);
        free(w->ranks[i].open);
        section_limits_free(&w->ranks[i].limits);
    }
    free(w->ranks);
    section_limits_free(&w->longest);
    free(w);
}

struct section_limits *section_watch_limits(struct section_watch *w, int rank)
{
    return &w->ranks[rank].limits;
}

/* Returns the kind of the time since the last heartbeat. */
static enum section_limits_kind beat_kind(const struct rank *r)
{
    return r->beats ? SECTION_LIMITS_HEARTBEAT : SECTION_LIMITS_FIRST_HEARTBEAT;
}

static void raise_ms(int64_t *longest, int64_t ms)
{
    *longest = ms > *longest ? ms : *longest;
}

/* Records the times that the event ends. A rank that uses no sections was not out of one, and what
 * precedes a new connection of a client counts as little as what it replaces. */
static void measure(struct section_limits *longest, struct rank *r, enum section_watch_event ev,
                    int64_t now_ms)
{
    bool ends = ev == SECTION_WATCH_EV_EXIT || ev == SECTION_WATCH_EV_DISCONNECT;
    r->used_sections |= ev == SECTION_WATCH_EV_BEGIN;
    if (r->state != SECTION_WATCH_INSIDE && r->state != SECTION_WATCH_OUTSIDE)
        return;
    if (r->state == SECTION_WATCH_OUTSIDE && r->used_sections &&
        (ends || ev == SECTION_WATCH_EV_BEGIN))
        raise_ms(&longest->other_ms[SECTION_LIMITS_OUTSIDE], now_ms - r->outside_ms);
    if (ev == SECTION_WATCH_EV_HEARTBEAT || (ends && r->beats))
        raise_ms(&longest->other_ms[beat_kind(r)], now_ms - r->beat_ms);
}

const struct section_limits *section_watch_longest(const struct section_watch *w)
{
    return &w->longest;
}

/* Returns true if the event has a meaning. */
static bool apply(struct section_watch *w, struct rank *r, enum section_watch_event ev,
                  int64_t now_ms)
{
    int next = states_next(&section_watch_states, r->state, ev);
    if (next < 0)
        return false;
    measure(&w->longest, r, ev, now_ms);
    if (ev == SECTION_WATCH_EV_CONNECT || r->state == SECTION_WATCH_UNWATCHED) {
        r->beats = false;
        r->beat_ms = now_ms;
    }
    if (next != SECTION_WATCH_INSIDE && ev != SECTION_WATCH_EV_HEARTBEAT)
        drop_sections(r);
    if (next == SECTION_WATCH_OUTSIDE &&
        (r->state != SECTION_WATCH_OUTSIDE || ev == SECTION_WATCH_EV_CONNECT))
        r->outside_ms = now_ms;
    if (ev == SECTION_WATCH_EV_HEARTBEAT) {
        r->beats = true;
        r->beat_ms = now_ms;
    }
    r->state = (enum section_watch_state)next;
    return true;
}

void section_watch_apply(struct section_watch *w, int rank, enum section_watch_event ev,
                         int64_t now_ms)
{
    apply(w, &w->ranks[rank], ev, now_ms);
}

static struct section *find(const struct rank *r, const char *name)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->open[i].name, name) == 0)
            return &r->open[i];
    return NULL;
}

void section_watch_begin(struct section_watch *w, int rank, const char *section, int64_t now_ms)
{
    struct rank *r = &w->ranks[rank];
    if (!apply(w, r, SECTION_WATCH_EV_BEGIN, now_ms))
        return;
    struct section *s = find(r, section);
    if (!s) {
        r->open = xrealloc(r->open, (size_t)r->count + 1, sizeof *r->open);
        s = &r->open[r->count++];
        s->name = xstrdup(section);
    }
    s->begun_ms = now_ms;
}

void section_watch_end(struct section_watch *w, int rank, const char *section, int64_t now_ms)
{
    struct rank *r = &w->ranks[rank];
    struct section *s = section ? find(r, section) : NULL;
    if (section && !s)
        return;
    for (int i = 0; i < r->count; i++) {
        int64_t ms = now_ms - r->open[i].begun_ms;
        if ((!section || s == &r->open[i]) && ms > section_limits_of(&w->longest, r->open[i].name))
            section_limits_set(&w->longest, r->open[i].name, ms);
    }
    if (!section || r->count == 1) {
        apply(w, r, SECTION_WATCH_EV_END_LAST, now_ms);
        return;
    }
    free(s->name);
    *s = r->open[--r->count];
    apply(w, r, SECTION_WATCH_EV_END, now_ms);
}

/* ---- limits --------------------------------------------------------------------------------- */

/* Leaves in `*worst` the overrun whose limit ended first, at `*first_ms`. `since_ms` is when the
 * time of `o` began. */
static void add(struct section_overrun *worst, int64_t *first_ms, struct section_overrun o,
                int64_t since_ms, int64_t now_ms)
{
    o.ms = now_ms - since_ms;
    if (o.limit_ms == 0 || o.ms < o.limit_ms || since_ms + o.limit_ms >= *first_ms)
        return;
    *first_ms = since_ms + o.limit_ms;
    *worst = o;
}

/* Returns true if the rank has exceeded a limit. `*out` then describes the first overrun. */
static bool check_rank(const struct rank *r, int rank, struct section_overrun *out, int64_t now_ms)
{
    int64_t first_ms = INT64_MAX;
    struct section_overrun o = {.rank = rank, .kind = beat_kind(r)};
    if (r->state != SECTION_WATCH_INSIDE && r->state != SECTION_WATCH_OUTSIDE)
        return false;
    o.limit_ms = r->limits.other_ms[o.kind];
    add(out, &first_ms, o, r->beat_ms, now_ms);
    o.kind = SECTION_LIMITS_OUTSIDE;
    o.limit_ms = r->limits.other_ms[o.kind];
    if (r->state == SECTION_WATCH_OUTSIDE)
        add(out, &first_ms, o, r->outside_ms, now_ms);
    o.kind = SECTION_LIMITS_SECTION;
    for (int i = 0; i < r->count; i++) {
        o.section = r->open[i].name;
        o.limit_ms = section_limits_of(&r->limits, o.section);
        add(out, &first_ms, o, r->open[i].begun_ms, now_ms);
    }
    return first_ms < INT64_MAX;
}

/* Moves all times by a pause in which no rank could send anything. */
static void skip_pause(struct section_watch *w, int64_t ms)
{
    for (int i = 0; i < w->count; i++) {
        struct rank *r = &w->ranks[i];
        r->outside_ms += ms;
        r->beat_ms += ms;
        for (int k = 0; k < r->count; k++)
            r->open[k].begun_ms += ms;
    }
}

bool section_watch_check(struct section_watch *w, struct section_overrun *out, bool *ranks,
                         int64_t now_ms)
{
    bool found = false;
    struct section_overrun o = {0};
    if (w->checked_ms && now_ms - w->checked_ms > PAUSE_MS)
        skip_pause(w, now_ms - w->checked_ms);
    w->checked_ms = now_ms;
    for (int i = 0; i < w->count; i++)
        if (check_rank(&w->ranks[i], i, &o, now_ms) &&
            (!found || o.ms - o.limit_ms > out->ms - out->limit_ms)) {
            found = true;
            *out = o;
        }
    for (int i = 0; i < w->count; i++)
        ranks[i] = found && check_rank(&w->ranks[i], i, &o, now_ms) && o.kind == out->kind &&
                   (!o.section || strcmp(o.section, out->section) == 0);
    return found;
}

/* ---- texts ---------------------------------------------------------------------------------- */

const char *section_watch_overrun_name(enum section_limits_kind kind)
{
    static const char *const names[] = {
        [SECTION_LIMITS_SECTION] = "section",
        [SECTION_LIMITS_OUTSIDE] = "out of section",
        [SECTION_LIMITS_HEARTBEAT] = "heartbeat",
        [SECTION_LIMITS_FIRST_HEARTBEAT] = "first heartbeat",
    };
    return names[kind];
}

void section_watch_overrun_write(struct strbuf *b, const struct section_overrun *o, bool many)
{
    const char *has = many ? "have" : "has";
    double s = (double)o->ms / 1000, limit_s = (double)o->limit_ms / 1000;
    if (o->kind == SECTION_LIMITS_SECTION) {
        strbuf_printf(b, "%s been in section '", has);
        utf8_add_line(b, o->section);
        strbuf_putc(b, '\'');
    } else if (o->kind == SECTION_LIMITS_OUTSIDE) {
        strbuf_printf(b, "%s been in no section", has);
    } else {
        strbuf_printf(b, "%s sent no %s", has, section_watch_overrun_name(o->kind));
    }
    strbuf_printf(b, " for %.1f s, longer than %g s", s, limit_s);
}
