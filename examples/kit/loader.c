#include "loader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct loader {
    loader_fill_fn *fill;
    void *arg, *buffers[2]; /* batch `number` is in buffers[number % 2] */
    int64_t number;         /* the batch that is being filled */
    int threaded;           /* by a thread, which has not been joined */
    pthread_t thread;
    double waited_s;
};

static void *fill(void *arg)
{
    struct loader *l = arg;
    l->fill(l->arg, l->number, l->buffers[l->number % 2]);
    return NULL;
}

/* Fills the batch l->number: in a thread of its own, which costs about 20 us and needs no locks. */
static void start(struct loader *l)
{
    l->threaded = pthread_create(&l->thread, NULL, fill, l) == 0;
    if (!l->threaded)
        (void)fill(l);
}

static void wait_filled(struct loader *l)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (l->threaded)
        pthread_join(l->thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    l->waited_s += (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

int loader_open(struct loader **out, void *const buffers[2], int64_t first, loader_fill_fn *fn,
                void *arg)
{
    struct loader *l = malloc(sizeof *l);
    if (!l)
        return -1;
    *l = (struct loader){
        .fill = fn, .arg = arg, .buffers = {buffers[0], buffers[1]}, .number = first};
    start(l);
    *out = l;
    return 0;
}

void *loader_next(struct loader *l)
{
    wait_filled(l);
    void *buffer = l->buffers[l->number++ % 2];
    start(l);
    return buffer;
}

double loader_waited_s(const struct loader *l)
{
    return l->waited_s;
}

void loader_close(struct loader *l)
{
    if (l)
        wait_filled(l);
    free(l);
}

const uint8_t *loader_map(const char *path, size_t *n, char *why, size_t why_size)
{
    struct stat st = {0};
    void *bytes = MAP_FAILED;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0)
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int unmappable = errno == EINVAL || errno == ENODEV; /* 0 bytes; a directory */
    if (bytes == MAP_FAILED)
        snprintf(why, why_size, "'%s': %s", path,
                 unmappable ? "empty, or not a file" : strerror(errno));
    if (fd >= 0)
        close(fd);
    *n = (size_t)st.st_size;
    return bytes == MAP_FAILED ? NULL : bytes;
}

void loader_unmap(const uint8_t *bytes, size_t n)
{
    (void)munmap((void *)(uintptr_t)bytes, n);
}
