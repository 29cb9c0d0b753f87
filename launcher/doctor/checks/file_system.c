#include "launcher/doctor/checks/file_system.h"

#include <string.h>

#include "common/mem.h"

bool file_system_may_hang(const char *type)
{
    static const char *const types[] = {"nfs", "nfs4", "cifs",   "smb3",  "ceph",  "lustre", "gpfs",
                                        "9p",  "afs",  "beegfs", "pvfs2", "panfs", "fuse",   NULL};
    return strv_has(types, type) || strncmp(type, "fuse.", 5) == 0;
}
