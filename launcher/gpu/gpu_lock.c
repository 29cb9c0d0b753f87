#include "launcher/gpu/gpu_lock.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum { SELECTION_POLL_MS = 2, SELECTION_WAIT_MS = 5000 };

/* The lock of a GPU is PREFIX + UUID. Its owner has a second name, OWNER + PID + "/" + UUID, since
 * the kernel does not tell which process has bound a name. */
#define PREFIX "drover-gpu/"
#define OWNER "drover-gpu-owner/"
#define SELECTION "drover-gpu-selection"

/* Returns a socket after `call`, which is bind() or connect(), or -errno. */
static int open_name(int (*call)(int, const struct sockaddr *, socklen_t), const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    if (len > sizeof a.sun_path - 1)
        return -ENAMETOOLONG;
    memcpy(a.sun_path + 1, name, len); /* the first byte is 0: an abstract name */
    len += offsetof(struct sockaddr_un, sun_path) + 1;
    AUTO(fd) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || call(fd, (const struct sockaddr *)&a, (socklen_t)len) < 0)
        return -errno;
    return fd_take(&fd);
}

/* -EADDRINUSE: another process has the name. */
static int bind_name(const char *name)
{
    return open_name(bind, name);
}

static void keep(struct gpu_locks *l, int fd)
{
    l->fds = xrealloc(l->fds, (size_t)l->count + 1, sizeof *l->fds);
    l->fds[l->count++] = fd;
}

int gpu_locks_add(struct gpu_locks *l, const char *uuid, struct err *e)
{
    AUTO(free) char *name = xasprintf(PREFIX "%s", uuid);
    AUTO(free) char *owner = xasprintf(OWNER "%d/%s", (int)getpid(), uuid);
    if (!*uuid)
        return err_set(e, -EINVAL, "a GPU without a UUID cannot be locked");
    int fd = bind_name(name);
    if (fd == -EADDRINUSE)
        return err_set(e, -EBUSY, "GPU %s: another placement holds its lock", uuid);
    if (fd < 0)
        return err_set(e, fd == -ENAMETOOLONG ? -EINVAL : fd, "GPU %s: lock: %s", uuid,
                       strerror(-fd));
    keep(l, fd);
    fd = bind_name(owner); /* without it the lock only lacks an owner in messages */
    if (fd >= 0)
        keep(l, fd);
    return 0;
}

void gpu_locks_free(struct gpu_locks *l)
{
    for (int i = 0; i < l->count; i++)
        close(l->fds[i]);
    free(l->fds);
    *l = (struct gpu_locks){0};
}

bool gpu_lock_is_held(const char *uuid)
{
    AUTO(free) char *name = xasprintf(PREFIX "%s", uuid);
    AUTO(fd) int fd = *uuid ? open_name(connect, name) : -1; /* bind() would hold it for a moment */
    return fd >= 0;
}

/* /proc/net/unix lists the names of this network namespace, with '@' for the first byte. */
pid_t gpu_lock_owner(const char *uuid)
{
    AUTO(file) FILE *f = fopen("/proc/net/unix", "re");
    AUTO(free) char *line = NULL;
    size_t size = 0;
    int pid = 0, end = 0;
    while (f && getline(&line, &size, f) > 0) {
        const char *at = strstr(line, "@" OWNER);
        if (!at || sscanf(at + strlen("@" OWNER), "%d/%n", &pid, &end) != 1)
            continue;
        at += strlen("@" OWNER) + end;
        size_t len = strcspn(at, "\n");
        if (len == strlen(uuid) && memcmp(at, uuid, len) == 0)
            return pid;
    }
    return 0;
}

int gpu_lock_selection(void)
{
    const struct timespec pause = {.tv_nsec = SELECTION_POLL_MS * 1000000L};
    int fd = -EADDRINUSE;
    for (int ms = 0; ms < SELECTION_WAIT_MS; ms += SELECTION_POLL_MS) {
        fd = bind_name(SELECTION);
        if (fd != -EADDRINUSE)
            break;
        nanosleep(&pause, NULL);
    }
    return fd < 0 ? -1 : fd;
}
