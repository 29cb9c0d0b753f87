#include "launcher/node/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"

/* Returns true if a list such as "cpu,cpuacct" contains the name. */
static bool list_has(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += len)
        if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

char *cgroup_dir(const char *root, const char *controller)
{
    AUTO(free) char *own = xasprintf("%s/proc/self/cgroup", root);
    AUTO(free) char *text = file_text(own), *dir = NULL;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *list = strchr(line, ':'); /* "4:cpu,cpuacct:/path", "0::/path" */
        char *path = list ? strchr(++list, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        if (list_has(list, controller))
            return xasprintf("%s/sys/fs/cgroup/%s%s", root, controller, path);
        if (list[0] == '\0' && !dir)
            dir = xasprintf("%s/sys/fs/cgroup%s", root, path);
    }
    return TAKE(dir);
}

/* Reads up to two numbers from the beginning of a cgroup's file. Returns how many it has read. */
static int read_numbers(const char *dir, const char *name, long long n[2])
{
    AUTO(free) char *path = xasprintf("%s/%s", dir, name);
    return file_scan(path, "%lld %lld", &n[0], &n[1]);
}

/* Returns the limit of this group alone; 0: no limit. */
static int64_t cpu_limit(const char *dir)
{
    long long n[2], period[2]; /* quota and period, in microseconds */
    if (read_numbers(dir, "cpu.max", n) != 2) {
        if (read_numbers(dir, "cpu.cfs_quota_us", n) != 1 ||
            read_numbers(dir, "cpu.cfs_period_us", period) != 1)
            return 0;
        n[1] = period[0];
    }
    if (n[0] <= 0 || n[1] <= 0) /* no limit: -1 in version 1, "max" in version 2 */
        return 0;
    long long cpus = n[0] / n[1] + (n[0] % n[1] > 0);
    return cpus > INT_MAX ? 0 : cpus;
}

static int64_t memory_limit(const char *dir)
{
    long long n[2];
    if (read_numbers(dir, "memory.max", n) < 1 && read_numbers(dir, "memory.limit_in_bytes", n) < 1)
        return 0;
    /* In version 1 the largest multiple of a page means no limit */
    return n[0] > 0 && n[0] < INT64_MAX >> 1 ? n[0] : 0;
}

static int64_t pids_limit(const char *dir)
{
    long long n[2];
    return read_numbers(dir, "pids.max", n) >= 1 && n[0] > 0 ? n[0] : 0;
}

char **cgroup_dirs(const char *root, const char *controller)
{
    AUTO(free) char *dir = cgroup_dir(root, controller);
    size_t base = strlen(root) + strlen("/sys/fs/cgroup");
    char **dirs = NULL;
    while (dir && strlen(dir) >= base) {
        strv_push(&dirs, xstrdup(dir));
        *strrchr(dir, '/') = '\0';
    }
    return dirs;
}

/* Returns the smallest limit of this process's group and of the groups above it; 0: no limit. */
static int64_t smallest_limit(const char *root, const char *controller,
                              int64_t (*limit)(const char *dir))
{
    AUTO(strv) char **dirs = cgroup_dirs(root, controller);
    int64_t smallest = 0;
    for (char **d = dirs; d && *d; d++) {
        int64_t n = limit(*d);
        if (n && (!smallest || n < smallest))
            smallest = n;
    }
    return smallest;
}

int cgroup_cpus(const char *root)
{
    return (int)smallest_limit(root, "cpu", cpu_limit);
}

int64_t cgroup_memory(const char *root)
{
    return smallest_limit(root, "memory", memory_limit);
}

int64_t cgroup_pids(const char *root)
{
    return smallest_limit(root, "pids", pids_limit);
}
