#include "hpo/store/sweep_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/entropy.h"
#include "common/file.h"
#include "common/log.h"

enum {
    COUNT_AT = 17, /* where the counter begins in a line */
    POLL_MS = 100,
    LOOK_S = 60,     /* how old a line of an unseen process may be for those who only look */
    CHAIN_MAX = 1000 /* owners that died before they had renamed their file */
};

#define RELEASED "released"
#define ENDED ULLONG_MAX

/* NUMBER COUNT PID START BOOT NAMESPACE LOCK HOST: of the process its start in clock ticks since
 * the boot, the boot of its kernel, its PID namespace, and the directory and its file `lock` as it
 * sees them. */
struct line {
    char number[17], count[11], boot[64], space[64], lock[96], host[256];
    int pid;
    unsigned long long start;
};

struct sweep_owner {
    int lock, dir;
    uint32_t count;
    int64_t beat_ms;
    struct line line;
};

/* ---- who owns a sweep ----------------------------------------------------------------------- */

enum sweep_owner_verdict sweep_owner_judge(enum sweep_owner_process p, bool moved,
                                           int64_t watched_ms)
{
    if (p == SWEEP_OWNER_GONE)
        return SWEEP_OWNER_NONE;
    if (p == SWEEP_OWNER_LIVES || moved)
        return SWEEP_OWNER_RUNS;
    return watched_ms >= SWEEP_OWNER_WATCH_MS ? SWEEP_OWNER_NONE : SWEEP_OWNER_UNDECIDED;
}

/* When a process has started, in clock ticks since the boot; 0: it cannot be read; ENDED: it is a
 * zombie. */
