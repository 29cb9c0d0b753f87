#include "common/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

static void *abort_if_null(void *p)
{
    if (!p) {
        fputs("drover: out of memory\n", stderr);
        abort();
    }
    return p;
}

void *xzalloc(size_t size)
{
    return abort_if_null(calloc(1, size ? size : 1));
}

void *xcalloc(size_t n, size_t size)
{
    return abort_if_null(try_calloc(n, size));
}

void *xrealloc(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        abort_if_null(NULL);
    return abort_if_null(realloc(p, bytes ? bytes : 1));
}

char *xstrdup(const char *s)
{
    return abort_if_null(strdup(s));
}

char *xstrndup(const char *s, size_t len)
{
    return abort_if_null(strndup(s, len));
}

char *xasprintf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    return abort_if_null(n < 0 ? NULL : s);
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
    size_t n = strv_len(v);
    char **copy = xcalloc(n + 1, sizeof *copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = xstrdup(v[i]);
    return copy;
}

void strv_free(char **v)
{
    for (size_t i = 0; v && v[i]; i++)
        free(v[i]);
    free(v);
}

void strv_push(char ***v, char *s)
{
    size_t n = strv_len(*v);
    *v = xrealloc(*v, n + 2, sizeof **v);
    (*v)[n] = s;
    (*v)[n + 1] = NULL;
}
