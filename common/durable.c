#include "common/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/statfs.h>
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

const char *durable_network(const char *path)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } types[] = {{NFS_SUPER_MAGIC, "NFS"},   {SMB_SUPER_MAGIC, "SMB"},   {0xff534d42, "CIFS"},
                 {0xfe534d42, "SMB"},        {CEPH_SUPER_MAGIC, "Ceph"}, {V9FS_MAGIC, "9P"},
                 {FUSE_SUPER_MAGIC, "FUSE"}, {AFS_SUPER_MAGIC, "AFS"},   {0x0bd00bd0, "Lustre"},
                 {0x47504653, "GPFS"},       {0x19830326, "BeeGFS"}};
    struct statfs fs;
    if (statfs(path, &fs) < 0)
        return NULL;
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (((unsigned long)fs.f_type & 0xffffffff) == types[i].magic)
            return types[i].name;
    return NULL;
}