static unsigned long long start_of(int pid)
{
    char path[32], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    AUTO(free) char *text = file_line(path);
    const char *after = text ? strrchr(text, ')') : NULL; /* the name may contain anything */
    unsigned long long start = 0;
    if (!after || sscanf(after,
                         ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                         "%*d %*d %llu",
                         &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? ENDED : start;
}

/* Fills in all but the number and the counter. `lock`: the open file in `dir`. */
static int describe_process(struct line *l, int lock, const char *dir, struct err *e)
{
    struct utsname u;
    struct statx st;
    struct stat in;
    if (statx(lock, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) < 0 || stat(dir, &in) < 0)
        return err_set(e, -errno, "its file 'lock': %s", strerror(errno));
    /* With its birth, since the number of a removed file is soon that of another one */
    snprintf(l->lock, sizeof l->lock, "%x.%x/%jx.%jx.%jx.%x", st.stx_dev_major, st.stx_dev_minor,
             (uintmax_t)in.st_ino, (uintmax_t)st.stx_ino, (uintmax_t)st.stx_btime.tv_sec,
             st.stx_btime.tv_nsec);
    AUTO(free) char *boot = file_line("/proc/sys/kernel/random/boot_id");
    if (uname(&u) < 0)
        return err_set(e, -errno, "uname: %s", strerror(errno));
    snprintf(l->boot, sizeof l->boot, "%s", boot && *boot ? boot : "-");
    ssize_t n = readlink("/proc/self/ns/pid", l->space, sizeof l->space - 1);
    l->space[n > 0 ? n : 0] = 0;
    if (n <= 0)
        strcpy(l->space, "-");
    snprintf(l->host, sizeof l->host, "%s", *u.nodename ? u.nodename : "-");
    l->pid = (int)getpid();
    l->start = start_of(l->pid);
    return 0;
}

/* Returns true if both are on the same device in different directories: one is a copy. */
static bool are_copies(const char *a, const char *b)
{
    size_t device = strcspn(a, "/"), n = device + strcspn(a + device, ".") + 1;
    return a[device] && strncmp(a, b, device + 1) == 0 && strncmp(a, b, n) != 0;
}

/* The lock is held by this process, or by none. */
static enum sweep_owner_process see(const struct line *l, const struct line *here)
{
    /* One kernel and one file: its owner would hold the lock. */
    if (strcmp(l->boot, here->boot) == 0 && strcmp(l->lock, here->lock) == 0 &&
        strcmp(l->boot, "-") != 0)
        return SWEEP_OWNER_GONE;
    if (l->pid <= 0 || strcmp(l->boot, here->boot) != 0 || strcmp(l->space, here->space) != 0 ||
        here->start == 0 || l->start == 0)
        return SWEEP_OWNER_UNSEEN;
    if (are_copies(l->lock, here->lock) || (kill(l->pid, 0) < 0 && errno == ESRCH))
        return SWEEP_OWNER_GONE;
    unsigned long long start = start_of(l->pid);
    if (start == 0) /* /proc may show only the user's own processes */
        return SWEEP_OWNER_UNSEEN;
    return start == l->start ? SWEEP_OWNER_LIVES : SWEEP_OWNER_GONE;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Reads a line. What is not one, such as a file that lost its content, has the number "-".
 * Returns a descriptor, which the caller closes, or a negative errno. */
static int read_line(struct line *out, int dir, const char *name, int flags)
{
    struct line l = {.number = "-"};
    char text[600] = "";
    int fd = openat(dir, name, flags | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (n < 0) {
        int rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    if (!strchr(text, '\n') ||
        sscanf(text, "%16s %10s %d %llu %63s %63s %95s %255s", l.number, l.count, &l.pid, &l.start,
               l.boot, l.space, l.lock, l.host) != 8)
        l = (struct line){.number = "-"};
    *out = l;
    return fd;
}

/* Follows the successors from `owner` to the last one. Sets `next` to the name of its successor.
 * Returns 1 if there is one, 0 if the sweep has no owner yet, or a negative errno. */
static int last_line(struct line *l, char next[24], int dir)
{
    strcpy(next, "owner");
    for (int i = 0; i < CHAIN_MAX; i++) {
        struct line found;
        int fd = read_line(&found, dir, next, O_RDONLY);
        if (fd == -ENOENT)
            return i > 0;
        if (fd < 0)
            return fd;
        close(fd);
        *l = found;
        snprintf(next, 24, "owner.%.16s", found.number);
    }
    return -ELOOP;
}

static enum sweep_owner_verdict watch(struct sweep_owner_watch *w, const struct line *l,
                                      const struct line *here)
{
    int64_t now = clock_ms();
    if (strcmp(w->number, l->number) != 0) {
        *w = (struct sweep_owner_watch){.since_ms = now};
        strcpy(w->number, l->number);
        strcpy(w->count, l->count);
    }
    w->moved = w->moved || strcmp(w->count, l->count) != 0;
    if (strcmp(l->count, RELEASED) == 0)
        return SWEEP_OWNER_NONE;
    return sweep_owner_judge(see(l, here), w->moved, now - w->since_ms);
}

/* ---- owning --------------------------------------------------------------------------------- */

/* Makes the file `name` with this opening's line. Returns 0 or a negative errno. */
static int put_line(const struct sweep_owner *o, const char *dir, const char *name)
{
    const struct line *l = &o->line;
    struct stat lock;
    AUTO(free) char *tmp = NULL, *path = xasprintf("%s/%s", dir, name);
    AUTO(free)
    char *text = xasprintf("%s %010u %d %llu %s %s %s %s\n", l->number, o->count, l->pid, l->start,
                           l->boot, l->space, l->lock, l->host);
    if (fstat(o->lock, &lock) < 0) /* the file gets the permissions of the lock */
        return -errno;
    AUTO(fd) int fd = file_create_tmp(&tmp, path, 0600);
    if (fd < 0)
        return fd;
    int rc = file_write_all(fd, text, strlen(text));
    if (rc == 0 && (fchmod(fd, lock.st_mode & 0777) < 0 || fsync(fd) < 0))
        rc = -errno;
    if (rc == 0 && link(tmp, path) < 0)
        rc = -errno;
    if (rc == -EPERM || rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EMLINK)
        rc = access(path, F_OK) == 0 ? -EEXIST : rename(tmp, path) < 0 ? -errno : 0;
    (void)unlink(tmp); /* after rename() there is none */
    return rc;
}

/* Becomes the successor of the last line. Returns 1; 0: another process was faster; a negative
 * errno. */
static int succeed(const struct sweep_owner *o, const char *dir, const char *name)
{
    struct line l;
    char next[24];
    int rc = put_line(o, dir, name);
    if (rc < 0 && rc != -EEXIST) /* NFS may repeat a request that was successful */
        return rc;
    int found = last_line(&l, next, o->dir);
    if (found < 0)
        return found;
    if (found && strcmp(l.number, o->line.number) == 0)
        return strcmp(name, "owner") != 0 && renameat(o->dir, name, o->dir, "owner") < 0 ? -errno
                                                                                         : 1;
    if (rc == 0)
        (void)unlinkat(o->dir, name, 0); /* `owner` does not lead to it */
    return 0;
}

static int try_to_own(struct sweep_owner *o, const char *dir, struct sweep_owner_watch *w,
                      struct err *e)
{
    char name[24];
    struct line l = {0};
    int rc = last_line(&l, name, o->dir);
    enum sweep_owner_verdict v = rc > 0 ? watch(w, &l, &o->line) : SWEEP_OWNER_NONE;
    w->undecided = v == SWEEP_OWNER_UNDECIDED;
    if (v != SWEEP_OWNER_NONE) {
        err_set(e, -EBUSY, "%s/owner names process %d on %s", dir, l.pid, l.host);
        return v == SWEEP_OWNER_RUNS ? -EBUSY : 0;
    }
    if (rc >= 0)
        rc = succeed(o, dir, name);
    return rc < 0 ? err_set(e, rc, "%s/owner: %s", dir, strerror(-rc)) : rc;
}

int sweep_owner_acquire(struct sweep_owner **out, const char *dir, struct sweep_owner_watch *w,
                        struct err *e)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000};
    struct sweep_owner_watch own = {0};
    uint64_t number = 0;
    AUTO(sweep_owner) struct sweep_owner *o = xzalloc(sizeof *o);
    AUTO(free) char *lock = xasprintf("%s/lock", dir);
    o->lock = -1;
    o->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (o->dir < 0)
        return err_set(e, -errno, "%s: %s", dir, strerror(errno));
    int rc = lockfile_acquire(&o->lock, lock, NULL, e);
    if (rc == 0 && (rc = entropy_fill(&number, sizeof number)) < 0)
        err_set(e, rc, "cannot get a random number: %s", strerror(-rc));
    snprintf(o->line.number, sizeof o->line.number, "%016" PRIx64, number);
    if (rc == 0)
        rc = describe_process(&o->line, o->lock, dir, e);
    while (rc == 0 && (rc = try_to_own(o, dir, w ? w : &own, e)) == 0) {
        if (w)
            return -EBUSY;
        if (own.since_ms && clock_ms() - own.since_ms < POLL_MS)
            log_warn("%s: another machine may work on this sweep: watching for %d s", dir,
                     SWEEP_OWNER_WATCH_MS / 1000);
        nanosleep(&pause, NULL);
    }
    if (rc < 0)
        return rc;
    *out = TAKE(o);
    return 0;
}

/* Checks the line, and writes `count` (NULL: nothing) to it. Each line is in another file, so this
 * never changes a successor's line. */
static int write_count(const struct sweep_owner *o, const char *count, struct err *e)
{
    struct line l;
    int fd = read_line(&l, o->dir, "owner", count ? O_RDWR : O_RDONLY);
    if (fd == -ESTALE) /* NFS: it was replaced between two requests */
        fd = read_line(&l, o->dir, "owner", count ? O_RDWR : O_RDONLY);
    if (fd < 0)
        return err_set(e, fd == -ENOENT ? -EOWNERDEAD : fd, "its file 'owner': %s", strerror(-fd));
    bool mine = strcmp(l.number, o->line.number) == 0;
    int rc = 0;
    if (mine && count && pwrite(fd, count, strlen(count), COUNT_AT) < 0)
        rc = err_set(e, -errno, "its file 'owner': %s", strerror(errno));
    if (close(fd) < 0 && rc == 0) /* NFS writes now */
        rc = err_set(e, -errno, "its file 'owner': %s", strerror(errno));
    return mine ? rc
                : err_set(e, -EOWNERDEAD, "process %d on %s has taken over this sweep", l.pid,
                          l.host);
}

int sweep_owner_check(struct sweep_owner *o, struct err *e)
{
    return write_count(o, NULL, e);
}

int sweep_owner_beat(struct sweep_owner *o, struct err *e)
{
    int64_t now = clock_ms();
    if (now - o->beat_ms < SWEEP_OWNER_BEAT_MS)
        return 0;
    char count[11];
    snprintf(count, sizeof count, "%010u", ++o->count);
    o->beat_ms = now;
    return write_count(o, count, e);
}

void sweep_owner_release(struct sweep_owner *o)
{
    if (!o)
        return;
    /* If this fails, the process ends or its successor waits. */
    if (o->dir >= 0 && o->line.pid)
        (void)write_count(o, RELEASED "  ", NULL);
    if (o->dir >= 0)
        close(o->dir);
    if (o->lock >= 0)
        close(o->lock);
    free(o);
}

struct lockfile_owner sweep_owner_read(const char *dir)
{
    AUTO(free) char *lock = xasprintf("%s/lock", dir), *path = xasprintf("%s/owner", dir);
    struct lockfile_owner out = {0};
    struct line l, here = {0};
    struct stat st = {0};
    /* A file that cannot be read names no owner. */
    if (lockfile_read_owner(&out, lock, NULL) == 0 && out.held)
        return out;
    AUTO(fd) int lock_fd = open(lock, O_RDONLY | O_CLOEXEC);
    AUTO(fd) int fd = read_line(&l, AT_FDCWD, path, O_RDONLY);
    if (fd < 0 || l.pid <= 0 || strcmp(l.count, RELEASED) == 0 || fstat(fd, &st) < 0 ||
        describe_process(&here, lock_fd, dir, NULL) < 0)
        return out;
    enum sweep_owner_process p = see(&l, &here);
    out.held = p == SWEEP_OWNER_LIVES ||
               (p == SWEEP_OWNER_UNSEEN && llabs((long long)(time(NULL) - st.st_mtime)) < LOOK_S);
    out.pid = l.pid;
    strcpy(out.host, l.host);
    return out;
}
