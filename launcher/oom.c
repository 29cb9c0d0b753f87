#include "launcher/oom.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"

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

long oom_kills(const char *root)
{
    AUTO(free) char *own = xasprintf("%s/proc/self/cgroup", root);
    AUTO(file) FILE *f = fopen(own, "re");
    char line[1024];
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        AUTO(free) char *file = NULL;
        if (controllers[1] == '\0') /* version 2 */
            file = xasprintf("%s/sys/fs/cgroup%s/memory.events", root, path);
        else if (strcmp(controllers + 1, "memory") == 0)
            file = xasprintf("%s/sys/fs/cgroup/memory%s/memory.oom_control", root, path);
        long count = file ? read_count(file) : -1;
        if (count >= 0)
            return count;
    }
    return -1;
}
