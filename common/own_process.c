#include "common/own_process.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

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

int own_process_sibling(char **out, const char *name, struct err *e)
{
    AUTO(free) char *dir = NULL, *above = NULL;
    int rc = own_process_dir_above(&dir, 1, e);
    if (rc < 0)
        return rc;
    const char *last = strrchr(dir, '/');
    rc = own_process_dir_above(&above, last && strcmp(last, "/bin") == 0 ? 2 : 3, e);
    if (rc < 0)
        return rc;
    const char *subdir = strcmp(name, "drover") == 0 ? "bin" : "libexec/drover";
    *out = xasprintf("%s/%s/%s", above, subdir, name);
    return 0;
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

static void *allocate(size_t size)
{
    return xrealloc(NULL, 1, size);
}

static void *reallocate(void *p, size_t size)
{
    return xrealloc(p, 1, size);
}

void own_process_exit_without_memory(void)
{
    json_set_alloc_funcs(allocate, free);
    (void)uv_replace_allocator(allocate, reallocate, xcalloc, free); /* fails only without these */
}
