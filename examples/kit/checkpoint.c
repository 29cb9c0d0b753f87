#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file: magic and head, the state, and the hash of both (8 bytes). */
struct prefix {
    char magic[8];
    struct checkpoint_head head;
};
static const char magic[8] = {'C', 'K', 'P', 'T', '0', '0', '0', '1'};

struct checkpoint {
    char dir[PATH_MAX], path[PATH_MAX], temporary[PATH_MAX];
    struct prefix prefix;
    void *state;
    pthread_t thread;
    int writing; /* the thread has not been joined */
    int error;   /* errno of the last checkpoint, or 0 */
};

uint64_t checkpoint_hash(uint64_t h, const void *bytes, size_t n)
{
    for (const unsigned char *p = bytes, *end = p + n; p < end; p++)
        h = (h ^ *p) * UINT64_C(1099511628211);
    return h;
}

static uint64_t hash_of(const struct prefix *p, const void *state)
{
    uint64_t h = checkpoint_hash(CHECKPOINT_HASH_INIT, p, sizeof *p);
    return checkpoint_hash(h, state, p->head.bytes);
}

static int failed(char *why, size_t why_size, const char *path, const char *cause)
{
    snprintf(why, why_size, "checkpoint '%s': %s", path, cause);
    return -1;
}

/* Writes the names in a directory to disk. */
static int sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 ? -1 : fsync(fd);
    if (fd >= 0)
        close(fd);
    return rc;
}

static void *write_file(void *arg)
{
    struct checkpoint *c = arg;
    uint64_t hash = hash_of(&c->prefix, c->state), n = c->prefix.head.bytes;
    FILE *f = fopen(c->temporary, "we");
    int ok = f && fwrite(&c->prefix, sizeof c->prefix, 1, f) == 1 &&
             fwrite(c->state, 1, n, f) == n && fwrite(&hash, sizeof hash, 1, f) == 1 &&
             fflush(f) == 0 && fsync(fileno(f)) == 0 && rename(c->temporary, c->path) == 0 &&
             sync_dir(c->dir) == 0;
    c->error = ok ? 0 : errno;
    if (f)
        fclose(f);
    if (!ok)
        (void)unlink(c->temporary); /* frees its blocks if the disk is full */
    return NULL;
}

int checkpoint_open(struct checkpoint **out, const char *dir, const char *name, char *why,
                    size_t why_size)
{
    char parent[PATH_MAX];
    struct checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        return failed(why, why_size, dir, "out of memory");
    snprintf(parent, sizeof parent, "%s/..", dir);
    snprintf(c->dir, sizeof c->dir, "%s/.", dir); /* an error if it is a file */
    snprintf(c->path, sizeof c->path, "%s/%s", dir, name);
    int n = snprintf(c->temporary, sizeof c->temporary, "%s/%s.new", dir, name);
    memcpy(c->prefix.magic, magic, sizeof magic);
    errno = ENAMETOOLONG;
    if (n >= PATH_MAX || (mkdir(dir, 0777) < 0 ? errno != EEXIST : sync_dir(parent) < 0) ||
        access(c->dir, W_OK) < 0)
        c->error = errno;
    if (c->error)
        return checkpoint_close(c, why, why_size);
    *out = c;
    return 0;
}

static void wait_written(struct checkpoint *c)
{
    if (c->writing)
        pthread_join(c->thread, NULL);
    c->writing = 0;
}

int checkpoint_save(struct checkpoint *c, const struct checkpoint_head *h, const void *state,
                    char *why, size_t why_size)
{
    wait_written(c);
    void *copy = realloc(c->state, h->bytes);
    int error = copy ? c->error : ENOMEM;
    c->error = 0; /* this call reports it, and the next one tries again */
    if (copy)
        c->state = memcpy(copy, state, h->bytes);
    c->prefix.head = *h;
    if (!error)
        error = pthread_create(&c->thread, NULL, write_file, c);
    c->writing = error == 0;
    return error ? failed(why, why_size, c->path, strerror(error)) : 0;
}

int checkpoint_close(struct checkpoint *c, char *why, size_t why_size)
{
    if (!c)
        return 0;
    wait_written(c);
    int rc = c->error ? failed(why, why_size, c->path, strerror(c->error)) : 0;
    free(c->state);
    free(c);
    return rc;
}

int checkpoint_read(struct checkpoint_head *h, void **state, const char *dir, const char *name,
                    uint64_t config, char *why, size_t why_size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    if (!f && errno == ENOENT)
        return 0;
    struct prefix p;
    struct stat st;
    uint64_t hash, n;
    void *bytes = NULL;
    const char *problem = NULL;
    if (!f || fstat(fileno(f), &st) < 0)
        problem = strerror(errno);
    else if (fread(&p, sizeof p, 1, f) != 1 || memcmp(p.magic, magic, sizeof magic) != 0)
        problem = "damaged, or not a checkpoint";
    else if ((n = p.head.bytes) != (uint64_t)st.st_size - sizeof p - sizeof hash)
        problem = "damaged: wrong size";
    else if (!(bytes = malloc(n)))
        problem = "out of memory";
    else if (fread(bytes, 1, n, f) != n || fread(&hash, sizeof hash, 1, f) != 1)
        problem = "cannot be read";
    else if (hash != hash_of(&p, bytes))
        problem = "damaged: wrong hash of its content";
    else if (config && config != p.head.config)
        problem = "from a training with other options";
    if (f)
        fclose(f);
    if (problem) {
        free(bytes);
        return failed(why, why_size, path, problem);
    }
    *h = p.head;
    *state = bytes;
    return 1;
}
