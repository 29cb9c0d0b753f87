#include "launcher/node/session_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/log.h"
#include "launcher/node/shm_cleanup.h"

/* JOB NSPACE is a link that says where the job's shared memory is, and leads nowhere: libpmix
 * empties this directory and those that it finds below, links to them as well. */
#define JOB "job-"
#define SAYS "shared memory in "

enum { OPEN_FDS_MAX = 16 };

struct session_dir {
    char *path;
    int fd; /* holds the lock */
};

AUTO_DEFINE(dir, DIR *, closedir)

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    if (remove(path) < 0 && errno != ENOENT)
        log_debug("remove '%s': %s", path, strerror(errno));
    return 0; /* as much as can be */
}

static void end_job(const char *path, const char *nspace)
{
    AUTO(free) char *link = xasprintf("%s/" JOB "%s", path, nspace);
    char said[PATH_MAX];
    ssize_t n = readlink(link, said, sizeof said - 1);
    if (n < (ssize_t)strlen(SAYS))
        return;
    said[n] = '\0';
    shm_cleanup_remove(said + strlen(SAYS), nspace);
    unlink(link);
}

static void remove_all(const char *path)
{
    AUTO(dir) DIR *dir = opendir(path);
    for (const struct dirent *d; dir && (d = readdir(dir));)
        if (strncmp(d->d_name, JOB, strlen(JOB)) == 0)
            end_job(path, d->d_name + strlen(JOB));
    (void)nftw(path, remove_one, OPEN_FDS_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Opens and locks it. -EWOULDBLOCK where somebody owns it, -ENOENT where it went away meanwhile. */
static int lock_dir(const char *path)
{
    struct stat held, there;
    AUTO(fd) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    if (fstat(fd, &held) < 0 || lstat(path, &there) < 0 || held.st_ino != there.st_ino)
        return -ENOENT;
    return fd_take(&fd);
}

static void sweep_in(const char *parent)
{
    AUTO(dir) DIR *dir = opendir(parent);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (strncmp(d->d_name, "run-", 4) != 0)
            continue;
        AUTO(free) char *path = xasprintf("%s/%s", parent, d->d_name);
        AUTO(fd) int fd = lock_dir(path);
        if (fd >= 0)
            remove_all(path);
    }
}

/* ${TMPDIR:-/tmp}/drover-UID, ours alone; else an error: in /tmp anybody can have made it. */
static int parent_dir(char **out, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    if (!tmp || tmp[0] != '/')
        tmp = "/tmp";
    AUTO(free) char *path = xasprintf("%s/drover-%u", tmp, (unsigned)geteuid());
    struct stat st;
    if ((mkdir(path, 0700) < 0 && errno != EEXIST) || lstat(path, &st) < 0) {
        err_set(e, -errno, "directory '%s': %s", path, strerror(errno));
        return err_hint(e, "set TMPDIR to a directory that can be written to");
    }
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0077)) {
        err_set(e, -EPERM, "'%s' is not a directory of ours alone (mode 0700)", path);
        return err_hint(e, "remove it, or set TMPDIR to another directory");
    }
    *out = TAKE(path);
    return 0;
}

void session_dir_remove_stale(void)
{
    AUTO(free) char *parent = NULL;
    if (parent_dir(&parent, NULL) == 0)
        sweep_in(parent);
}

int session_dir_open(struct session_dir **out, struct err *e)
{
    AUTO(free) char *parent = NULL;
    if (parent_dir(&parent, e) < 0)
        return e ? e->code : -EIO;
    sweep_in(parent);
    for (;;) {
        AUTO(free) char *path = xasprintf("%s/run-XXXXXX", parent);
        if (!mkdtemp(path))
            return err_set(e, -errno, "make a directory in '%s': %s", parent, strerror(errno));
        int fd = lock_dir(path);
        if (fd == -ENOENT || fd == -EWOULDBLOCK)
            continue; /* another's sweep came between */
        if (fd < 0) {
            rmdir(path);
            return err_set(e, fd, "lock '%s': %s", path, strerror(-fd));
        }
        *out = xzalloc(sizeof **out);
        **out = (struct session_dir){.path = TAKE(path), .fd = fd};
        return 0;
    }
}

void session_dir_close(struct session_dir *w)
{
    if (!w)
        return;
    remove_all(w->path);
    close(w->fd);
    free(w->path);
    free(w);
}

const char *session_dir_path(const struct session_dir *w)
{
    return w->path;
}

void session_dir_job_begins(const struct session_dir *w, const char *nspace, const char *dir)
{
    AUTO(free) char *link = xasprintf("%s/" JOB "%s", w->path, nspace);
    AUTO(free) char *says = xasprintf(SAYS "%s", dir);
    if (symlink(says, link) < 0)
        log_debug("link '%s': %s", link, strerror(errno)); /* then the PMIx server alone removes */
}

void session_dir_job_ends(const struct session_dir *w, const char *nspace)
{
    end_job(w->path, nspace);
}
