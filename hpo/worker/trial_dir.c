#include "hpo/worker/trial_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/durable.h"
#include "common/file.h"
#include "common/mem.h"

enum { DEPTH_MAX = 64, COPY_CHUNK = 1 << 20 };

char *trial_dir_path(const char *sweep_dir, int trial)
{
    return xasprintf("%s/trials/%06d", sweep_dir, trial);
}

/* Written in place, without a rename: no process reads the file before the trial runs, and a later
 * lease writes the same bytes. */
static int write_file(int dir, const char *name, const char *text)
{
    AUTO(fd) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : file_write_all(fd, text, strlen(text));
}

static int copy_bytes(int from, int to)
{
    AUTO(free) char *chunk = NULL;
    for (;;) {
        ssize_t n = chunk ? -1 : copy_file_range(from, NULL, to, NULL, COPY_CHUNK << 6, 0);
        if (n == 0)
            return 0;
        if (n > 0)
            continue;
        /* Not every file system supports it; then copy by read and write, from where it stopped. */
        if (!chunk)
            chunk = xzalloc(COPY_CHUNK);
        n = read(from, chunk, COPY_CHUNK);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        int rc = n < 0 ? -errno : file_write_all(to, chunk, (size_t)n);
        if (rc < 0)
            return rc;
    }
}

static int copy_file(int from_dir, int to_dir, const char *name, const struct stat *st)
{
    AUTO(fd) int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (from < 0)
        return -errno;
    AUTO(fd) int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    int rc = copy_bytes(from, to);
    if (rc < 0)
        return rc;
    /* Programs find the newest checkpoint by its modification time. */
    if (fchmod(to, st->st_mode & 07755) < 0 ||
        futimens(to, (struct timespec[2]){st->st_atim, st->st_mtim}) < 0 || fsync(to) < 0)
        return -errno;
    return 0;
}

static int copy_link(int from_dir, int to_dir, const char *name)
{
    char target[4096];
    ssize_t n = readlinkat(from_dir, name, target, sizeof target - 1);
    if (n < 0)
        return -errno;
    target[n] = 0;
    return symlinkat(target, to_dir, name) < 0 ? -errno : 0;
}

static int copy_tree(int from_dir, int to_dir, int depth);

static int copy_dir(int from_dir, int to_dir, const char *name, int depth)
{
    AUTO(fd) int from = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0)
        return -errno;
    if (mkdirat(to_dir, name, 0755) < 0)
        return -errno;
    AUTO(fd) int to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return to < 0 ? -errno : copy_tree(from, to, depth + 1);
}

static int copy_entry(int from_dir, int to_dir, const char *name, int depth)
{
    struct stat st;
    if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return copy_dir(from_dir, to_dir, name, depth);
    if (S_ISREG(st.st_mode))
        return copy_file(from_dir, to_dir, name, &st);
    if (S_ISLNK(st.st_mode))
        return copy_link(from_dir, to_dir, name);
    return 0; /* sockets, pipes and devices hold no state */
}

/* Copies the contents of a directory into an empty one. Skips entries that vanish in the meantime:
 * another copy of the trial may still run and delete old checkpoints. */
static int copy_tree(int from_dir, int to_dir, int depth)
{
    if (depth > DEPTH_MAX)
        return -ELOOP;
    AUTO(fd) int copy = fcntl(from_dir, F_DUPFD_CLOEXEC, 0);
    AUTO(dir) DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir)
        return -errno;
    (void)fd_take(&copy); /* closedir() closes it */
    for (;;) {
        errno = 0;
        const struct dirent *d = readdir(dir);
        if (!d && errno)
            return -errno;
        if (!d)
            return fsync(to_dir) < 0 ? -errno : 0;
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        int rc = copy_entry(from_dir, to_dir, d->d_name, depth);
        if (rc < 0 && rc != -ENOENT)
            return rc;
    }
}

/* The last lease before this one that has a complete ckpt directory; 0: none. *any: there was a
 * lease before. */
