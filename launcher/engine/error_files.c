#include "launcher/engine/error_files.h"

#include <stdio.h>

#include "common/log.h"
#include "common/strbuf.h"
#include "launcher/node/session_dir.h"

enum { TEXT_MAX = 1 << 20 };

char *error_files_start(void)
{
    struct err e = {0};
    char *start = NULL;
    if (session_dir_beside(&start, SESSION_DIR_ERROR, &e) < 0)
        log_info("no TORCHELASTIC_ERROR_FILE: %s", e.text);
    return start;
}

char *error_files_path(const char *start, uint32_t number, int rank)
{
    return xasprintf("%s-%u-%d.json", start, number, rank);
}

char *error_files_take(const char *start, uint32_t number, int rank)
{
    AUTO(free) char *path = error_files_path(start, number, rank);
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
