/* sweep_status - the state of a sweep as all commands show it, and the reason for it. */
#pragma once

#include <stdbool.h>

#include "common/strbuf.h"

struct sweep_status_facts {
    bool coordinated;         /* a coordinator runs */
    bool paused, stopped;     /* by commands of the user */
    bool done;                /* nothing is left to do */
    const char *ended, *left; /* SWEEP_DIR_META_ENDED and _LEFT; NULL: not stored */
};

struct sweep_status {
    const char *state;  /* "running", "paused" (by the user), "finished", or "stopped" (by the user,
                         * or because no coordinator is running) */
    const char *reason; /* of "finished" and "stopped"; NULL: none is known. Borrowed */
};

struct sweep_status sweep_status_of(const struct sweep_status_facts *f);

/* Appends "finished: every point of the space is tried", or "running". */
void sweep_status_text(struct strbuf *out, const struct sweep_status *s);
