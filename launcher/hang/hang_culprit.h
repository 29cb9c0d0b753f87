/* hang_culprit - why a job hangs: joins what is known of its ranks into one sentence, with the
 * culprits and the class of the hang. Pure.
 *
 * The rules are tried in the order of the strength of their evidence: what a rank waits for that no
 * other rank provides; then differences between ranks in collectives, in waits and on GPUs. If
 * nothing differs, no rank is a culprit, and the sentence says so. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/strbuf.h"
#include "launcher/engine/rank_status.h"
#include "launcher/hang/gpu_wait.h"
#include "launcher/hang/hang_lines.h"
#include "launcher/hang/ras_answer.h"

struct hang_rank {
    const char *node;
    const struct rank_status *status;
    bool ended;       /* exited with status 0 */
    bool idle;        /* hang_is_idle() */
    int64_t still_ms; /* hang_still_ms() */
    bool odd;         /* is missing from a collective, or makes another call than most ranks */
    bool gpu_spins;   /* hang_spins() */
    bool gpu_lost;    /* the driver no longer reaches its GPU */
    enum ras_state ras;
    struct hang_lines lines;
    char collective[64]; /* of its call stack (stack_text_collective()); "": none, or no stack */
    char place[96];      /* stack_text_place(); "" */
    bool has_stack;
};

struct hang_culprit {
    const char *class;      /* a word for programs: "missing", "input", … */
    bool *culprits;         /* by rank; the caller has allocated it, all false */
    struct strbuf sentence; /* without a full stop */
};

/* Judges a job that hangs. `first_rank` is the number of ranks[0] in the job. */
void hang_culprit_find(struct hang_culprit *out, const struct hang_rank *ranks, int count,
                       int first_rank);
