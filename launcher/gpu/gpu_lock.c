#include "launcher/gpu/gpu_lock.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <inttypes.h>
#include <link.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>

#include "common/entropy.h"
#include "common/fnv_hash.h"

enum { SELECTION_POLL_MS = 2, SELECTION_WAIT_MS = 5000, GROUPS_MAX = 1024, PASSWD_SIZE = 4096 };
enum { BYTE_TRIES = 5, BYTE_PAUSE_MS = 20 };

/* The lock of a GPU is PREFIX + PID + "." + RANDOM + "/" + UUID. A random number
 * prevents that another user binds the name before. */
#define PREFIX "drover-gpu/"
#define SELECTION "drover-gpu-selection"
/* A placement that waits has the name WAIT + PID + "." + RANDOM + "/" + ARRIVAL + "/" + GPUS. */
#define WAIT "drover-gpu-wait/"
#define DEVICES "/dev/nvidia[0-9]*"
#define CONTROL_DEVICE "/dev/nvidiactl"

/* Returns a socket with the abstract name, or -errno.
 *   -EADDRINUSE  another process has the name */
static int bind_name(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    if (len > sizeof a.sun_path - 1)
        return -ENAMETOOLONG;
    memcpy(a.sun_path + 1, name, len); /* the first byte is 0: an abstract name */
    len += offsetof(struct sockaddr_un, sun_path) + 1;
    AUTO(fd) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, (socklen_t)len) < 0)
        return -errno;
    return fd_take(&fd);
}

/* ---- who may use a GPU ---------------------------------------------------------------------- */

static bool has_group(uid_t uid, gid_t group)
{
    struct passwd entry, *pw = NULL;
    char space[PASSWD_SIZE];
    gid_t groups[GROUPS_MAX];
    int n = GROUPS_MAX;
    if (getpwuid_r(uid, &entry, space, sizeof space, &pw) != 0 || !pw)
        return false;
    n = getgrouplist(pw->pw_name, pw->pw_gid, groups, &n) < 0 ? GROUPS_MAX : n;
    for (int i = 0; i < n; i++)
        if (groups[i] == group)
            return true;
    return false;
}

static bool may_use(const char *device, uid_t uid)
{
    struct stat st;
    if (stat(device, &st) < 0)
        return false;
    return (st.st_mode & S_IWOTH) || (st.st_uid == uid && st.st_mode & S_IWUSR) ||
           getxattr(device, "system.posix_acl_access", NULL, 0) > 0 ||
           (st.st_mode & S_IWGRP && has_group(uid, st.st_gid));
}

bool gpu_lock_user_may(const char *devices, uid_t uid)
{
    glob_t all = {0};
    bool may = uid == 0 || uid == geteuid() || glob(devices, 0, NULL, &all) != 0;
    for (size_t i = 0; !may && i < all.gl_pathc; i++)
        may = may_use(all.gl_pathv[i], uid);
    globfree(&all);
    return may;
}

/* ---- who holds a lock ----------------------------------------------------------------------- */

/* Asks the kernel which user has opened a socket (sock_diag(7)). `name`: its abstract name without
 * the first byte; NULL: any.
 *   -ENOENT  there is no such socket, or the kernel is older than Linux 5.3 */
static int user_of(uid_t *out, unsigned inode, const char *name)
{
    const struct {
        struct nlmsghdr head;
        struct unix_diag_req diag;
    } query = {{.nlmsg_len = sizeof query,
                .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                .nlmsg_flags = NLM_F_REQUEST},
               {.sdiag_family = AF_UNIX,
                .udiag_states = ~0U,
                .udiag_ino = inode,
                .udiag_show = UDIAG_SHOW_UID | UDIAG_SHOW_NAME,
                .udiag_cookie = {~0U, ~0U}}};
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } answer = {0};
    bool named = !name, told = false;
    AUTO(fd) int sock = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (sock < 0 || send(sock, &query, sizeof query, 0) < 0)
        return -errno;
    ssize_t n = recv(sock, &answer, sizeof answer, MSG_DONTWAIT);
    size_t end = n > 0 && answer.head.nlmsg_type == SOCK_DIAG_BY_FAMILY ? (size_t)n : 0;
    struct nlattr a;
    for (size_t at = NLMSG_LENGTH(sizeof(struct unix_diag_msg)); at + NLA_HDRLEN <= end;
         at += NLA_ALIGN(a.nla_len)) {
        memcpy(&a, answer.bytes + at, sizeof a);
        const char *data = answer.bytes + at + NLA_HDRLEN;
        if (a.nla_len < NLA_HDRLEN || at + a.nla_len > end)
            break;
        size_t len = a.nla_len - NLA_HDRLEN;
        if (a.nla_type == UNIX_DIAG_NAME && name)
            named = len == strlen(name) + 1 && memcmp(data + 1, name, len - 1) == 0;
        told |= a.nla_type == UNIX_DIAG_UID;
        if (a.nla_type == UNIX_DIAG_UID)
            memcpy(out, data, sizeof *out);
    }
    return named && told ? 0 : -ENOENT;
}

