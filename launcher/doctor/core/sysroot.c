#include "launcher/doctor/core/sysroot.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"

const char *sysroot(void)
{
    const char *root = getenv("DROVER_SYSROOT");
    return root ? root : "";
}

static char *path_of(const char *fmt, va_list args)
{
    AUTO(free) char *path = xvasprintf(fmt, args);
    return xasprintf("%s%s", sysroot(), path);
}

char *sysroot_path(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *path = path_of(fmt, args);
    va_end(args);
    return path;
}

static char *read_text(const char *path)
{
    char *text = file_text(path);
    for (size_t n = text ? strlen(text) : 0; n > 0 && text[n - 1] == '\n';)
        text[--n] = '\0';
    return text;
}

char *sysroot_read(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    AUTO(free) char *path = path_of(fmt, args);
    va_end(args);
    return read_text(path);
}

bool sysroot_exists(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    AUTO(free) char *path = path_of(fmt, args);
    va_end(args);
    return access(path, F_OK) == 0;
}

bool sysroot_number(long long *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    AUTO(free) char *path = path_of(fmt, args);
    va_end(args);
    AUTO(free) char *text = read_text(path);
    char *end = text;
    errno = text ? 0 : errno;
    if (text)
        *out = strtoll(text, &end, 10);
    if (text && (end == text || *end))
        errno = EINVAL;
    return text && errno == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **sysroot_list(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    AUTO(free) char *path = path_of(fmt, args);
    va_end(args);
    DIR *d = opendir(path);
    char **names = NULL;
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            strv_push(&names, xstrdup(entry->d_name));
    if (d)
        closedir(d);
    if (names)
        qsort(names, strv_len(names), sizeof *names, compare_names);
    return names;
}
