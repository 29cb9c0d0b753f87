#include "launcher/node/session_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/entropy.h"
#include "common/log.h"
#include "common/private_dir.h"

/* "job-NSPACE" is a symbolic link whose target contains the name of the directory of the job's
 * shared memory. The target is not a valid path on purpose: libpmix empties the session directory
 * and all directories below it, also through links. */
#define JOB_PREFIX "job-"
#define TARGET_PREFIX "shared memory in "

#define RUN "run" /* the kind of a session directory */

enum { OPEN_FDS_MAX = 16, ERROR_AGE_MAX_S = 24 * 60 * 60 };

struct session_dir {
    char *path;
    int fd; /* descriptor with the lock; -1: not created yet */
};

/* ---- shared memory of Open MPI ----------------------------------------------------------------
 */

/* Returns Jenkins' "one at a time" hash of the name with bit 15 clear (OPAL_HASH_JOBID in Open MPI
 * 4's opal/mca/pmix/pmix.h). */
static uint32_t job_number(const char *nspace)
{
    uint32_t h = 0;
    for (const char *c = nspace; *c; c++) {
        h += (uint32_t)*c;
        h += h << 10;
        h ^= h >> 6;
    }
    h += h << 3;
    h ^= h >> 11;
    h += h << 15;
    return h & ~0x8000U;
}

/* Returns true if `file` is the name of a file of the namespace. */
static bool is_shm_of(const char *file, const char *nspace)
{
    static const char *const kinds[] = {"vader_segment.", "osc_sm.", "osc_rdma."};
    char job[16];
    snprintf(job, sizeof job, ".%x.", (unsigned)job_number(nspace));
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strncmp(file, kinds[i], strlen(kinds[i])) == 0)
            return strstr(file, job) != NULL;
    return false;
}

void session_dir_remove_shm(const char *dir, const char *nspace)
{
    AUTO(dir) DIR *all = opendir(dir);
    for (const struct dirent *d; all && (d = readdir(all));) {
        struct stat st;
        if (is_shm_of(d->d_name, nspace) &&
            fstatat(dirfd(all), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_uid == geteuid())
            /* The PMIx server may have removed it before */
            (void)unlinkat(dirfd(all), d->d_name, 0);
    }
}

/* ---- session directories -------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    if (remove(path) < 0 && errno != ENOENT)
        log_debug("remove '%s': %s", path, strerror(errno));
    return 0; /* continues with the rest */
}

static void remove_job(const char *path, const char *nspace)
{
    AUTO(free) char *link = xasprintf("%s/" JOB_PREFIX "%s", path, nspace);
    char target[PATH_MAX];
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n < (ssize_t)strlen(TARGET_PREFIX))
        return;
    target[n] = '\0';
    session_dir_remove_shm(target + strlen(TARGET_PREFIX), nspace);
    unlink(link);
}

static void remove_all(const char *path)
{
    AUTO(dir) DIR *dir = opendir(path);
    for (const struct dirent *d; dir && (d = readdir(dir));)
        if (strncmp(d->d_name, JOB_PREFIX, strlen(JOB_PREFIX)) == 0)
            remove_job(path, d->d_name + strlen(JOB_PREFIX));
    (void)nftw(path, remove_one, OPEN_FDS_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Opens and locks a session directory.
 *   -EWOULDBLOCK  it has an owner
 *   -ENOENT       another process has removed it */
static int lock_dir(const char *path)
{
    struct stat locked, current;
    AUTO(fd) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    if (fstat(fd, &locked) < 0 || lstat(path, &current) < 0 || locked.st_ino != current.st_ino)
        return -ENOENT;
    return fd_take(&fd);
}

static void remove_stale_dir(const char *path)
{
    AUTO(fd) int fd = lock_dir(path);
    if (fd >= 0)
        remove_all(path);
}

static void remove_old_file(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && st.st_mtime < time(NULL) - ERROR_AGE_MAX_S)
        unlink(path);
}

static void remove_stale_in(const char *parent)
{
    AUTO(dir) DIR *dir = opendir(parent);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        AUTO(free) char *path = xasprintf("%s/%s", parent, d->d_name);
        if (strncmp(d->d_name, RUN "-", strlen(RUN "-")) == 0)
            remove_stale_dir(path);
        else if (strncmp(d->d_name, SESSION_DIR_ERROR "-", strlen(SESSION_DIR_ERROR "-")) == 0)
            remove_old_file(path);
    }
}

