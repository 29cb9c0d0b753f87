#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "DIGITS1";

struct header {
    char magic[8];
    uint64_t config;
    int64_t step;
    double loss_sum;
    uint64_t count;
};

uint64_t checkpoint_hash(uint64_t h, const void *bytes, size_t n)
{
    for (const unsigned char *p = bytes, *end = p + n; p < end; p++)
        h = (h ^ *p) * UINT64_C(1099511628211);
    return h;
}

static uint64_t sum_of(const struct header *h, const float *state)
{
    uint64_t sum = checkpoint_hash(CHECKPOINT_HASH_INIT, h, sizeof *h);
    return checkpoint_hash(sum, state, h->count * sizeof *state);
}

/* Writes the directory to disk, so that the new name of the file is on disk, too. */
static int sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 ? -1 : fsync(fd);
    if (fd >= 0)
        close(fd);
    return rc;
}

int checkpoint_write(const struct checkpoint *c, const char *dir, char *why, size_t why_size)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    snprintf(path, sizeof path, "%s/digits.ckpt", dir);
    snprintf(temporary, sizeof temporary, "%s/digits.ckpt.new", dir);
    struct header h = {
        .config = c->config, .step = c->step, .loss_sum = c->loss_sum, .count = c->count};
    memcpy(h.magic, magic, sizeof magic);
    uint64_t sum = sum_of(&h, c->state);
    (void)mkdir(dir, 0777); /* if it fails, fopen() below fails too */
    FILE *f = fopen(temporary, "we");
    int ok = f && fwrite(&h, sizeof h, 1, f) == 1 &&
             fwrite(c->state, sizeof *c->state, c->count, f) == c->count &&
             fwrite(&sum, sizeof sum, 1, f) == 1 && fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (f && fclose(f) != 0)
        ok = 0;
    if (ok && rename(temporary, path) == 0 && sync_dir(dir) == 0)
        return 0;
    snprintf(why, why_size, "checkpoint '%s': %s", path, strerror(errno));
    return -1;
}

int checkpoint_read(struct checkpoint *c, const char *dir, char *why, size_t why_size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/digits.ckpt", dir);
    FILE *f = fopen(path, "re");
    if (!f && errno == ENOENT)
        return 0;
    struct header h;
    uint64_t sum;
    const char *problem = NULL;
    if (!f)
        problem = strerror(errno);
    else if (fread(&h, sizeof h, 1, f) != 1 || memcmp(h.magic, magic, sizeof magic) != 0)
        problem = "damaged, or not a checkpoint of this program";
    else if (h.config != c->config || h.count != c->count)
        problem = "from a training with other options";
    else if (fread(c->state, sizeof *c->state, h.count, f) != h.count ||
             fread(&sum, sizeof sum, 1, f) != 1 || sum != sum_of(&h, c->state))
        problem = "damaged";
    if (f)
        fclose(f);
    if (problem) {
        snprintf(why, why_size, "checkpoint '%s': %s", path, problem);
        return -1;
    }
    c->step = h.step;
    c->loss_sum = h.loss_sum;
    return 1;
}
