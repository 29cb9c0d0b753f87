#include "launcher/node/port_hold.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/file.h"
#include "common/listen.h"
#include "common/mem.h"

enum { LISTENING = 0x0A }; /* in /proc/net/tcp */

/* ---- owner of a port ------------------------------------------------------------------------ */

/* Sets the name of the mark: an abstract Unix socket, in the port's network namespace, that marks
 * the port as held. The kernel does not list TCP sockets that are bound but do not listen. But it
 * lists the mark, by which its owner is found. Another user can take the name, as another user can
 * take the port. */
static socklen_t mark_name(struct sockaddr_un *a, int port)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "drover-port-%d", port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Returns the inode of the socket that has the port's mark; 0: not found. */
static uintmax_t inode_of_mark(int port)
{
    AUTO(free) char *text = file_text("/proc/net/unix");
    struct sockaddr_un a;
    (void)mark_name(&a, port);
    char name[128];
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        uintmax_t inode;
        if (sscanf(line, "%*s %*x %*x %*x %*x %*x %ju @%127s", &inode, name) == 2 &&
            strcmp(name, a.sun_path + 1) == 0)
            return inode;
    }
    return 0;
}

/* Returns the inode of the socket that listens on `port`; 0: not found. */
static uintmax_t inode_of_listener(const char *table, int port)
{
    AUTO(free) char *text = file_text(table);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        unsigned local, state;
        uintmax_t inode;
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*d %*d %ju",
                   &local, &state, &inode) == 3 &&
            (int)local == port && state == LISTENING && inode != 0)
            return inode;
    }
    return 0;
}

static bool owns_socket(int pid, const char *link_text)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    AUTO(dir) DIR *fds = opendir(path);
    for (struct dirent *d; fds && (d = readdir(fds));) {
        ssize_t n = readlinkat(dirfd(fds), d->d_name, text, sizeof text - 1);
        if (n > 0 && (text[n] = '\0', strcmp(text, link_text) == 0))
            return true;
    }
    return false;
}

/* Writes " by process PID (command)" to `out`, or nothing if the process belongs to another
 * user. */
static void find_owner(char *out, size_t size, int port)
{
    out[0] = '\0';
    uintmax_t inode = inode_of_listener("/proc/net/tcp6", port);
    if (inode == 0)
        inode = inode_of_listener("/proc/net/tcp", port);
    if (inode == 0)
        inode = inode_of_mark(port);
    if (inode == 0)
        return;
    char link_text[40];
    snprintf(link_text, sizeof link_text, "socket:[%ju]", inode);
    AUTO(dir) DIR *proc = opendir("/proc");
    for (struct dirent *d; proc && (d = readdir(proc));) {
        int pid = atoi(d->d_name);
        if (pid <= 0 || !owns_socket(pid, link_text))
            continue;
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        AUTO(free) char *command = file_line(path);
        snprintf(out, size, " by process %d (%s)", pid, command ? command : "?");
        return;
    }
}

/* ---- holding a port ------------------------------------------------------------------------- */

/* Marks the port as held. Sends `*fd` in a message to the mark's own socket, and replaces `*fd` by
 * this socket, so that one descriptor keeps both sockets open. Returns 0, or -EADDRINUSE if another
 * process holds the port, or another -errno. */
static int claim_mark(int *fd, int port)
{
    struct sockaddr_un a;
    socklen_t len = mark_name(&a, port);
    AUTO(fd) int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    union {
        char space[CMSG_SPACE(sizeof *fd)];
        struct cmsghdr align;
    } control = {0};
    struct iovec byte = {.iov_base = "", .iov_len = 1};
    struct msghdr m = {.msg_name = &a,
                       .msg_namelen = len,
                       .msg_iov = &byte,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof control.space};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof *fd);
    memcpy(CMSG_DATA(c), fd, sizeof *fd);
    if (s < 0 || bind(s, (struct sockaddr *)&a, len) < 0 || sendmsg(s, &m, MSG_DONTWAIT) < 0)
        return -errno;
    close(*fd);
    *fd = fd_take(&s);
    return 0;
}

/* Returns 0, or a negative errno. */
static int hold(int *fd, int *port, int requested)
{
    struct listen_address everywhere = listen_everywhere(requested);
    AUTO(fd) int held_fd = listen_bind(&everywhere, LISTEN_REUSE);
    int bound = listen_port(&everywhere.at.any);
    int rc = held_fd < 0 ? held_fd : claim_mark(&held_fd, bound);
    if (rc < 0)
        return rc;
    *port = bound;
    *fd = fd_take(&held_fd);
    return 0;
}

int port_hold_in(int *fd, int *port, struct host_port_range ports, struct err *e)
{
    if (ports.first == 0)
        return port_hold(fd, port, 0, e);
    int rc = -EADDRINUSE;
    for (int i = ports.first; i <= ports.last && rc < 0; i++)
        rc = hold(fd, port, i);
    if (rc == 0)
        return 0;
    char owner[128];
    find_owner(owner, sizeof owner, ports.last);
    err_set(e, rc, "--port-range %d-%d: no free port: %d: %s%s", ports.first, ports.last,
            ports.last, rc == -EADDRINUSE ? "in use" : strerror(-rc), owner);
    return err_hint(e, "give a wider range: a job needs up to 3 ports on a node");
}

int port_hold(int *fd, int *port, int requested, struct err *e)
{
    if (requested < 0 || requested > 65535)
        return err_set(e, -EINVAL, "MASTER_PORT %d: must be 1 to 65535", requested);
    int rc = hold(fd, port, requested);
    if (rc == 0)
        return 0;
    if (requested == 0)
        return err_set(e, rc, "MASTER_PORT: no free port: %s", strerror(-rc));
    char owner[128] = "";
    if (rc == -EADDRINUSE)
        find_owner(owner, sizeof owner, requested);
    err_set(e, rc, "MASTER_PORT %d: %s%s", requested, strerror(-rc), owner);
    return err_hint(e, "omit the port: drover chooses a free one and holds it");
}
