#include "launcher/doctor/checks/file_system.h"

#include <linux/magic.h>
#include <string.h>
#include <sys/statfs.h>

#include "common/mem.h"

const char *file_system_network(const char *dir)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } types[] = {{NFS_SUPER_MAGIC, "NFS"},   {SMB_SUPER_MAGIC, "SMB"},   {0xff534d42, "CIFS"},
                 {0xfe534d42, "SMB"},        {CEPH_SUPER_MAGIC, "Ceph"}, {V9FS_MAGIC, "9P"},
                 {FUSE_SUPER_MAGIC, "FUSE"}, {AFS_SUPER_MAGIC, "AFS"},   {0x0bd00bd0, "Lustre"},
                 {0x47504653, "GPFS"},       {0x19830326, "BeeGFS"}};
    struct statfs fs;
    if (statfs(dir, &fs) < 0)
        return NULL;
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (((unsigned long)fs.f_type & 0xffffffff) == types[i].magic)
            return types[i].name;
    return NULL;
}

bool file_system_may_hang(const char *type)
{
    static const char *const types[] = {"nfs",  "nfs4", "cifs", "smb3",   "ceph",  "lustre",
                                        "gpfs", "9p",   "afs",  "beegfs", "pvfs2", "panfs"};
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return strcmp(type, "fuse") == 0 || strncmp(type, "fuse.", 5) == 0;
}
