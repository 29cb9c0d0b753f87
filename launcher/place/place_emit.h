/* place_emit - the command line or manifest that starts a placed job by another program. Pure. */
#pragma once

#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/place/place_gpu.h"
#include "launcher/place/place_job.h"
#include "launcher/place/place_select.h"

/* Returns true if the program selects GPUs itself and waits for them. */
bool place_emit_queues(const char *program);

struct place_emit_job {
    const struct place_job *job;
    const struct place_gpu *gpus;
    const struct place_choice *choice;
    char *const *argv;
};

/* Appends what `program` needs to run the job on the selected GPUs: a command line, or the manifest
 * of a Job for k8s.
 *   -EINVAL  unknown program, no command, or no container image */
int place_emit(struct strbuf *out, const char *program, const struct place_emit_job *m,
               struct err *e);
