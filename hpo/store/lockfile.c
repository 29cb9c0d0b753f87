#include "hpo/store/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/mem.h"

static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

static int read_owner(struct lockfile_owner *out, int fd, const char *path, struct err *e)
{
    struct flock lock = whole_file();
    if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    struct lockfile_owner o = {.held = lock.l_type != F_UNLCK};
    char text[600] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    /* If there is no newline yet, the owner is still writing. */
    int pid = 0;
    if (memchr(text, '\n', (size_t)n) && sscanf(text, "%d %255s %255s", &pid, o.host, o.note) >= 2)
        o.pid = pid;
    *out = o;
    return 0;
}

static int write_owner(int fd, const char *path, const char *note, struct err *e)
{
    struct utsname u;
    char text[600];
    if (uname(&u) < 0)
        return err_set(e, -errno, "uname: %s", strerror(errno));
    int len =
        snprintf(text, sizeof text, "%d %s %.255s\n", (int)getpid(), u.nodename, note ? note : "");
    /* In one step, since others read it at any moment; the rest of a longer line is cut then. */
    if (pwrite(fd, text, (size_t)len, 0) != len || ftruncate(fd, len) < 0)
        return err_set(e, errno ? -errno : -EIO, "%s: %s", path, strerror(errno ? errno : EIO));
    return 0;
}

int lockfile_acquire(int *out, const char *path, const char *note, struct err *e)
{
    AUTO(fd) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    struct flock lock = whole_file();
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
        if (errno != EAGAIN && errno != EACCES)
            return err_set(e, -errno, "%s: lock: %s", path, strerror(errno));
        struct lockfile_owner o = {0};
        if (read_owner(&o, fd, path, NULL) < 0 || o.pid == 0)
            return err_set(e, -EBUSY, "%s is held by another process", path);
        return err_set(e, -EBUSY, "%s is held by process %d on %s", path, (int)o.pid, o.host);
    }
    int rc = write_owner(fd, path, note, e);
    if (rc < 0)
        return rc;
    *out = fd_take(&fd);
    return 0;
}

int lockfile_read_owner(struct lockfile_owner *out, const char *path, struct err *e)
{
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *out = (struct lockfile_owner){0};
        return 0;
    }
    if (fd < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    return read_owner(out, fd, path, e);
}

bool lockfile_is_gone(int fd, const char *path)
{
    struct stat held, there;
    if (fstat(fd, &held) < 0)
        return false;
    if (stat(path, &there) < 0)
        return errno == ENOENT;
    return held.st_ino != there.st_ino || held.st_dev != there.st_dev;
}
