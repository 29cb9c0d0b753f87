/* section_watch - watches the sections and heartbeats of ranks: decides which ranks have exceeded a
 * time limit.
 *
 * A rank is OUTSIDE if it is in no section, and INSIDE if it is in one or more. A rank that is
 * UNWATCHED has no limits: it has not started, or its RankMonitorClient has disconnected. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "common/states.h"
#include "common/strbuf.h"
#include "launcher/watch/section_limits.h"

enum section_watch_state {
    SECTION_WATCH_UNWATCHED,
    SECTION_WATCH_OUTSIDE,
    SECTION_WATCH_INSIDE,
    SECTION_WATCH_ENDED,
    SECTION_WATCH_STATES
};

enum section_watch_event {
    SECTION_WATCH_EV_START,    /* the rank has started; its first packets may come before this */
    SECTION_WATCH_EV_CONNECT,  /* its client has connected, perhaps again */
    SECTION_WATCH_EV_BEGIN,    /* a section begins */
    SECTION_WATCH_EV_END,      /* a section ends, and others are open */
    SECTION_WATCH_EV_END_LAST, /* the last open section ends */
    SECTION_WATCH_EV_HEARTBEAT,
    SECTION_WATCH_EV_DISCONNECT, /* the rank's client has disconnected */
    SECTION_WATCH_EV_EXIT,
    SECTION_WATCH_EVENTS
};

extern const struct states section_watch_states;

struct section_watch;

/* All ranks are UNWATCHED. Copies the limits. */
struct section_watch *section_watch_new(int ranks, const struct section_limits *limits);
void section_watch_free(struct section_watch *w);
AUTO_DEFINE(section_watch, struct section_watch *, section_watch_free)

/* Records an event of a rank, but not the beginning or the end of a section. */
void section_watch_apply(struct section_watch *w, int rank, enum section_watch_event ev,
                         int64_t now_ms);
/* Records that a section begins. If the rank is in this section already, it begins again. */
void section_watch_begin(struct section_watch *w, int rank, const char *section, int64_t now_ms);
/* Records that a section ends, or all open sections if `section` is NULL. */
void section_watch_end(struct section_watch *w, int rank, const char *section, int64_t now_ms);
/* Returns a rank's own limits, which can be changed. They are a copy of those of
 * section_watch_new() at first. */
struct section_limits *section_watch_limits(struct section_watch *w, int rank);

/* Returns the longest times of all ranks so far: in each section, in no section between sections or
 * before the first one, and between heartbeats. What lasts still does not count. Borrowed. */
const struct section_limits *section_watch_longest(const struct section_watch *w);

struct section_overrun {
    enum section_limits_kind kind;
    int rank;            /* the rank that exceeded its limit first */
    const char *section; /* of SECTION_LIMITS_SECTION; borrowed */
    int64_t ms, limit_ms;
};

/* Intervals between calls of section_watch_check(). If a call comes much later, the machine or
 * drover was suspended, and this pause does not count. */
enum { SECTION_WATCH_INTERVAL_MS = 200 };

/* Returns true if a rank has exceeded a limit. `*out` then describes the first one, and the entries
 * of `ranks` are true for all ranks that have exceeded a limit of this kind, in this section. */
bool section_watch_check(struct section_watch *w, struct section_overrun *out, bool *ranks,
                         int64_t now_ms);

/* Returns the name of the kind for events: "section", "out of section", "heartbeat", "first
 * heartbeat". */
const char *section_watch_overrun_name(enum section_limits_kind kind);
/* Appends what happened, to follow the names of the ranks: "has been in section 'step' for 181 s,
 * longer than 180 s". `many`: several ranks have. */
void section_watch_overrun_write(struct strbuf *b, const struct section_overrun *o, bool many);
