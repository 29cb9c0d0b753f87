/* Directories, disks and network file systems. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <mntent.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/durable.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/doctor/checks/checks_host.h"
#include "launcher/doctor/checks/file_system.h"
#include "launcher/doctor/checks/program.h"
#include "launcher/doctor/core/sysroot.h"

/* ---- directories that are written ----------------------------------------------------------- */

/* Returns the directory or, if it does not exist yet, the nearest one above it that does. */
static char *existing(const char *dir)
{
    AUTO(free) char *path = xstrdup(dir);
    while (access(path, F_OK) < 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return xstrdup(".");
        slash[slash == path] = '\0';
    }
    return TAKE(path);
}

/* Returns the existing directories (a strv): that of temporary files, and those of `env`. */
static char **written_dirs(const struct check_env *env)
{
    const char *tmp = getenv("TMPDIR");
    char **out = NULL;
    strv_push(&out, existing(tmp && *tmp ? tmp : "/tmp"));
    for (const char *const *d = env->dirs; d && *d; d++)
        strv_push(&out, existing(*d));
    if (env->sweep_dir)
        strv_push(&out, existing(env->sweep_dir));
    return out;
}

struct space {
    enum check_state state;
    double percent; /* of blocks or inodes that are free */
    uint64_t bytes; /* free */
    bool inodes;    /* inodes are scarce, not blocks */
};

static enum check_state state_of(double percent)
{
    return percent < 1 ? CHECK_FAIL : percent < 10 ? CHECK_WARN : CHECK_OK;
}

static struct space space_of(const struct statvfs *v)
{
    enum { BYTES_MIN = 500 * 1000 * 1000 };
    uint64_t usable = v->f_blocks - v->f_bfree + v->f_bavail; /* without what root reserves */
    struct space s = {.bytes = v->f_bavail * v->f_frsize, .percent = 100};
    if (usable > 0) {
        s.percent = 100.0 * (double)v->f_bavail / (double)usable;
        s.state = s.bytes < BYTES_MIN ? CHECK_FAIL : state_of(s.percent);
    }
    double inodes = v->f_files > 0 ? 100.0 * (double)v->f_favail / (double)v->f_files : 100;
    if (state_of(inodes) > s.state) {
        s.inodes = true;
        s.percent = inodes;
        s.state = state_of(inodes);
    }
    return s;
}

/* Returns the size of the largest file of a directory. */
static uint64_t largest_file(const char *dir)
{
    enum { FILES_MAX = 1000 };
    uint64_t largest = 0;
    struct dirent *entry;
    DIR *d = opendir(dir);
    for (int i = 0; d && i < FILES_MAX && (entry = readdir(d)); i++) {
        struct stat st;
        if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && (uint64_t)st.st_size > largest)
            largest = (uint64_t)st.st_size;
    }
    if (d)
        closedir(d);
    return largest;
}

static void report_space(struct check_result *r, const char *dir, const struct space *s)
{
    static const char source[] = "statvfs()";
    struct checks_host_size size = checks_host_size(s->bytes);
    AUTO(free)
    char *value =
        xasprintf("%s: %s free (%.1f%%)", dir, s->inodes ? "inodes" : size.text, s->percent);
    if (s->state == CHECK_OK)
        return check_ok(r, source, "%s", value);
    check_bad(r, s->state, s->state == CHECK_FAIL ? "500 MB and 1% or more" : "10% or more", source,
              "%s", value);
    uint64_t largest = largest_file(dir);
    if (s->inodes)
        check_advise(r, "remove small files in %s, or choose another directory", dir);
    else if (largest > 0)
        check_advise(r, "remove files in %s, or choose another directory; its largest file has %s",
                     dir, checks_host_size(largest).text);
    else
        check_advise(r, "remove files in the file system of %s, or choose another directory", dir);
}

static void run_disk(struct check_result *r, struct check_env *env)
{
    AUTO(strv) char **dirs = written_dirs(env);
    struct space worst = {.percent = 101};
    const char *where = "";
    for (char **d = dirs; *d; d++) {
        struct statvfs v;
        if (statvfs(*d, &v) < 0)
            return check_bad(r, CHECK_FAIL, "an answer", "statvfs()", "%s: %s", *d,
                             strerror(errno));
        struct space s = space_of(&v);
        if (s.state > worst.state || (s.state == worst.state && s.percent < worst.percent)) {
            worst = s;
            where = *d;
        }
    }
    report_space(r, where, &worst);
}

/* ---- host.fs -------------------------------------------------------------------------------- */

/* Returns true, with a failure, if the directory cannot be written. */
static bool fails_to_write(struct check_result *r, const char *dir)
{
    struct statvfs v;
    if (statvfs(dir, &v) == 0 && v.f_flag & ST_RDONLY) {
        check_bad(r, CHECK_FAIL, "writable", "statvfs()", "%s: read-only file system", dir);
        return true;
    }
    if (access(dir, W_OK | X_OK) == 0)
        return false;
    check_bad(r, CHECK_FAIL, "writable", "access()", "%s: %s", dir, strerror(errno));
    return true;
}

static bool fails_to_execute(struct check_result *r, char *const *command)
{
    struct stat st;
    struct statvfs v;
    const char *name = command ? command[0] : NULL;
    /* access() answers EACCES for each file of such a file system. */
    AUTO(free) char *path = name && !strchr(name, '/') ? program_find(name) : NULL;
    const char *file = path ? path : name;
    if (!file || stat(file, &st) < 0 || statvfs(file, &v) < 0 || !(v.f_flag & ST_NOEXEC))
        return false;
    check_bad(r, CHECK_FAIL, "a file system from which programs start", "statvfs()",
              "%s: mounted with the option noexec", file);
    check_advise(r, "mount -o remount,exec the file system, or copy the program to another one");
    return true;
}

