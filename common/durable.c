#include "common/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <unistd.h>

#include "common/mem.h"

int durable_sync_dir_of(const char *path)
{
    AUTO(free) char *copy = xstrdup(path);
    AUTO(fd) int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* EINVAL: a file system that cannot sync directories */
    return fd < 0 || (fsync(fd) < 0 && errno != EINVAL) ? -errno : 0;
}

int durable_rename(const char *tmp, const char *path)
{
    return rename(tmp, path) < 0 ? -errno : durable_sync_dir_of(path);
}
