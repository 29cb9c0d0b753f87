#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "common/byte_size.h"
#include "common/command.h"
#include "common/durable.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/doctor/checks/checks.h"
#include "launcher/doctor/core/sysroot.h"

/* The first bytes of an SQLite file (https://www.sqlite.org/fileformat.html). */
static const char magic[16] = "SQLite format 3";
enum { HEADER_BYTES = 100, READ_VERSION = 19, WITH_WAL = 2 };

enum { WAL_BYTES_MAX = 100 << 20 };

/* The process that coordinates the sweep, as its lock file names it. */
struct owner {
    bool held;
    int pid; /* 0: unknown */
    char host[256];
};

static struct owner read_owner(const char *dir)
{
    struct owner o = {0};
    char text[600] = "";
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    AUTO(free) char *path = xasprintf("%s/lock", dir);
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fcntl(fd, F_OFD_GETLK, &lock) < 0)
        return o;
    o.held = lock.l_type != F_UNLCK;
    if (pread(fd, text, sizeof text - 1, 0) <= 0 || sscanf(text, "%d %255s", &o.pid, o.host) != 2)
        o.pid = 0;
    return o;
}

/* Returns true if the coordinator's socket still exists. A coordinator that ends removes it. */
static bool has_socket(const char *dir)
{
    static const char scheme[] = "ipc://";
    struct stat st;
    AUTO(free) char *path = xasprintf("%s/endpoint", dir);
    AUTO(free) char *address = file_line(path);
    return address && strncmp(address, scheme, strlen(scheme)) == 0 &&
           lstat(address + strlen(scheme), &st) == 0;
}

/* Returns true, with a failure, if the process that should own the lock is dead. */
static bool fails_owner(struct check_result *r, const char *dir)
{
    struct owner o = read_owner(dir);
    struct utsname u;
    if (o.pid == 0 || uname(&u) < 0 || strcmp(u.nodename, o.host) != 0)
        return false;
    bool alive = kill(o.pid, 0) == 0 || errno == EPERM;
    if (alive || (!o.held && !has_socket(dir)))
        return false;
    check_bad(r, CHECK_FAIL, "a coordinator that runs, or one that has ended", "the sweep's lock",
              o.held ? "process %d is dead, and another one still holds its lock"
                     : "process %d is dead, and the sweep has not ended",
              o.pid);
    AUTO(free) char *real = realpath(dir, NULL); /* the directory has the sweep's name */
    char *name = real ? strrchr(real, '/') : NULL;
    if (!o.held && name) {
        *name++ = '\0';
        AUTO(free) char *resume = command_to_paste("drover sweep resume", name, real, "sweeps");
        check_advise(r, "%s", resume);
    } else if (o.held) {
        check_advise(r, "fuser %s/lock names the process that holds it", dir);
    }
    return true;
}

/* Returns the processes that have a file open: "python (pid 12), …"; NULL: none. */
static char *users_of(const char *file)
{
    AUTO(free) char *real = realpath(file, NULL);
    AUTO(strv) char **pids = sysroot_list("/proc");
    AUTO(strbuf) struct strbuf b = {0};
    for (char **pid = pids; real && pid && *pid; pid++) {
        AUTO(strv)
        char **fds = isdigit((unsigned char)**pid) ? sysroot_list("/proc/%s/fd", *pid) : NULL;
        for (char **fd = fds; fd && *fd; fd++) {
            char to[4096] = "";
            AUTO(free) char *path = sysroot_path("/proc/%s/fd/%s", *pid, *fd);
            if (readlink(path, to, sizeof to - 1) < 0 || strcmp(to, real) != 0)
                continue;
            AUTO(free) char *name = sysroot_read("/proc/%s/comm", *pid);
            strbuf_printf(&b, "%s%s (pid %s)", b.len ? ", " : "", name ? name : "?", *pid);
            break;
        }
    }
    return b.len ? strbuf_take(&b) : NULL;
}

static void fail_wal(struct check_result *r, const char *wal, off_t size)
{
    char text[16];
    check_bad(r, CHECK_FAIL, "100 MB or less", wal, "%s has %s", wal,
              byte_size_format(text, sizeof text, (uint64_t)size));
    AUTO(free) char *users = users_of(wal);
    if (users)
        check_advise(r, "a reader keeps the file from being emptied; end it: %s", users);
}

/* Judges the bytes of the store. Returns true, with a result, if they are wrong. */
static bool fails_header(struct check_result *r, const char *dir, const char *db)
{
    char head[HEADER_BYTES] = "";
    AUTO(fd) int fd = open(db, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
    const char *type = durable_network(dir);
    if (n < 0)
        check_bad(r, CHECK_FAIL, "readable", db, "%s: %s", db, strerror(errno));
    else if (n > 0 && (n < HEADER_BYTES || memcmp(head, magic, sizeof magic) != 0))
        check_bad(r, CHECK_FAIL, "an SQLite file", db, "%s is damaged or not a store", db);
    else if (n > 0 && head[READ_VERSION] == WITH_WAL && type)
        check_bad(r, CHECK_FAIL, "a rollback journal", db, "%s has a WAL on %s", db, type);
    else
        return false;
    if (type && n > 0 && head[READ_VERSION] == WITH_WAL)
        check_advise(r, "a WAL does not work on a network file system: continue the sweep on a "
                        "local disk (--dir)");
    return true;
}

static void check_store(struct check_result *r, struct check_env *env)
{
    const char *dir = env->sweep_dir;
    struct stat st;
    if (!dir)
        return check_skip(r, "no sweep was given (drover doctor --sweep DIR)");
    AUTO(free) char *db = xasprintf("%s/sweep.db", dir);
    AUTO(free) char *wal = xasprintf("%s-wal", db);
    if (access(db, F_OK) < 0 && errno == ENOENT)
        check_skip(r, "%s does not exist", db);
    else if (fails_header(r, dir, db) || fails_owner(r, dir))
        return;
    else if (stat(wal, &st) == 0 && st.st_size > WAL_BYTES_MAX)
        fail_wal(r, wal, st.st_size);
    else
        check_ok(r, db, "%s", db);
}

const struct check checks_store[] = {
    {"store.ok", "store of the sweep", CHECK_LONG, check_store,
     .why = "All results of a sweep are in its store. A damaged store, or one whose coordinator "
            "was killed, stops the sweep.",
     .advice = "copy the sweep's directory before anything else changes it"},
    {0},
};
