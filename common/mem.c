#include "common/mem.h"

#include <stdint.h>
#include <string.h>

void *xchecked(void *p)
{
    static const char text[] = "drover: out of memory\n";
    if (p)
        return p;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

void *xzalloc(size_t size)
{
    return xchecked(calloc(1, size ? size : 1));
}

void *xcalloc(size_t n, size_t size)
{
    return xchecked(try_calloc(n, size));
}

void *xrealloc(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        xchecked(NULL);
    return xchecked(realloc(p, bytes ? bytes : 1));
}

void *xgrow(void *p, size_t count, size_t size)
{
    if (count & (count - 1))
        return p; /* neither 0 nor a power of two */
    return xrealloc(p, count > 0 ? 2 * count : 1, size);
}

char *xstrdup(const char *s)
{
    return xchecked(strdup(s));
}

char *xstrndup(const char *s, size_t len)
{
    return xchecked(strndup(s, len));
}

char *xvasprintf(const char *fmt, va_list ap)
{
    char *s = NULL;
    int n = vasprintf(&s, fmt, ap);
    return xchecked(n < 0 ? NULL : s);
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = xvasprintf(fmt, ap);
    va_end(ap);
    return s;
}

void *try_calloc(size_t n, size_t size)
{
    size_t bytes; /* calloc() would also return NULL on overflow, but a sanitizer's calloc() ends
                     the program */
    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return calloc(1, bytes ? bytes : 1);
}

size_t strv_len(char *const *v)
{
    size_t n = 0;
    while (v && v[n])
        n++;
    return n;
}

char **strv_copy(char *const *v)
{
    char **copy = xzalloc(sizeof *copy);
    strv_add(&copy, v);
    return copy;
}

void strv_free(char **v)
{
    for (size_t i = 0; v && v[i]; i++)
        free(v[i]);
    free(v);
}

int strv_find(char *const *v, const char *s)
{
    for (int i = 0; v && v[i]; i++)
        if (strcmp(v[i], s) == 0)
            return i;
    return -1;
}

void strv_add(char ***v, char *const *more)
{
    size_t n = strv_len(*v), added = strv_len(more);
    if (!added)
        return;
    *v = xrealloc(*v, n + added + 1, sizeof **v);
    for (size_t i = 0; i < added; i++)
        (*v)[n + i] = xstrdup(more[i]);
    (*v)[n + added] = NULL;
}

bool strv_has(const char *const *v, const char *s)
{
    return strv_find((char *const *)v, s) >= 0;
}

bool strv_begins(const char *const *v, const char *s)
{
    while (v && *v && strncmp(s, *v, strlen(*v)) != 0)
        v++;
    return v && *v;
}

void strv_push(char ***v, char *s)
{
    size_t n = strv_len(*v);
    *v = xrealloc(*v, n + 2, sizeof **v);
    (*v)[n] = s;
    (*v)[n + 1] = NULL;
}
