#include "launcher/node/oom.h"

#include <stdio.h>

#include "common/mem.h"
#include "launcher/node/cgroup.h"

/* The number after "oom_kill " in a file of "name number" lines; -1: it has none. */
static long read_count(const char *path)
{
    AUTO(file) FILE *f = fopen(path, "re");
    char line[128];
    long count;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "oom_kill %ld", &count) == 1)
            return count;
    return -1;
}

long oom_kills_in(const char *dir)
{
    static const char *const names[] = {"memory.events", "memory.oom_control"}; /* versions 2, 1 */
    long count = -1;
    for (size_t i = 0; count < 0 && i < COUNT_OF(names); i++) {
        AUTO(free) char *file = xasprintf("%s/%s", dir, names[i]);
        count = read_count(file);
    }
    return count;
}

long oom_kills(const char *root)
{
    AUTO(free) char *dir = cgroup_dir(root, "memory");
    return dir ? oom_kills_in(dir) : -1;
}