static bool kernel_tells_users(void)
{
    struct stat st;
    uid_t uid;
    AUTO(fd) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && fstat(fd, &st) == 0 && user_of(&uid, (unsigned)st.st_ino, NULL) == 0;
}

/* Returns false if the user has no access to a GPU, if the process is one of another user, or if no
 * socket has the name: a name may contain newlines, and so look like a line of another socket. */
static bool is_lock(unsigned inode, const char *name, int pid)
{
    char path[64];
    struct stat st;
    uid_t uid;
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (user_of(&uid, inode, name) < 0)
        return !kernel_tells_users();
    return gpu_lock_user_may(DEVICES, uid) && (stat(path, &st) < 0 || st.st_uid == uid);
}

/* Calls `visit` for each name "PREFIX PID.RANDOM/TEXT" that counts, but for the socket `own`, until
 * it returns true; returns the process of that name, or 0. /proc/net/unix lists the names of this
 * network namespace, with '@' for the first byte. */
static pid_t find_name(const char *prefix, ino_t own, bool (*visit)(const char *text, void *arg),
                       void *arg)
{
    AUTO(file) FILE *f = fopen("/proc/net/unix", "re");
    AUTO(free) char *line = NULL, *start = xasprintf(" @%s", prefix);
    size_t size = 0;
    while (f && getline(&line, &size, f) > 0) {
        const char *at = strstr(line, start);
        unsigned inode;
        int pid, end = 0;
        line[strcspn(line, "\n")] = '\0';
        if (!at || sscanf(line, "%*x: %*x %*x %*x %*x %*x %u", &inode) != 1 || inode == own)
            continue;
        const char *words = at + strlen(start);
        if (sscanf(words, "%d.%*[0-9a-f]/%n", &pid, &end) == 1 && end > 0 && pid > 0 &&
            visit(words + end, arg) && is_lock(inode, at + strlen(" @"), pid))
            return pid;
    }
    return 0;
}

static bool is_uuid(const char *text, void *uuid)
{
    return strcmp(text, uuid) == 0;
}

/* Returns the process that holds the GPU's lock by another socket than `own`; 0: none. */
static pid_t find_holder(const char *uuid, ino_t own)
{
    return *uuid ? find_name(PREFIX, own, is_uuid, (void *)uuid) : 0;
}

/* ---- the lock that containers share ---------------------------------------------------------- */

static int open_nvml(void)
{
    const char *name = getenv("DROVER_NVML_LIB");
    void *lib = dlopen(name && *name ? name : "libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    struct link_map *map = NULL;
    int rc = lib ? dlinfo(lib, RTLD_DI_LINKMAP, &map) : -1; /* it stays loaded: see gpu_lock.h */
    return rc == 0 ? open(map->l_name, O_RDONLY | O_CLOEXEC) : -1;
}

int gpu_lock_file(const char *device)
{
    struct stat st;
    bool all_users = stat(device, &st) < 0 || st.st_mode & S_IWOTH;
    return all_users ? open_nvml() : open(device, O_RDONLY | O_CLOEXEC);
}

/* Sets the lock of the GPU's byte, or asks for one that is in the way (fcntl(2)). Returns its type:
 * F_UNLCK if there is none, or if the file system has no such locks. */
static int lock_byte(int fd, int command, short type, const char *uuid)
{
    struct flock f = {.l_type = type,
                      .l_whence = SEEK_SET,
                      .l_start = (off_t)(fnv_hash_text(FNV_HASH_INIT, uuid) >> 2),
                      .l_len = 1};
    return fd >= 0 && fcntl(fd, command, &f) == 0 ? f.l_type : F_UNLCK;
}

static bool byte_is_locked(int fd, const char *uuid)
{
    return lock_byte(fd, F_OFD_GETLK, F_WRLCK, uuid) != F_UNLCK;
}

/* Two placements that lock at the same moment see each other: both unlock, and try again. */
static bool lock_shared(int fd, const char *uuid, unsigned random)
{
    for (int i = 0; i < BYTE_TRIES; i++, random /= BYTE_PAUSE_MS) {
        const struct timespec pause = {.tv_nsec = (1 + random % BYTE_PAUSE_MS) * 1000000L};
        (void)lock_byte(fd, F_OFD_SETLK, F_RDLCK, uuid);
        if (!byte_is_locked(fd, uuid))
            return true;
        (void)lock_byte(fd, F_OFD_SETLK, F_UNLCK, uuid);
        nanosleep(&pause, NULL);
    }
    return false;
}

/* ---- locks ---------------------------------------------------------------------------------- */

static void keep(struct gpu_locks *l, int fd)
{
    l->fds = xrealloc(l->fds, (size_t)l->count + 1, sizeof *l->fds);
    l->fds[l->count++] = fd;
}

int gpu_locks_add(struct gpu_locks *l, const char *uuid, struct err *e)
{
    unsigned random = 0;
    struct stat st = {0};
    if (!*uuid)
        return err_set(e, -EINVAL, "a GPU without a UUID cannot be locked");
    int rc = entropy_fill(&random, sizeof random);
    AUTO(free) char *name = xasprintf(PREFIX "%d.%08x/%s", (int)getpid(), random, uuid);
    AUTO(fd) int fd = rc < 0 ? rc : bind_name(name);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e,
                       fd == -ENAMETOOLONG ? -EINVAL
                       : fd < 0            ? fd
                                           : -errno,
                       "GPU %s: lock: %s", uuid, strerror(fd < 0 ? -fd : errno));
    AUTO(fd) int file = gpu_lock_file(CONTROL_DEVICE);
    if (find_holder(uuid, st.st_ino) != 0 || !lock_shared(file, uuid, random))
        return err_set(e, -EBUSY, "GPU %s: another placement holds its lock", uuid);
    keep(l, fd_take(&fd));
    if (file >= 0)
        keep(l, fd_take(&file));
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
    return gpu_lock_owner(uuid) != 0;
}

