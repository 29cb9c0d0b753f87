/* place_print - tables of GPUs for people and programs: the inventory, and a choice with its
 * reasons. Pure. */
#pragma once

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/place/place_job.h"
#include "launcher/place/place_select.h"

/* Appends one line per GPU: model, memory, FP16 TFLOP/s, NVLink, load and users. */
void place_print_inventory(struct strbuf *out, const struct place_gpu *gpus, int n);
/* Returns the same as JSON: [{"index", "uuid", "name", "memory_bytes", "used_bytes",
 * "tflops_fp16", "nvlinks", "busy_percent", "users", "labels"}, …]. What is unknown is null. The
 * caller owns it. */
json_t *place_print_inventory_json(const struct place_gpu *gpus, int n);

/* Appends one line per GPU: selected, or why not. Then what the job needs, and how the score is
 * made. */
void place_print_choice(struct strbuf *out, const struct place_job *j, const struct place_gpu *gpus,
                        int n, const struct place_choice *c);
/* Returns the same as JSON: {"v", "gpus": [{"index", "uuid", "name", "selected", "reason",
 * "best_score"}], "need": {"low_bytes", "high_bytes"}, "score", "terms": [{"name", "weight",
 * "points"}]}. The caller owns it. */
json_t *place_print_choice_json(const struct place_job *j, const struct place_gpu *gpus, int n,
                                const struct place_choice *c);