static int64_t last_complete(int root, int64_t lease, bool *any)
{
    AUTO(fd) int copy = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO(dir) DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    int64_t best = 0;
    const struct dirent *d;
    if (dir)
        (void)fd_take(&copy); /* closedir() closes it */
    while (dir && (d = readdir(dir))) {
        char *end, ckpt[32];
        long long n = strtoll(d->d_name, &end, 10);
        if (*end || n <= 0 || n >= lease)
            continue;
        *any = true;
        snprintf(ckpt, sizeof ckpt, "%lld/ckpt", n);
        if (n > best && faccessat(root, ckpt, F_OK, 0) == 0)
            best = n;
    }
    return best;
}

/* Copies `from`/ckpt to `to`/ckpt, under another name first: a directory named ckpt is complete. */
static int copy_ckpt(const char *from, const char *to)
{
    AUTO(free) char *source = xasprintf("%s/ckpt", from);
    AUTO(free) char *tmp = xasprintf("%s/ckpt.tmp", to);
    AUTO(free) char *target = xasprintf("%s/ckpt", to);
    AUTO(fd) int from_dir = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from_dir < 0 || mkdir(tmp, 0755) < 0)
        return -errno;
    AUTO(fd) int to_dir = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = to_dir < 0 ? -errno : copy_tree(from_dir, to_dir, 0);
    return rc == 0 ? durable_rename(tmp, target) : rc;
}

/* Opens a directory, and makes it first if it does not exist: *made is true then. */
static int open_or_make(int *fd, int at, const char *path, bool *made)
{
    *made = mkdirat(at, path, 0755) == 0;
    if (!*made && errno != EEXIST)
        return -errno;
    *fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? -errno : 0;
}

/* Opens the trial's directory, and creates it if it is missing. For the first trial on a node, the
 * directories above it may be missing, too. */
static int open_root(int *fd, const char *root, bool *made)
{
    int rc = open_or_make(fd, AT_FDCWD, root, made);
    AUTO(free) char *above = rc == -ENOENT ? xstrdup(root) : NULL;
    for (char *at = above; at && (at = strchr(at + 1, '/')); *at = '/') {
        *at = 0;
        if (mkdir(above, 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    return above ? open_or_make(fd, AT_FDCWD, root, made) : rc;
}

/* Writes the files of a lease, except for a checkpoint; `empty`: with an empty ckpt directory.
 * *what: the file that failed. */
static int fill(const struct trial_dir_opts *opts, int root, int dir, bool empty, const char **what)
{
    *what = "params.json";
    int rc = write_file(root, *what, opts->params);
    if (rc < 0)
        return rc;
    *what = "config.yaml";
    rc = write_file(dir, *what, opts->config);
    if (rc < 0)
        return rc;
    *what = "ckpt";
    return empty && mkdirat(dir, *what, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

int trial_dir_make(const struct trial_dir_opts *opts, bool *resumed, int64_t *from, struct err *e)
{
    AUTO(fd) int root = -1;
    AUTO(fd) int dir = -1;
    bool first = false, made;
    char lease[24];
    snprintf(lease, sizeof lease, "%lld", (long long)opts->lease);
    *resumed = false;
    int rc = open_root(&root, opts->root, &first);
    if (rc < 0)
        return err_set(e, rc, "directory '%s': %s", opts->root, strerror(-rc));
    *from = first ? 0 : last_complete(root, opts->lease, resumed);
    const char *what = "directory";
    rc = open_or_make(&dir, root, lease, &made);
    if (rc == 0)
        rc = fill(opts, root, dir, *from == 0, &what);
    if (rc < 0)
        return err_set(e, rc, "'%s': lease %s: %s: %s", opts->root, lease, what, strerror(-rc));
    return 0;
}

int trial_dir_copy(const struct trial_dir_opts *opts, int64_t from, struct err *e)
{
    AUTO(free) char *source = xasprintf("%s/%lld", opts->root, (long long)from);
    AUTO(free) char *target = xasprintf("%s/%lld", opts->root, (long long)opts->lease);
    int rc = copy_ckpt(source, target);
    return rc < 0 ? err_set(e, rc, "'%s': ckpt, from lease %lld: %s", target, (long long)from,
                            strerror(-rc))
                  : 0;
}
