#include "launcher/node/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

/* ---- killed processes ----------------------------------------------------------------------- */

int cgroup_oom_open(const char *dir)
{
    static const char *const names[] = {"memory.events", "memory.oom_control"}; /* versions 2, 1 */
    int fd = -1;
    for (size_t i = 0; dir && fd < 0 && i < COUNT_OF(names); i++) {
        AUTO(free) char *file = xasprintf("%s/%s", dir, names[i]);
        fd = open(file, O_RDONLY | O_CLOEXEC);
    }
    return fd;
}

long cgroup_oom_count(int counter)
{
    char text[4096] = "\n"; /* lines "name number" */
    ssize_t n = pread(counter, text + 1, sizeof text - 2, 0);
    long count = -1;
    const char *line = n > 0 ? strstr(text, "\noom_kill ") : NULL;
    if (line)
        sscanf(line, " oom_kill %ld", &count);
    return count;
}

/* ---- groups of jobs ------------------------------------------------------------------------- */

static const char prefix[] = "drover-"; /* prefix of the names of job groups */

enum { CPU_PERIOD_US = 100000 };

static int write_file(const char *dir, const char *name, const char *text)
{
    AUTO(free) char *path = xasprintf("%s/%s", dir, name);
    return file_write(path, text, strlen(text), 0666);
}

static bool has_controller(const char *dir, const char *name)
{
    AUTO(free) char *path = xasprintf("%s/cgroup.controllers", dir);
    AUTO(file) FILE *f = fopen(path, "re");
    char word[64];
    while (f && fscanf(f, "%63s", word) == 1)
        if (strcmp(word, name) == 0)
            return true;
    return false;
}

static int fail_not_delegated(struct err *e, const char *dir, const char *why)
{
    err_set(e, -ENOTSUP, "no delegated cgroup with the memory controller (%s: %s)",
            dir ? dir : "/proc/self/cgroup", why);
    return err_hint(e, "systemd-run --user --scope -p Delegate=yes drover …");
}

/* Moves all processes of `dir` into `subgroup`. */
static int move_processes(const char *dir, const char *subgroup, bool (*may_move)(pid_t pid),
                          struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/cgroup.procs", dir);
    AUTO(file) FILE *f = fopen(path, "re");
    if (!f)
        return fail_not_delegated(e, dir, strerror(errno));
    int pid = 0;
    while (fscanf(f, "%d", &pid) == 1)
        if (!may_move(pid)) {
            char why[64];
            snprintf(why, sizeof why, "it contains process %d, too", pid);
            return fail_not_delegated(e, dir, why);
        }
    rewind(f);
    if (mkdir(subgroup, 0755) < 0 && errno != EEXIST)
        return fail_not_delegated(e, dir, strerror(errno));
    while (fscanf(f, "%d", &pid) == 1) {
        char text[16];
        snprintf(text, sizeof text, "%d", pid);
        int rc = write_file(subgroup, "cgroup.procs", text);
        if (rc < 0 && rc != -ESRCH)
            return fail_not_delegated(e, dir, strerror(-rc));
    }
    return 0;
}

static void remove_stale(const char *home)
{
    AUTO(dir) DIR *d = opendir(home);
    for (const struct dirent *it; d && (it = readdir(d));)
        if (strncmp(it->d_name, prefix, strlen(prefix)) == 0)
            (void)unlinkat(dirfd(d), it->d_name, AT_REMOVEDIR); /* a group in use stays */
}

int cgroup_delegate_claim(char **home, const char *root, bool (*may_move)(pid_t pid), struct err *e)
{
    AUTO(free) char *dir = cgroup_dir(root, "memory");
    if (!dir)
        return fail_not_delegated(e, NULL, "no cgroup is listed");
    if (!has_controller(dir, "memory"))
        return fail_not_delegated(e, dir, "version 1, or without the memory controller");
    AUTO(free) char *subgroup = xasprintf("%s/%sworker", dir, prefix);
    if (move_processes(dir, subgroup, may_move, e) < 0)
        return -ENOTSUP;
    int rc = write_file(dir, "cgroup.subtree_control", "+memory");
    if (rc < 0)
        return fail_not_delegated(e, dir, strerror(-rc));
    if (has_controller(dir, "cpu"))
        /* Optional, since ranks are also bound to CPUs. */
        (void)write_file(dir, "cgroup.subtree_control", "+cpu");
    remove_stale(dir);
    *home = TAKE(dir);
    return 0;
}

static int set_limits(const char *dir, const struct cgroup_delegate_limits *l)
{
    char text[48];
    if (l->cpus > 0) {
        snprintf(text, sizeof text, "%lld %d", (long long)l->cpus * CPU_PERIOD_US, CPU_PERIOD_US);
        (void)write_file(dir, "cpu.max", text); /* fails without the controller */
    }
    if (l->memory_bytes == 0)
        return 0;
    (void)write_file(dir, "memory.swap.max", "0");  /* a kernel without swap has no such file */
    (void)write_file(dir, "memory.oom.group", "1"); /* Linux 4.19 */
    snprintf(text, sizeof text, "%lld", (long long)l->memory_bytes);
    return write_file(dir, "memory.max", text);
}

int cgroup_delegate_make(char **dir, const char *home, const char *name,
                         const struct cgroup_delegate_limits *l, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/%s%s", home, prefix, name);
    if (mkdir(path, 0755) < 0)
        return err_set(e, -errno, "cgroup '%s': %s", path, strerror(errno));
    int rc = set_limits(path, l);
    if (rc < 0) {
        cgroup_delegate_remove(path);
        return err_set(e, rc, "cgroup '%s': cannot set limits: %s", path, strerror(-rc));
    }
    *dir = TAKE(path);
    return 0;
}

void cgroup_delegate_remove(const char *dir)
{
    if (dir)
        (void)rmdir(dir); /* a group that is not empty is removed by the next
                             cgroup_delegate_claim() */
}
