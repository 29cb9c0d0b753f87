#include "common/private_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

int private_dir_check(const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return err_set(e, -errno, "directory '%s': %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 0077))
        return 0;
    return err_set(e, -EPERM, "'%s' is not a private directory of this user (mode 0700)", path);
}

int private_dir_make(const char *path, struct err *e)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_set(e, -errno, "directory '%s': %s", path, strerror(errno));
    return private_dir_check(path, e);
}

/* Returns the first private directory in `base` whose name begins with `prefix`; NULL: none. */
static char *find_first(const char *base, const char *prefix)
{
    AUTO(dir) DIR *dir = opendir(base);
    AUTO(free) char *first = NULL;
    for (const struct dirent *d; dir && (d = readdir(dir));) {
        if (strncmp(d->d_name, prefix, strlen(prefix)) != 0)
            continue;
        AUTO(free) char *path = xasprintf("%s/%s", base, d->d_name);
        if (private_dir_check(path, NULL) < 0 || (first && strcmp(first, path) < 0))
            continue;
        free(first);
        first = TAKE(path);
    }
    return TAKE(first);
}

int private_dir_in(char **out, const char *base, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/drover-%u", base, (unsigned)geteuid());
    int rc = private_dir_make(path, e);
    if (rc == -EPERM) {
        AUTO(free) char *prefix = xasprintf("drover-%u-", (unsigned)geteuid());
        free(path);
        path = find_first(base, prefix);
        rc = 0;
        if (!path) {
            path = xasprintf("%s/%sXXXXXX", base, prefix);
            if (!mkdtemp(path))
                rc = err_set(e, -errno, "directory '%s': %s", path, strerror(errno));
        }
    }
    if (rc == 0)
        *out = TAKE(path);
    return rc;
}

FILE *private_dir_fopen(const char *path, const char *mode)
{
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (*mode == 'a' ? O_APPEND : O_TRUNC);
    AUTO(fd) int fd = open(path, flags, 0600);
    FILE *f = fd < 0 ? NULL : fdopen(fd, mode);
    if (f)
        fd = -1;
    return f;
}
