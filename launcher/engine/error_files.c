#include "launcher/engine/error_files.h"

#include <stdio.h>

#include "common/log.h"
#include "common/strbuf.h"
#include "launcher/node/session_dir.h"

enum { TEXT_MAX = 1 << 20 };

struct error_files {
    struct session_dir *dir;
};

struct error_files *error_files_open(void)
{
    struct err e = {0};
    AUTO(free) struct error_files *f = xzalloc(sizeof *f);
    if (session_dir_open(&f->dir, &e) == 0)
        return TAKE(f);
    log_info("no TORCHELASTIC_ERROR_FILE: %s", e.text);
    return NULL;
}

char *error_files_path(const struct error_files *f, uint32_t number, int rank)
{
    return xasprintf("%s/%u-%d.json", session_dir_path(f->dir), number, rank);
}

char *error_files_take(const struct error_files *f, uint32_t number, int rank)
{
    AUTO(free) char *path = error_files_path(f, number, rank);
    AUTO(file) FILE *in = fopen(path, "re");
    AUTO(strbuf) struct strbuf text = {0};
    char block[4096];
    size_t n;
    if (!in)
        return NULL;
    while (text.len < TEXT_MAX && (n = fread(block, 1, sizeof block, in)) > 0)
        strbuf_add(&text, block, n);
    (void)unlink(path);
    return strbuf_take(&text);
}

void error_files_close(struct error_files *f)
{
    if (!f)
        return;
    session_dir_close(f->dir);
    free(f);
}
