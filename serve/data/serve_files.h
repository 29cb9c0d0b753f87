/* serve_files - the files of the page, which are read once. A path in a request is never opened. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

struct serve_file {
    char *name;
    const char *type; /* as Content-Type */
    char *bytes;
    size_t len;
};

struct serve_files;

/* Reads the files of share/drover/web.
 *   -ENOENT  the page or d3 is missing; the hint says what to install */
int serve_files_open(struct serve_files **out, struct err *e);
void serve_files_close(struct serve_files *f);
AUTO_DEFINE(serve_files, struct serve_files *, serve_files_close)

/* Returns the file with this name, or NULL. Borrowed. */
const struct serve_file *serve_files_find(const struct serve_files *f, const char *name);
