/* A library for LD_PRELOAD that records what a power failure would leave: the contents of files and
 * directories when they are synced, and the messages that are sent between them.
 *
 * SYNC_LOG is the file to which each event is appended: a line "KIND ID SIZE", and SIZE bytes.
 *
 *   sync ID  a file was synced: its contents
 *   dir ID   a directory was synced: a line "ID TYPE NAME" per entry; TYPE is d, l or f
 *   send 0   bytes sent to another process
 *
 * ID is the inode and the time of its creation, since inodes are used again. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ID_MAX = 64, LOG_FD = 900 };

static int log_fd = -1;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SYNC_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, LOG_FD); /* a number that no other file gets */
    close(fd);
}

static void append(const char *kind, const char *id, const void *bytes, size_t n)
{
    char head[ID_MAX + 64];
    int len = snprintf(head, sizeof head, "%s %s %zu\n", kind, id, n);
    struct iovec parts[] = {{head, (size_t)len}, {(void *)bytes, n}};
    ssize_t rc = writev(log_fd, parts, 2);
    if (rc < 0 && errno == EBADF)
        log_fd = -1; /* a guardian closes all files; it syncs none */
    else if (rc != len + (ssize_t)n)
        abort();
}

/* Returns the type of the file. */
static char identify(char id[ID_MAX], int dir, const char *name)
{
    struct statx st = {0};
    if (statx(dir, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &st))
        return 0;
    snprintf(id, ID_MAX, "%llu.%lld.%u", (unsigned long long)st.stx_ino,
             (long long)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
    return S_ISDIR(st.stx_mode) ? 'd' : S_ISLNK(st.stx_mode) ? 'l' : S_ISREG(st.stx_mode) ? 'f' : 0;
}

static void record_dir(int fd, const char *id)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (const struct dirent *d; dir && (d = readdir(dir));) {
        char of[ID_MAX], type = identify(of, fd, d->d_name);
        if (type && strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            fprintf(f, "%s %c %s\n", of, type, d->d_name);
    }
    fclose(f);
    if (dir)
        closedir(dir);
    append("dir", id, text, n);
    free(text);
}

/* The descriptor may be open for writing only. */
static void record_file(int fd, const char *id, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int in = open(path, O_RDONLY | O_CLOEXEC);
    char *bytes = malloc(size + 1);
    ssize_t n = pread(in, bytes, size, 0);
    append("sync", id, bytes, n > 0 ? (size_t)n : 0);
    free(bytes);
    close(in);
}

static int record(int fd, int (*sync)(int))
{
    char id[ID_MAX];
    struct stat st;
    if (log_fd < 0 || fstat(fd, &st) < 0 || !identify(id, fd, ""))
        return sync(fd);
    flock(log_fd, LOCK_EX); /* the events of processes are in the order in which they happened */
    int rc = sync(fd);
    if (rc == 0 && S_ISDIR(st.st_mode))
        record_dir(fd, id);
    else if (rc == 0)
        record_file(fd, id, (size_t)st.st_size);
    flock(log_fd, LOCK_UN);
    return rc;
}

int fsync(int fd)
{
    return record(fd, (int (*)(int))dlsym(RTLD_NEXT, "fsync"));
}

int fdatasync(int fd)
{
    return record(fd, (int (*)(int))dlsym(RTLD_NEXT, "fdatasync"));
}

ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    ssize_t (*next)(int, const void *, size_t, int) =
        (ssize_t(*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    if (log_fd >= 0)
        append("send", "0", bytes, n);
    return next(fd, bytes, n, flags);
}
