#include "hpo/sweep/trialdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"

enum { DEPTH_MAX = 64, COPY_CHUNK = 1 << 20 };

AUTO_DEFINE(dir, DIR *, closedir)

char *trialdir_path(const char *sweep_dir, int trial)
{
    return xasprintf("%s/trials/%06d", sweep_dir, trial);
}

/* mkdir -p. The path is ours to change meanwhile. */
static int make_dirs(char *path, struct err *e)
{
    for (char *at = strchr(path + 1, '/');; at = strchr(at + 1, '/')) {
        if (at)
            *at = 0;
        int rc = mkdir(path, 0777);
        if (rc < 0 && errno != EEXIST)
            return err_set(e, -errno, "directory '%s': %s", path, strerror(errno));
        if (!at)
            return 0;
        *at = '/';
    }
}

static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Complete or not there: written beside its place, then moved. */
static int write_file(const char *path, const char *text, struct err *e)
{
    AUTO(free) char *beside = xasprintf("%s.%d.tmp", path, (int)getpid());
    AUTO(fd) int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int rc = fd < 0 ? -errno : write_all(fd, text, strlen(text));
    if (rc == 0 && rename(beside, path) < 0)
        rc = -errno;
    return rc < 0 ? err_set(e, rc, "file '%s': %s", path, strerror(-rc)) : 0;
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
        /* Not every file system can; then by hand, from where it stopped. */
        if (!chunk)
            chunk = xzalloc(COPY_CHUNK);
        n = read(from, chunk, COPY_CHUNK);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        int rc = n < 0 ? -errno : write_all(to, chunk, (size_t)n);
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
    /* Programs look for the newest checkpoint by its time. */
    if (fchmod(to, st->st_mode & 07777) < 0 ||
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
    if (mkdirat(to_dir, name, 0777) < 0)
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
    return 0; /* sockets and the like hold no state */
}

/* Copies what is in a directory into an empty one. What goes away meanwhile is left out: a copy of
 * the trial may still run and tidy up. */
static int copy_tree(int from_dir, int to_dir, int depth)
{
    if (depth > DEPTH_MAX)
        return -ELOOP;
    AUTO(fd) int again = fcntl(from_dir, F_DUPFD_CLOEXEC, 0);
    AUTO(dir) DIR *dir = again < 0 ? NULL : fdopendir(again);
    if (!dir)
        return -errno;
    (void)fd_take(&again); /* closedir() closes it */
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

/* The last lease before this one that has a whole ckpt directory (0: none), and whether there was a
 * lease at all. */
static int64_t last_whole(const char *root, int64_t lease, bool *any)
{
    AUTO(dir) DIR *dir = opendir(root);
    int64_t best = 0;
    const struct dirent *d;
    while (dir && (d = readdir(dir))) {
        char *end;
        long long n = strtoll(d->d_name, &end, 10);
        if (*end || n <= 0 || n >= lease)
            continue;
        *any = true;
        AUTO(free) char *ckpt = xasprintf("%s/%lld/ckpt", root, n);
        if (n > best && access(ckpt, F_OK) == 0)
            best = n;
    }
    return best;
}

/* LEASE/ckpt from LEASE/ckpt.tmp, so that one that is there is whole. */
static int make_ckpt(const char *root, int64_t lease, int64_t from_lease, struct err *e)
{
    AUTO(free) char *tmp = xasprintf("%s/%lld/ckpt.tmp", root, (long long)lease);
    AUTO(free) char *ckpt = xasprintf("%s/%lld/ckpt", root, (long long)lease);
    AUTO(free) char *from = xasprintf("%s/%lld/ckpt", root, (long long)from_lease);
    if (mkdir(tmp, 0777) < 0)
        return err_set(e, -errno, "directory '%s': %s", tmp, strerror(errno));
    if (from_lease > 0) {
        AUTO(fd) int to_dir = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        AUTO(fd) int from_dir = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int rc = to_dir < 0 || from_dir < 0 ? -errno : copy_tree(from_dir, to_dir, 0);
        if (rc < 0)
            return err_set(e, rc, "copy checkpoint '%s': %s", from, strerror(-rc));
    }
    if (rename(tmp, ckpt) < 0)
        return err_set(e, -errno, "rename '%s': %s", tmp, strerror(errno));
    return 0;
}

int trialdir_prepare(const struct trialdir_ask *ask, bool *resumed, struct err *e)
{
    AUTO(free) char *dir = xasprintf("%s/%lld", ask->root, (long long)ask->lease);
    AUTO(free) char *params = xasprintf("%s/params.json", ask->root);
    AUTO(free) char *config = xasprintf("%s/config.yaml", dir);
    int rc = make_dirs(dir, e);
    if (rc == 0)
        rc = write_file(params, ask->params, e);
    if (rc == 0)
        rc = write_file(config, ask->config, e);
    if (rc < 0)
        return rc;
    bool any = false;
    int64_t from = last_whole(ask->root, ask->lease, &any);
    rc = make_ckpt(ask->root, ask->lease, from, e);
    if (rc == 0)
        *resumed = any;
    return rc;
}
