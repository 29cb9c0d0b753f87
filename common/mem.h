/* mem - memory and other resources that are released at the end of their scope, and allocators
 * that end the process instead of returning NULL.
 *
 * AUTO releases a local resource at the end of its scope. TAKE passes the ownership on:
 *
 *     AUTO(hosts) struct hosts *h = hosts_new();
 *     ...                          every return frees h
 *     *out = TAKE(h);              except this one
 *
 * Without memory the x* allocators print that, and exit with status 1; use them for sizes that
 * drover chooses. try_calloc() returns NULL; use it for sizes that come from outside. */
#pragma once

#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AUTO(name) __attribute__((cleanup(auto_##name)))

/* Defines AUTO(name) for values of `type`: at the end of the scope it calls end(value), unless the
 * value is NULL. */
#define AUTO_DEFINE(name, type, end)        \
    static inline void auto_##name(type *p) \
    {                                       \
        if (*p)                             \
            end(*p);                        \
    }

/* Defines AUTO(name) for structs: at the end of the scope it calls end(&value). */
#define AUTO_DEFINE_STRUCT(name, type, end) \
    static inline void auto_##name(type *p) \
    {                                       \
        end(p);                             \
    }

/* Returns the value of the pointer variable `p`, and sets the variable to NULL. */
#define TAKE(p)                   \
    __extension__({               \
        __typeof__(p) taken_ = p; \
        (p) = NULL;               \
        taken_;                   \
    })

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static inline void auto_free(void *p)
{
    void *value; /* memcpy(), since the type of the pointer that `p` points to is unknown */
    memcpy(&value, p, sizeof value);
    free(value);
}

AUTO_DEFINE(file, FILE *, fclose)
AUTO_DEFINE(dir, DIR *, closedir)

/* Closes a descriptor at the end of its scope: `AUTO(fd) int fd = -1;`. fd_take() passes its
 * ownership on. */
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

/* Returns zeroed memory; never NULL. */
void *xzalloc(size_t size) __attribute__((malloc, returns_nonnull));
/* Returns n * size zeroed bytes; never NULL. Exits if the product overflows. */
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/* Returns the array `p` with room for an element after its first `count` ones, of `size` bytes
 * each. Its room doubles, so an array that only this function extends needs no field for its room.
 */
void *xgrow(void *p, size_t count, size_t size) __attribute__((returns_nonnull));
/* Returns p. If a library returned NULL since it has no memory, ends the process at once, as the
 * functions here do: whatever it would still do at exit may need memory, too. */
void *xchecked(void *p) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t len) __attribute__((malloc, returns_nonnull));
/* Returns a formatted string, which the caller frees; never NULL. */
char *xasprintf(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), malloc, returns_nonnull));
char *xvasprintf(const char *fmt, va_list ap)
    __attribute__((format(printf, 1, 0), malloc, returns_nonnull));

/* Returns n * size zeroed bytes, or NULL if the product overflows or there is not enough memory. */
void *try_calloc(size_t n, size_t size) __attribute__((malloc));

/* strv: a NULL-terminated array that owns its strings. `v` may be NULL, which is an empty array. */
char **strv_copy(char *const *v);
void strv_free(char **v);
size_t strv_len(char *const *v);
/* Appends `s`. The array takes its ownership. */
void strv_push(char ***v, char *s);
/* Appends copies of the strings of `more`, which may be NULL. */
void strv_add(char ***v, char *const *more);
/* Returns the index of the first string that equals `s`; -1: none does. */
int strv_find(char *const *v, const char *s);
AUTO_DEFINE(strv, char **, strv_free)
/* Return true if `s` is one of the strings, or begins with one of them. */
bool strv_has(const char *const *v, const char *s);
bool strv_begins(const char *const *v, const char *s);