static int parent_dir(char **out, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    int rc = private_dir_in(out, tmp && tmp[0] == '/' ? tmp : "/tmp", e);
    return rc < 0 ? err_hint(e, "set TMPDIR to a writable directory") : 0;
}

void session_dir_remove_stale(void)
{
    AUTO(free) char *parent = NULL;
    if (parent_dir(&parent, NULL) == 0)
        remove_stale_in(parent);
}

static int unique_path(char **out, const char *parent, const char *kind, struct err *e)
{
    unsigned random;
    int rc = entropy_fill(&random, sizeof random);
    if (rc < 0)
        return err_set(e, rc, "no random number for the name of a directory: %s", strerror(-rc));
    *out = xasprintf("%s/%s-%d-%08x", parent, kind, (int)getpid(), random);
    return 0;
}

int session_dir_beside(char **out, const char *kind, struct err *e)
{
    AUTO(free) char *parent = NULL;
    int rc = parent_dir(&parent, e);
    return rc < 0 ? rc : unique_path(out, parent, kind, e);
}

int session_dir_reserve(struct session_dir **out, struct err *e)
{
    AUTO(free) char *parent = NULL;
    AUTO(free) char *path = NULL;
    int rc = parent_dir(&parent, e);
    if (rc == 0)
        rc = unique_path(&path, parent, RUN, e);
    if (rc < 0)
        return rc;
    remove_stale_in(parent);
    *out = xzalloc(sizeof **out);
    **out = (struct session_dir){.path = TAKE(path), .fd = -1};
    return 0;
}

int session_dir_make(struct session_dir *s, struct err *e)
{
    while (s->fd < 0) {
        if (mkdir(s->path, 0700) < 0 && errno != EEXIST)
            return err_set(e, -errno, "directory '%s': %s", s->path, strerror(errno));
        int fd = lock_dir(s->path);
        if (fd == -ENOENT || fd == -EWOULDBLOCK)
            continue; /* another process removes it as stale */
        if (fd < 0) {
            rmdir(s->path);
            return err_set(e, fd, "lock '%s': %s", s->path, strerror(-fd));
        }
        s->fd = fd;
    }
    return 0;
}

int session_dir_open(struct session_dir **out, struct err *e)
{
    AUTO(session_dir) struct session_dir *s = NULL;
    int rc = session_dir_reserve(&s, e);
    if (rc == 0)
        rc = session_dir_make(s, e);
    if (rc == 0)
        *out = TAKE(s);
    return rc;
}

void session_dir_close(struct session_dir *s)
{
    if (!s)
        return;
    if (s->fd >= 0) {
        remove_all(s->path);
        close(s->fd);
    }
    free(s->path);
    free(s);
}

const char *session_dir_path(const struct session_dir *s)
{
    return s->path;
}

void session_dir_job_begins(const struct session_dir *s, const char *nspace, const char *dir)
{
    AUTO(free) char *link = xasprintf("%s/" JOB_PREFIX "%s", s->path, nspace);
    AUTO(free) char *target = xasprintf(TARGET_PREFIX "%s", dir);
    if (symlink(target, link) < 0)
        /* Only the PMIx server then removes the memory */
        log_debug("link '%s': %s", link, strerror(errno));
}

void session_dir_job_ends(const struct session_dir *s, const char *nspace)
{
    remove_job(s->path, nspace);
}
