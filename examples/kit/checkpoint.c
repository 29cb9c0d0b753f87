#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
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
static const char magic[8] = {'C', 'K', 'P', 'T',
                              '0', '0', '0', '2'}; /* with the format's version */

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

void checkpoint_add(struct checkpoint_head *h, const char *name, const char *format, ...)
{
    struct checkpoint_fact *f = h->facts;
    while (f->name[0])
        f++;
    va_list args;
    va_start(args, format);
    snprintf(f->name, sizeof f->name, "%s", name);
    vsnprintf(f->value, sizeof f->value, format, args);
    va_end(args);
}

void checkpoint_add_real(struct checkpoint_head *h, const char *name, float value)
{
    char text[32];
    int digits = 1;
    do
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
    while (strtof(text, NULL) != value && digits++ < 9); /* 9 are enough for any float */
    checkpoint_add(h, name, "%s", text);
}

static const struct checkpoint_fact *fact(const struct checkpoint_head *h, const char *name)
{
    for (int i = 0; i < CHECKPOINT_FACTS && h->facts[i].name[0]; i++)
        if (strcmp(h->facts[i].name, name) == 0)
            return &h->facts[i];
    return NULL;
}

const char *checkpoint_get(const struct checkpoint_head *h, const char *name)
{
    const struct checkpoint_fact *f = fact(h, name);
    return f ? f->value : "";
}

/* Describes the first fact of `want` that `got` has not, or has with another value. Returns NULL if
 * there is none. */
static const char *difference(const struct checkpoint_head *got, const struct checkpoint_head *want)
{
    static char text[256];
    for (int i = 0; i < CHECKPOINT_FACTS && want->facts[i].name[0]; i++) {
        const struct checkpoint_fact *w = &want->facts[i], *g = fact(got, w->name);
        int is_option = !strchr(w->name, ' ');
        if (g && strcmp(g->value, w->value) == 0)
            continue;
        if (!g)
            snprintf(text, sizeof text, "it has no %s, the options say %s", w->name, w->value);
        else if (is_option)
            snprintf(text, sizeof text, "it has %s %s, the options say %s (try: --%s=%s)", w->name,
                     g->value, w->value, w->name, g->value);
        else
            snprintf(text, sizeof text, "it has %s %s, here are %s", g->value, w->name, w->value);
        return text;
    }
    return NULL;
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

/* Returns what is wrong with a prefix of which n bytes were read, or NULL. */
static const char *check_prefix(const struct prefix *p, size_t n)
{
    static char text[160];
    int known = n >= sizeof magic && memcmp(p->magic, magic, sizeof magic) == 0, zeros = 1;
    char version[5] = "";
    if (n >= sizeof magic && memcmp(p->magic, magic, 4) == 0)
        memcpy(version, p->magic + 4, 4);
    if (!known && strspn(version, "0123456789") == 4) {
        snprintf(text, sizeof text,
                 "it has version %s of the format, and this program reads %.4s (try: the program "
                 "that wrote it, or another directory)",
                 version, magic + 4);
        return text;
    }
    for (int i = 0; i < CHECKPOINT_FACTS && n == sizeof *p; i++)
        zeros &= !p->head.facts[i].name[sizeof p->head.facts[i].name - 1] &&
                 !p->head.facts[i].value[sizeof p->head.facts[i].value - 1];
    return known && zeros && n == sizeof *p ? NULL : "damaged, or not a checkpoint";
}

int checkpoint_read(struct checkpoint_head *h, void **state, const char *dir, const char *name,
                    char *why, size_t why_size)
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
    else if ((problem = check_prefix(&p, fread(&p, 1, sizeof p, f))))
        ;
    else if ((n = p.head.bytes) != (uint64_t)st.st_size - sizeof p - sizeof hash)
        problem = "damaged: wrong size";
    else if (state && !(bytes = malloc(n)))
        problem = "out of memory";
    else if (state && (fread(bytes, 1, n, f) != n || fread(&hash, sizeof hash, 1, f) != 1))
        problem = "cannot be read";
    else if (state && hash != hash_of(&p, bytes))
        problem = "damaged: wrong hash of its content";
    else
        problem = difference(&p.head, h);
    if (f)
        fclose(f);
    if (problem) {
        free(bytes);
        return failed(why, why_size, path, problem);
    }
    *h = p.head;
    if (state)
        *state = bytes;
    return 1;
}