/* Returns true, with a warning, if the job would have to make more than the directory itself. */
static bool is_misplaced(struct check_result *r, const char *dir)
{
    AUTO(free) char *copy = xstrdup(dir);
    const char *above = dirname(copy);
    if (access(above, F_OK) == 0)
        return false;
    AUTO(free) char *there = existing(above);
    check_bad(r, CHECK_WARN, "a directory", "access()", "%s does not exist", above);
    check_advise(r, "mount it, or correct the path %s; a job would make it in %s", dir, there);
    return true;
}

static void run_fs(struct check_result *r, struct check_env *env)
{
    AUTO(strv) char **dirs = written_dirs(env);
    for (const char *const *d = env->dirs; d && *d; d++)
        if (is_misplaced(r, *d))
            return;
    for (char **d = dirs; *d; d++)
        if (fails_to_write(r, *d))
            return;
    if (fails_to_execute(r, env->command))
        return;
    AUTO(free) char *sweep = env->sweep_dir ? existing(env->sweep_dir) : NULL;
    const char *type = sweep ? durable_network(sweep) : NULL;
    if (type)
        check_bad(r, CHECK_WARN, "a local disk", "statfs()", "%s: %s", sweep, type);
    else
        check_ok(r, "statvfs(), statfs()", "%zu director%s writable", strv_len(dirs),
                 strv_len(dirs) == 1 ? "y is" : "ies are");
}

/* ---- host.nfs_hang -------------------------------------------------------------------------- */

enum { MOUNTS_MAX = 64, ANSWER_MS = 700 };

/* A child process that asks the server of one mount. */
struct question {
    char *text; /* "/data (nfs4 from nas:/export)" */
    pid_t pid;  /* 0: it has answered */
};

/* Asks the server, not the cache. The exit status is an errno. */
static pid_t ask(const char *dir)
{
    AUTO(free) char *path = sysroot_path("%s", dir);
    pid_t pid = fork();
    if (pid == 0) {
        struct statx st;
        _exit(statx(AT_FDCWD, path, AT_STATX_FORCE_SYNC | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &st) <
                      0
                  ? errno
                  : 0);
    }
    return pid;
}

static size_t ask_all(struct question q[MOUNTS_MAX])
{
    AUTO(free) char *path = sysroot_path("/proc/self/mounts");
    FILE *f = setmntent(path, "re");
    size_t n = 0;
    for (struct mntent *m; f && n < MOUNTS_MAX && (m = getmntent(f));)
        if (file_system_may_hang(m->mnt_type)) {
            q[n].text = xasprintf("%s (%s from %s)", m->mnt_dir, m->mnt_type, m->mnt_fsname);
            q[n++].pid = ask(m->mnt_dir);
        }
    if (f)
        endmntent(f);
    return n;
}

/* These errors say that the server or the daemon behind a mount is gone. */
static bool is_dead(int error)
{
    return error == ESTALE || error == EIO || error == ENOTCONN || error == EHOSTDOWN ||
           error == EHOSTUNREACH || error == ETIMEDOUT || error == ECONNABORTED;
}

/* Takes the answer of a child, if it has one. Appends to `bad` what is wrong. */
static void take_answer(struct question *q, struct strbuf *bad)
{
    int status = 0;
    if (q->pid <= 0 || waitpid(q->pid, &status, WNOHANG) != q->pid)
        return;
    q->pid = 0;
    if (WIFEXITED(status) && is_dead(WEXITSTATUS(status)))
        strbuf_printf(bad, "%s%s: %s", bad->len ? "; " : "", q->text,
                      strerror(WEXITSTATUS(status)));
}

static bool all_answered(const struct question *q, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (q[i].pid > 0)
            return false;
    return true;
}

static void run_nfs_hang(struct check_result *r, struct check_env *env)
{
    struct question q[MOUNTS_MAX] = {0};
    AUTO(strbuf) struct strbuf bad = {0};
    size_t n = ask_all(q);
    int64_t end = clock_ms() + ANSWER_MS;
    while (!all_answered(q, n) && clock_ms() < end) {
        for (size_t i = 0; i < n; i++)
            take_answer(&q[i], &bad);
        poll(NULL, 0, 2);
    }
    for (size_t i = 0; i < n; i++) {
        if (q[i].pid > 0) {
            kill(q[i].pid, SIGKILL); /* it ends when the server answers */
            strbuf_printf(&bad, "%s%s: no answer within %d ms", bad.len ? "; " : "", q[i].text,
                          ANSWER_MS);
        }
        free(q[i].text);
    }
    static const char source[] = "statx() of each network file system in /proc/self/mounts";
    if (bad.len)
        check_bad(r, CHECK_FAIL, "an answer", source, "%s", strbuf_str(&bad));
    else
        check_ok(r, source, "%zu", n);
}

const struct check checks_host_files[] = {
    {"host.disk", "space for trials, checkpoints and temporary files", CHECK_REPORT, run_disk,
     .why = "A full disk ends a job in the middle of a checkpoint. Many small files use up inodes "
            "before blocks.",
     .advice = "remove files, or choose another directory (TMPDIR for temporary files)"},
    {"host.fs", "kind of the file systems that are written", CHECK_QUICK, run_fs,
     .why = "Nothing can be written to a read-only file system, and no program starts from one "
            "with the option noexec. A sweep's store on a network file system is slow.",
     .advice = "choose a directory on a local disk that this user may write to (--dir)"},
    {"host.nfs_hang", "network file systems that do not answer", CHECK_LONG, run_nfs_hang,
     .why = "A process that touches a file system without a server waits in the kernel and cannot "
            "be killed.",
     .advice = "bring its server back, or: umount -l DIRECTORY"},
    {0},
};
