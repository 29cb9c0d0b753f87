/* error_files - one file per rank, in which the rank describes the exception that ends it
 * (TORCHELASTIC_ERROR_FILE; "Error Propagation" in PyTorch's manual of torch.distributed.elastic).
 */
#pragma once

#include <stdint.h>

/* Returns the beginning of the paths of all error files of this process, which the caller frees. On
 * failure, logs the error and returns NULL; the ranks then have no error files. */
char *error_files_start(void);

/* Returns the path for a rank of the job `number`. The caller frees it. */
char *error_files_path(const char *start, uint32_t number, int rank);

/* Reads and removes the rank's file. Returns the file's text, which the caller frees, or NULL if
 * the rank has not written the file. A text of more than 1 MiB is cut. */
char *error_files_take(const char *start, uint32_t number, int rank);
