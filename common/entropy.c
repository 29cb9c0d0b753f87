#include "common/entropy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/mem.h"

int entropy_fill(void *out, size_t size)
{
    if (getrandom(out, size, 0) == (ssize_t)size)
        return 0;
    AUTO(fd) int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, out, size);
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EIO;
}
