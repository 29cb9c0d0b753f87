#include "launcher/node/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "common/file.h"
#include "common/mem.h"
#include "launcher/node/cgroup.h"

enum {
    LIMITS_MAX = 4, /* maximum number of limits that can cause one error */
    THREADS_MAX = 16,
    FILES_SPARE = 32 /* for files that are open for a short time, and for libraries */
};

struct limit {
    int64_t max; /* 0: no limit */
    const char *what;
    char *fix; /* owned */
};

/* Returns the number in a file of /proc; 0: unknown. */
static int64_t read_number(const char *root, const char *path)
{
    long long n = 0;
    AUTO(free) char *whole = xasprintf("%s%s", root, path);
    return file_scan(whole, "%lld", &n) == 1 && n > 0 ? n : 0;
}

/* Returns a limit of getrlimit(). `option` is the option of ulimit, `name` the name in
 * limits.conf(5). */
static struct limit resource_limit(__rlimit_resource_t resource, const char *what, char option,
                                   const char *name)
{
    struct rlimit r;
    struct limit l = {.what = what};
    if (getrlimit(resource, &r) < 0 || r.rlim_cur == RLIM_INFINITY)
        return l;
    l.max = (int64_t)r.rlim_cur;
    if (r.rlim_max == RLIM_INFINITY)
        l.fix = xasprintf("ulimit -%c unlimited", option);
    else if (r.rlim_max > r.rlim_cur)
        l.fix = xasprintf("ulimit -%c %lld", option, (long long)r.rlim_max);
    else
        l.fix = xasprintf("raise '%s' in /etc/security/limits.conf and log in again", name);
    return l;
}

static struct limit kernel_limit(const char *root, const char *path, const char *what,
                                 const char *name)
{
    int64_t max = read_number(root, path);
    return (struct limit){max, what, xasprintf("sysctl %s=%lld", name, 2 * (long long)max)};
}

static struct limit pids_limit(const char *root)
{
    return (struct limit){cgroup_pids(root), "processes and threads of this cgroup (pids.max)",
                          xstrdup("docker run --pids-limit N; systemd: TasksMax=N; Kubernetes: "
                                  "podPidsLimit")};
}

/* Returns the limit on the processes of this user, which does not apply to root. */
static struct limit user_limit(void)
{
    struct limit l = resource_limit(RLIMIT_NPROC, "processes and threads of this user (ulimit -u)",
                                    'u', "nproc");
    l.max = geteuid() == 0 ? 0 : l.max;
    return l;
}

static int add_limit(struct err *e, const struct limit *l)
{
    AUTO(free) char *before = xstrdup(e->text);
    err_set(e, e->code, "%s: the limit is %lld %s", before, (long long)l->max, l->what);
    return err_hint(e, "%s", l->fix);
}

/* Fills in the limits that can cause the error. Returns their number. */
static size_t find_limits(struct limit out[LIMITS_MAX], int error, const char *root)
{
    size_t n = 0;
    if (error == -EMFILE)
        out[n++] =
            resource_limit(RLIMIT_NOFILE, "open files per process (ulimit -n)", 'n', "nofile");
    if (error == -ENFILE)
        out[n++] = kernel_limit(root, "/proc/sys/fs/file-max", "open files of this machine",
                                "fs.file-max");
    if (error != -EAGAIN)
        return n;
    out[n++] = user_limit();
    out[n++] = pids_limit(root);
    out[n++] = kernel_limit(root, "/proc/sys/kernel/threads-max", "threads of this machine",
                            "kernel.threads-max");
    out[n++] = kernel_limit(root, "/proc/sys/kernel/pid_max", "process ids of this machine",
                            "kernel.pid_max");
    return n;
}

int limits_explain(struct err *e, const char *root)
{
    if (!e)
        return -EIO;
    struct limit limits[LIMITS_MAX];
    const struct limit *lowest = NULL;
    size_t n = find_limits(limits, e->code, root);
    for (size_t i = 0; i < n; i++)
        if (limits[i].max > 0 && (!lowest || limits[i].max < lowest->max))
            lowest = &limits[i];
    if (lowest)
        add_limit(e, lowest);
    for (size_t i = 0; i < n; i++)
        free(limits[i].fix);
    return e->code;
}

/* ---- checks before a start ------------------------------------------------------------------ */

int limits_require_files(int count, const char *what, struct err *e)
{
    struct rlimit r;
    /* The lowest free descriptor number is about the number of open files. */
    AUTO(fd) int next = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur == RLIM_INFINITY)
        return 0;
    int64_t needed = (next < 0 ? (int64_t)r.rlim_cur : next) + count + FILES_SPARE;
    if (needed <= (int64_t)r.rlim_cur)
        return 0;
    err_set(e, -EMFILE, "%s: %lld files must be open at once", what, (long long)needed);
    return limits_explain(e, "");
}

static void *wait_at(void *barrier)
{
    pthread_mutex_lock(barrier);
    pthread_mutex_unlock(barrier);
    return NULL;
}

int limits_require_threads(int count, const char *what, struct err *e)
{
    pthread_t threads[THREADS_MAX];
    pthread_mutex_t all_started = PTHREAD_MUTEX_INITIALIZER;
    int started = 0, error = 0;
    pthread_mutex_lock(&all_started);
    while (started < count && started < THREADS_MAX && !error) {
        error = pthread_create(&threads[started], NULL, wait_at, &all_started);
        started += !error;
    }
    pthread_mutex_unlock(&all_started);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (!error)
        return 0;
    err_set(e, -error, "%s: start a thread: %s", what, strerror(error));
    return limits_explain(e, "");
}
