#include "launcher/engine/error_files.h"

#include <errno.h>

#include "common/file.h"
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
    AUTO(strbuf) struct strbuf text = {0};
    int rc = file_read(&text, path, TEXT_MAX);
    if (rc < 0 && rc != -EFBIG)
        return NULL;
    (void)unlink(path);
    return strbuf_take(&text);
}
