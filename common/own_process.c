#include "common/own_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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
