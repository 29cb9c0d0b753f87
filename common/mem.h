/* mem - memory that ends with its scope, and allocators that never return NULL unasked.
 *
 * A local resource is bound to its scope with AUTO and handed on with TAKE:
 *
 *     AUTO(hosts) struct hosts *h = hosts_new();
 *     ...                          every return frees h
 *     *out = TAKE(h);              but for this one
 *
 * x* allocators abort: for sizes that we choose. try_* return NULL: for sizes from outside. */
#ifndef DROVER_MEM_H
#define DROVER_MEM_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AUTO(name) __attribute__((cleanup(auto_##name)))

/* Defines what AUTO(name) calls at the end of a scope: end(value), where value is not NULL. */
#define AUTO_DEFINE(name, type, end)        \
    static inline void auto_##name(type *p) \
    {                                       \
        if (*p)                             \
            end(*p);                        \
    }

/* The pointer, which the variable gives up. */
#define TAKE(p)                   \
    __extension__({               \
        __typeof__(p) taken_ = p; \
        (p) = NULL;               \
        taken_;                   \
    })

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static inline void auto_free(void *p)
{
    void *value; /* `p` points to a pointer of any type, which only a copy may look at */
    memcpy(&value, p, sizeof value);
    free(value);
}

AUTO_DEFINE(file, FILE *, fclose)

/* For descriptors: `AUTO(fd) int fd = -1;`, handed on with fd_take(). */
static inline void auto_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline int fd_take(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

/* Zeroed memory; never NULL. */
void *xzalloc(size_t size) __attribute__((malloc, returns_nonnull));
/* n * size, checked for overflow; zeroed; never NULL. */
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t len) __attribute__((malloc, returns_nonnull));
/* A formatted string of its own; never NULL. */
char *xasprintf(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), malloc, returns_nonnull));

/* n * size zeroed bytes, or NULL when the product overflows or memory is short. */
void *try_calloc(size_t n, size_t size) __attribute__((malloc));

/* A NULL-terminated array of strings that owns them. `v` may be NULL: an empty one. */
char **strv_copy(char *const *v);
void strv_free(char **v);
size_t strv_len(char *const *v);
/* Appends; takes over `s`. */
void strv_push(char ***v, char *s);
AUTO_DEFINE(strv, char **, strv_free)

#endif
