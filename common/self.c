#include "common/self.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/mem.h"

int self_path(char **out, int up, struct err *e)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0)
        return err_set(e, -errno, "/proc/self/exe: %s", strerror(errno));
    path[n] = '\0';
    for (int i = 0; i < up; i++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return err_set(e, -ENOENT, "nothing lies %d levels above this program", up);
        *slash = '\0';
    }
    *out = xstrdup(path);
    return 0;
}
