/* exchange_python - runs drover_exchange.py, which reads and writes the formats of other tools with
 * these tools' own libraries. */
#pragma once

#include <stdio.h>

#include "common/err.h"
#include "common/strbuf.h"

struct exchange_python {
    const char *way, *format, *place; /* "import" or "export"; the file or directory */
    const char *more;                 /* the last argument; NULL: none */
    /* Writes stdin: returns 0 or a negative errno. NULL: stdin is empty. */
    int (*write)(FILE *to, const void *arg);
    const void *arg;
};

/* Runs `$DROVER_PYTHON`, or python3, with the module, and appends its stdout to *answer.
 *   -ENOENT  there is no Python
 *   -EINVAL  its input is wrong, or a library is missing; the message says which
 *   -ECHILD  the module failed; its stderr says why
 *   -EFBIG   its answer is longer than 1 GiB
 *   -errno   the module cannot be started, or cannot read or write a file */
int exchange_python_run(struct strbuf *answer, const struct exchange_python *x, struct err *e);
