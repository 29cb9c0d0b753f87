#include "common/own_process.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "common/command.h"
#include "common/mem.h"

int own_process_dir_above(char **out, int levels, struct err *e)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0)
        return err_set(e, -errno, "/proc/self/exe: %s", strerror(errno));
    path[n] = '\0';
    for (int i = 0; i < levels; i++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return err_set(e, -ENOENT, "this program has no directory %d levels up", levels);
        *slash = '\0';
    }
    *out = xstrdup(path);
    return 0;
}

/* Sets `*out` to "PREFIX/DIR/NAME". */
static int below_prefix(char **out, const char *dir, const char *name, struct err *e)
{
    AUTO(free) char *own = NULL, *prefix = NULL;
    int rc = own_process_dir_above(&own, 1, e);
    if (rc < 0)
        return rc;
    const char *last = strrchr(own, '/');
    rc = own_process_dir_above(&prefix, last && strcmp(last, "/bin") == 0 ? 2 : 3, e);
    if (rc == 0)
        *out = xasprintf("%s/%s/%s", prefix, dir, name);
    return rc;
}

int own_process_sibling(char **out, const char *name, struct err *e)
{
    return below_prefix(out, strcmp(name, "drover") == 0 ? "bin" : "libexec/drover", name, e);
}

int own_process_share(char **out, const char *name, struct err *e)
{
    return below_prefix(out, "share/drover", name, e);
}

int own_process_find_program(char **out, const char *name, const char *path)
{
    AUTO(free) char *drover = NULL;
    char own[PATH_MAX] = "", real[PATH_MAX];
    if (own_process_sibling(&drover, "drover", NULL) == 0)
        (void)!realpath(drover, own);
    bool is_path = strchr(name, '/') != NULL;
    AUTO(free) char *list = xstrdup(is_path ? "" : path ? path : "/usr/local/bin:/usr/bin:/bin");
    for (char *rest = list, *dir; (dir = strsep(&rest, ":"));) {
        AUTO(free)
        char *file = is_path ? xstrdup(name) : xasprintf("%s/%s", *dir ? dir : ".", name);
        if (access(file, X_OK) == 0 && realpath(file, real) && strcmp(real, own) != 0) {
            *out = TAKE(file);
            return 0;
        }
    }
    return -ENOENT;
}

void own_process_ensure_std_fds(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return;
}

int own_process_check_files(struct err *e)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= OWN_PROCESS_FILES_MIN)
        return 0;
    err_set(e, -EMFILE, "a process may open only %d files (ulimit -n): drover needs at least %d",
            (int)r.rlim_cur, OWN_PROCESS_FILES_MIN);
    return err_hint(e, "ulimit -n 1024");
}

static void *reallocate(void *p, size_t size)
{
    return xrealloc(p, 1, size);
}

void own_process_exit_without_memory(void)
{
    json_set_alloc_funcs(xzalloc, free);
    (void)uv_replace_allocator(xzalloc, reallocate, xcalloc, free); /* fails only without these */
}

static bool has_reader(int fd)
{
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, 0) <= 0 || !(p.revents & POLLERR);
}

int own_process_flush(int status)
{
    errno = 0;
    bool flushed = fflush(stdout) == 0;
    int error = errno;
    if ((flushed && !ferror(stdout)) || !has_reader(STDOUT_FILENO))
        return status;
    fprintf(stderr, "drover: stdout: %s\n",
            error ? strerror(error) : "a part of the output could not be written");
    return status ? status : EXIT_STATUS_FAILED;
}
