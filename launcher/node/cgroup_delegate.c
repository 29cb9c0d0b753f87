#include "launcher/node/cgroup_delegate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"
#include "launcher/node/cgroup.h"

static const char prefix[] = "drover-"; /* prefix of the names of job groups */

enum { CPU_PERIOD_US = 100000 };

/* Writes the text with one write(2), which a cgroup's files require. */
static int write_file(const char *dir, const char *name, const char *text)
{
    AUTO(free) char *path = xasprintf("%s/%s", dir, name);
    AUTO(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
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
    DIR *d = opendir(home);
    for (struct dirent *it; d && (it = readdir(d));)
        if (strncmp(it->d_name, prefix, strlen(prefix)) == 0)
            (void)unlinkat(dirfd(d), it->d_name, AT_REMOVEDIR); /* a group in use stays */
    if (d)
        closedir(d);
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
