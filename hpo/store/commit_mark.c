#include "hpo/store/commit_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/durable.h"
#include "common/fnv_hash.h"
#include "common/mem.h"

enum {
    PLACES = 2,
    DISTANCE = 512 /* of the places: they lie in two sectors, and a disk writes a sector whole */
};

struct place {
    int64_t records, puts;
    uint64_t sum; /* of both numbers */
};

static struct place place_of(const struct commit_mark *m)
{
    struct place p = {.records = m->records, .puts = m->puts};
    p.sum = fnv_hash_bytes(FNV_HASH_INIT, &p, offsetof(struct place, sum));
    return p;
}

static char *path_of(const char *db)
{
    return xasprintf("%s-mark", db);
}

int commit_mark_read(struct commit_mark *out, const char *db, struct err *e)
{
    AUTO(free) char *path = path_of(db);
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    int valid = 0;
    *out = (struct commit_mark){0};
    for (int i = 0; i < PLACES; i++) {
        struct place p;
        if (pread(fd, &p, sizeof p, (off_t)i * DISTANCE) != (ssize_t)sizeof p)
            continue;
        const struct commit_mark m = {p.records, p.puts};
        if (p.sum != place_of(&m).sum)
            continue;
        valid++;
        if (m.records + m.puts > out->records + out->puts) /* both only grow */
            *out = m;
    }
    return valid > 0 ? 0 : err_set(e, -EBADMSG, "%s: damaged", path);
}

/* Returns 0 or a negative errno. */
static int write_at(int fd, const struct commit_mark *m, int place)
{
    const struct place p = place_of(m);
    ssize_t n = pwrite(fd, &p, sizeof p, (off_t)place * DISTANCE);
    return n == (ssize_t)sizeof p ? 0 : n < 0 ? -errno : -EIO;
}

int commit_mark_create(int *fd, const char *db, mode_t mode, const struct commit_mark *m,
                       struct err *e)
{
    AUTO(free) char *path = path_of(db);
    AUTO(fd) int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int rc = file < 0 ? -errno : 0;
    if (rc == 0 && fchmod(file, mode) < 0)
        rc = -errno;
    for (int i = 0; rc == 0 && i < PLACES; i++)
        rc = write_at(file, m, i);
    if (rc == 0 && fsync(file) < 0)
        rc = -errno;
    if (rc == 0)
        rc = durable_sync_dir_of(path);
    if (rc < 0)
        return err_set(e, rc, "%s: %s", path, strerror(-rc));
    *fd = fd_take(&file);
    return 0;
}

void commit_mark_write(int fd, const struct commit_mark *m)
{
    (void)write_at(fd, m, (int)((m->records + m->puts) % PLACES));
}