pid_t gpu_lock_owner(const char *uuid)
{
    pid_t pid = find_holder(uuid, 0);
    AUTO(fd) int file = pid == 0 ? gpu_lock_file(CONTROL_DEVICE) : -1;
    return pid == 0 && byte_is_locked(file, uuid) ? GPU_LOCK_OF_CONTAINER : pid;
}

/* ---- the queue ------------------------------------------------------------------------------ */

/* The GPUs of a name are bits at the hashes of their UUIDs. Two GPUs may share a bit: a placement
 * then waits for an earlier one that does not want its GPU. */
enum { WAIT_BITS = 128 };

static unsigned wait_bit(const char *uuid)
{
    return (unsigned)(fnv_hash_text(FNV_HASH_INIT, uuid) % WAIT_BITS);
}

int gpu_lock_wait(const char *const *uuids, int count, uint64_t arrived_ns)
{
    uint64_t bits[WAIT_BITS / 64] = {0};
    unsigned random = 0;
    int rc = entropy_fill(&random, sizeof random);
    for (int i = 0; i < count; i++)
        bits[wait_bit(uuids[i]) / 64] |= UINT64_C(1) << wait_bit(uuids[i]) % 64;
    AUTO(free)
    char *name = xasprintf(WAIT "%d.%08x/%016" PRIx64 "/%016" PRIx64 "%016" PRIx64, (int)getpid(),
                           random, arrived_ns, bits[0], bits[1]);
    return rc < 0 ? rc : bind_name(name);
}

struct wait_query {
    uint64_t before_ns;
    unsigned bit;
};

static bool is_earlier(const char *text, void *arg)
{
    const struct wait_query *q = arg;
    uint64_t arrived, bits[WAIT_BITS / 64];
    int end = 0;
    return sscanf(text, "%16" SCNx64 "/%16" SCNx64 "%16" SCNx64 "%n", &arrived, &bits[0], &bits[1],
                  &end) == 3 &&
           !text[end] && arrived < q->before_ns && bits[q->bit / 64] >> q->bit % 64 & 1;
}

bool gpu_lock_is_awaited(const char *uuid, uint64_t arrived_ns)
{
    struct wait_query q = {arrived_ns, wait_bit(uuid)};
    return find_name(WAIT, 0, is_earlier, &q) != 0;
}

uint64_t gpu_lock_state(void)
{
    static const char *const prefixes[] = {"@" PREFIX, "@" WAIT};
    AUTO(file) FILE *f = fopen("/proc/net/unix", "re");
    AUTO(free) char *line = NULL;
    size_t size = 0;
    uint64_t sum = 0; /* the kernel lists the names in any order */
    while (f && getline(&line, &size, f) > 0)
        for (size_t i = 0; i < COUNT_OF(prefixes); i++) {
            const char *name = strstr(line, prefixes[i]);
            sum += name ? fnv_hash_text(FNV_HASH_INIT, name) : 0;
        }
    return sum;
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
