/* estimate_print - an estimate as text and as JSON. */
#pragma once

#include <stdbool.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/estimate/estimate.h"

/* A GPU with which an estimate is compared. */
struct estimate_gpu {
    char name[128];        /* "GPU 0, NVIDIA H200"; "80 GiB" */
    uint64_t usable_bytes; /* what a job may use if it is alone */
    uint64_t free_bytes;   /* now, with other processes on it; as usable_bytes if unknown */
};

/* Appends the model, the options and the parts; with `explain` each formula, too. */
void estimate_print_text(struct strbuf *b, const struct estimate *s, bool explain);

/* Appends a line with the verdict. */
void estimate_print_gpu(struct strbuf *b, const struct estimate *s, const struct estimate_gpu *g);

/* Returns the object of --json: docs/drover-estimate.md. `advice` is a strv or NULL. Never NULL. */
json_t *estimate_print_json(const struct estimate *s, const struct estimate_gpu *gpus, size_t count,
                            char *const *advice);
