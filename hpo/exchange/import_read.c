#include "hpo/exchange/import_read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/strbuf.h"

int import_read_file(char **out, size_t *len, const char *path, struct err *e)
{
    AUTO(file) FILE *f = fopen(path, "re");
    if (!f)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    AUTO(strbuf) struct strbuf b = {0};
    char chunk[1 << 16];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0 && b.len <= IMPORT_BYTES_MAX;)
        strbuf_add(&b, chunk, n);
    if (ferror(f))
        return err_set(e, -EIO, "%s: %s", path, strerror(errno));
    if (b.len > IMPORT_BYTES_MAX)
        return err_set(e, -EINVAL, "%s: larger than 1 GiB", path);
    if (memchr(strbuf_str(&b), 0, b.len))
        return err_set(e, -EINVAL, "%s: not a text file", path);
    *len = b.len;
    *out = xstrdup(strbuf_str(&b));
    return 0;
}
