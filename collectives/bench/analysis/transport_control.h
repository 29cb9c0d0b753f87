/* transport_control - which transport of NCCL is at fault when a run fails or gives wrong elements.
 *
 * Control runs: smaller sizes first, which are then used if they fail, too; then without P2P
 * between GPUs (NCCL_P2P_DISABLE); then also without shared memory (NCCL_SHM_DISABLE). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/strbuf.h"

/* All zero: no control run yet. */
struct transport_control {
    int runs;
    bool ok[3];
};

/* A control run. */
struct transport_control_run {
    bool small;   /* with at most TRANSPORT_CONTROL_BYTES */
    int disabled; /* number of entries of transport_control_env that are set */
};
#define TRANSPORT_CONTROL_BYTES (UINT64_C(1) << 20)
extern const char *const transport_control_env[2]; /* "NCCL_P2P_DISABLE=1", … */

/* Returns true and sets *out if another control run is needed. */
bool transport_control_next(const struct transport_control *t, struct transport_control_run *out);
/* Adds the result of that run. */
void transport_control_add(struct transport_control *t, bool ok);
/* Appends the conclusion, one line. */
void transport_control_text(struct strbuf *out, const struct transport_control *t);
