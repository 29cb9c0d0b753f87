#include "loader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "throughput.h"

static void *fill(void *arg)
{
    struct loader *l = arg;
    l->fill(l->arg, l->number, l->buffers[l->number % 2]);
    return NULL;
}

/* Each batch has a thread of its own, which costs about 20 us and needs no locks. */
void loader_start(struct loader *l)
{
    l->threaded = pthread_create(&l->thread, NULL, fill, l) == 0;
    if (!l->threaded)
        (void)fill(l);
}

void loader_stop(struct loader *l)
{
    double begin = throughput_now_s();
    if (l->threaded)
        pthread_join(l->thread, NULL);
    l->threaded = 0;
    l->waited_s += throughput_now_s() - begin;
}

void *loader_next(struct loader *l)
{
    loader_stop(l);
    void *buffer = l->buffers[l->number++ % 2];
    loader_start(l);
    return buffer;
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
