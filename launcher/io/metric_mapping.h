/* metric_mapping - reads the metrics of a line that is a mapping.
 *
 *     {"step": 3, "loss": 0.41}                    JSON
 *     {'eval_loss': 0.41, 'acc': np.float64(0.5)}  as Python prints it
 *     {"val": {"loss": 0.41}, "2": 0.5}            nested: val.loss, as wandb.log() of this mapping
 *
 * A number may be the first argument of a call with only keyword arguments after it:
 * tensor(0.5, device='cuda:0'). Any other value is skipped, whatever it is. Reading a line takes
 * time in proportion to its length. */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* Returns the numbers of the mapping as a report (new reference), or NULL if the line is not a
 * mapping or has none. NaN and infinities count as numbers, and so do the strings of json_number().
 * At most 1024 names of at most 1023 bytes, 16 mappings deep, from lines of at most 64 KiB. */
json_t *metric_mapping_read(const char *text, size_t len);
