#include "launcher/redirect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/opt.h"

enum { RANKS_MAX = 1 << 16 };

struct streams {
    FILE *file[2]; /* stdout, stderr; NULL: not in a file */
    bool shown[2];
};

struct redirect {
    struct streams *of;
    int ranks;
    char *dir;
};

/* ---- values ----------------------------------------------------------------------------------- */

static int read_value(int *out, const char *text, size_t len, struct err *e)
{
    AUTO(free) char *word = xstrndup(text, len);
    return opt_int(out, "streams", word, 0, 3, e);
}

/* "1:3": the value of one local rank. */
static int read_one(struct redirect_map *m, const char *text, size_t len, struct err *e)
{
    size_t digits = strcspn(text, ":");
    AUTO(free) char *number = xstrndup(text, digits < len ? digits : len);
    int rank = 0, value = 0;
    if (digits >= len) {
        err_set(e, -EINVAL, "'%.*s' is no rank with its streams", (int)len, text);
        return err_hint(e, "3 for all, or 0:1,1:3 (local rank:streams; 1 stdout, 2 stderr, 3 both)");
    }
    if (opt_int(&rank, "local rank", number, 0, RANKS_MAX, e) < 0 ||
        read_value(&value, text + digits + 1, len - digits - 1, e) < 0)
        return e ? e->code : -EINVAL;
    if (rank >= m->count) {
        m->named = xrealloc(m->named, (size_t)rank + 1, 1);
        memset(m->named + m->count, 0, (size_t)(rank + 1 - m->count));
        m->count = rank + 1;
    }
    m->named[rank] = (char)(1 + value);
    return 0;
}

int redirect_parse(struct redirect_map *m, const char *text, struct err *e)
{
    if (!strpbrk(text, ":,"))
        return read_value(&m->all, text, strlen(text), e);
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ",");
        int rc = read_one(m, p, len, e);
        if (rc < 0)
            return rc;
        p += len;
        if (!*p)
            return 0;
    }
}

void redirect_map_free(struct redirect_map *m)
{
    free(m->named);
    m->named = NULL;
    m->count = 0;
}

static int value_of(const struct redirect_map *m, int local_rank)
{
    return local_rank < m->count && m->named[local_rank] ? m->named[local_rank] - 1 : m->all;
}

/* ---- files ------------------------------------------------------------------------------------ */

static int make_dir(const char *path, struct err *e)
{
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return err_set(e, -errno, "log directory '%s': %s", path, strerror(errno));
    return 0;
}

static int make_run_dir(char **out, const struct redirect_spec *s, struct err *e)
{
    if (s->dir && make_dir(s->dir, e) < 0)
        return e ? e->code : -EIO;
    AUTO(free)
    char *path = s->dir ? xasprintf("%s/%s_XXXXXX", s->dir, s->run_id ? s->run_id : "none")
                        : xasprintf("/tmp/drover_torchrun_XXXXXX");
    if (!mkdtemp(path))
        return err_set(e, -errno, "log directory '%s': %s", path, strerror(errno));
    if (chmod(path, 0755) < 0)
        return err_set(e, -errno, "log directory '%s': %s", path, strerror(errno));
    *out = TAKE(path);
    return 0;
}

static int open_rank(struct redirect *r, int rank, int to_file, int to_console, struct err *e)
{
    static const char *const names[] = {"stdout.log", "stderr.log"};
    AUTO(free) char *dir = xasprintf("%s/attempt_0/%d", r->dir, rank);
    if (make_dir(dir, e) < 0)
        return e ? e->code : -EIO;
    for (int k = 0; k < 2; k++) {
        r->of[rank].shown[k] = (to_console | ~to_file) & (1 << k);
        if (!(to_file & (1 << k)))
            continue;
        AUTO(free) char *path = xasprintf("%s/%s", dir, names[k]);
        r->of[rank].file[k] = fopen(path, "we");
        if (!r->of[rank].file[k])
            return err_set(e, -errno, "log file '%s': %s", path, strerror(errno));
    }
    return 0;
}

int redirect_open(struct redirect **out, const struct redirect_spec *s, const struct plan *p,
                  struct err *e)
{
    bool any = s->redirects.all || s->redirects.count || s->tee.all || s->tee.count;
    if (!any)
        return 0;
    AUTO(redirect) struct redirect *r = xzalloc(sizeof *r);
    r->ranks = p->world_size;
    r->of = xcalloc((size_t)p->world_size, sizeof *r->of);
    int rc = make_run_dir(&r->dir, s, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *attempt = xasprintf("%s/attempt_0", r->dir);
    rc = make_dir(attempt, e);
    for (int i = 0; rc == 0 && i < p->world_size; i++) {
        int local = p->ranks[i].local_rank, tee = value_of(&s->tee, local);
        rc = open_rank(r, i, tee | value_of(&s->redirects, local), tee, e);
    }
    if (rc == 0)
        *out = TAKE(r);
    return rc;
}

/* Says so once: the file is not written to any more. */
static void give_up(struct redirect *r, int rank, int k, int error)
{
    log_error("%s/attempt_0/%d: %s: %s", r->dir, rank, k ? "stderr.log" : "stdout.log",
              strerror(error));
    r->of[rank].file[k] = NULL;
}

void redirect_close(struct redirect *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->ranks; i++)
        for (int k = 0; k < 2; k++)
            if (r->of[i].file[k] && fclose(r->of[i].file[k]) != 0)
                give_up(r, i, k, errno);
    free(r->of);
    free(r->dir);
    free(r);
}

const char *redirect_dir(const struct redirect *r)
{
    return r->dir;
}

bool redirect_line(struct redirect *r, int rank, enum launch_stream from, const char *text,
                   size_t len)
{
    if (!r)
        return true;
    int k = from == LAUNCH_STDERR;
    FILE *f = r->of[rank].file[k];
    size_t all = text[len] ? len + 1 : len; /* what ends it stands behind it */
    if (f && fwrite_unlocked(text, 1, all, f) < all) {
        int error = errno;
        (void)fclose(f); /* what failed is told below */
        give_up(r, rank, k, error);
    }
    return r->of[rank].shown[k];
}
