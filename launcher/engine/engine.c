#include "launcher/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

void engine_free(struct engine_job *j)
{
    if (j)
        j->ops->free(j);
}

static int make_dirs(char *path, struct err *e)
{
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return err_set(e, -errno, "directory '%s': %s", path, strerror(errno));
        *p = was;
        if (!was)
            return 0;
    }
}

int engine_open_file(int *fd, const char *dir, int rank, const char *stream, struct err *e)
{
    if (!dir)
        return 0;
    AUTO(free) char *path = xasprintf("%s/rank.%d", dir, rank);
    if (make_dirs(path, e) < 0)
        return err_wrap(e, "output files");
    AUTO(free) char *file = xasprintf("%s/%s", path, stream);
    *fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return *fd < 0 ? err_set(e, -errno, "output file '%s': %s", file, strerror(errno)) : 0;
}
