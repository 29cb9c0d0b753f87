/* feature_redirect - writes the ranks' output to files, one per rank and stream: torchrun's
 * --redirects and --tee.
 *
 *     DIR/RUN_xxxxxx/attempt_0/RANK/stdout.log and stderr.log    as torchrun names them
 *
 * A value selects streams: 0 none, 1 stdout, 2 stderr, 3 both. It is given for all ranks ("3") or
 * by local rank ("0:1,1:3"). If a file cannot be written, an error is logged, and the lines of its
 * stream go to the console. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "launcher/run/features/feature.h"

enum { RANKS_MAX = 1 << 16 };

struct streams {
    FILE *file[2]; /* stdout, stderr; NULL: not in a file */
    bool shown[2];
    size_t begun[2]; /* number of bytes of the present line that are already in the file */
};

struct redirect {
    FEATURE_STATE;
    struct streams *of; /* [ranks] */
    int ranks;
    char *dir;
    uv_prepare_t flush; /* flushes the files before the loop waits, so that they are live */
};

/* ---- values --------------------------------------------------------------------------------- */

int feature_redirect_parse(struct feature_redirect_map *m, const char *text, struct err *e)
{
    if (!strpbrk(text, ":,"))
        return opt_int(&m->all, "streams", text, 0, 3, e);
    AUTO(free) char *all = xstrdup(text);
    for (char *rest = all, *value; (value = strsep(&rest, ","));) {
        const char *number = strsep(&value, ":"); /* "1:3" selects the streams of one local rank */
        int rank = 0, streams = 0;
        if (!value) {
            err_set(e, -EINVAL, "'%s' is not RANK:STREAMS", number);
            return err_hint(
                e, "3 for all, or 0:1,1:3 (local rank:streams; 1 stdout, 2 stderr, 3 both)");
        }
        int rc = opt_int(&rank, "local rank", number, 0, RANKS_MAX, e);
        if (rc < 0 || (rc = opt_int(&streams, "streams", value, 0, 3, e)) < 0)
            return rc;
        if (rank >= m->count) {
            m->named = xrealloc(m->named, (size_t)rank + 1, 1);
            memset(m->named + m->count, 0, (size_t)(rank + 1 - m->count));
            m->count = rank + 1;
        }
        m->named[rank] = (char)(1 + streams);
    }
    return 0;
}

void feature_redirect_map_free(struct feature_redirect_map *m)
{
    free(m->named);
    m->named = NULL;
    m->count = 0;
}

static int value_of(const struct feature_redirect_map *m, int local_rank)
{
    return local_rank < m->count && m->named[local_rank] ? m->named[local_rank] - 1 : m->all;
}

/* ---- files ---------------------------------------------------------------------------------- */

static int make_dir(const char *path, struct err *e)
{
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return err_set(e, -errno, "log directory '%s': %s", path, strerror(errno));
    return 0;
}

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    const struct feature_redirect_map *r = &set->redirect.redirects, *tee = &set->redirect.tee;
    return r->all || r->count || tee->all || tee->count;
}

static int make_dirs(void *state, struct err *e)
{
    struct redirect *r = state;
    const char *dir = r->run->set->redirect.dir, *id = r->run->set->redirect.run_id;
    int rc = dir ? make_dir(dir, e) : 0;
    if (rc < 0)
        return rc;
    r->dir = dir ? xasprintf("%s/%s_XXXXXX", dir, id ? id : "none")
                 : xasprintf("/tmp/drover_torchrun_XXXXXX");
    uv_prepare_init(r->run->loop, &r->flush);
    r->flush.data = r;
    return mkdtemp(r->dir) ? 0
                           : err_set(e, -errno, "log directory '%s': %s", r->dir, strerror(errno));
}

static void close_files(struct redirect *r)
{
    for (int i = 0; i < r->ranks; i++)
        for (int k = 0; k < 2; k++)
            if (r->of[i].file[k] && fclose(r->of[i].file[k]) != 0)
                log_error("%s: rank %d: %s", r->dir, i, strerror(errno));
    free(r->of);
    r->of = NULL;
    r->ranks = 0;
}

static void open_rank(struct redirect *r, const struct plan_rank *rank, const char *attempt)
{
    static const char *const names[] = {"stdout.log", "stderr.log"};
    int tee = value_of(&r->run->set->redirect.tee, rank->local_rank);
    int to_file = tee | value_of(&r->run->set->redirect.redirects, rank->local_rank);
    AUTO(free) char *dir = xasprintf("%s/%d", attempt, rank->rank);
    (void)mkdir(dir, 0777); /* if this fails, fopen() fails and is reported */
    for (int k = 0; k < 2; k++) {
        FILE **f = &r->of[rank->rank].file[k];
        AUTO(free) char *path = xasprintf("%s/%s", dir, names[k]);
        *f = to_file & (1 << k) ? fopen(path, "we") : NULL;
        if (!*f && to_file & (1 << k))
            log_error("log file '%s': %s", path, strerror(errno));
        r->of[rank->rank].shown[k] = !*f || tee & (1 << k);
    }
}

static void attach(void *state)
{
    struct redirect *r = state;
    const struct plan *p = r->run->plan;
    close_files(r); /* of the last attempt */
    r->of = xcalloc((size_t)p->world_size, sizeof *r->of);
    r->ranks = p->world_size;
    AUTO(free) char *dir = xasprintf("%s/attempt_%d", r->dir, r->run->spec->restart_count);
    (void)mkdir(dir, 0777); /* if this fails, open_rank() reports it */
    for (int i = 0; i < p->world_size; i++)
        open_rank(r, &p->ranks[i], dir);
}

static void close_all(void *state)
{
    struct redirect *r = state;
    close_files(r);
    free(r->dir);
    if (r->flush.data) /* it is a handle of the loop */
        uv_close((uv_handle_t *)&r->flush, NULL);
}

static void give_up(const struct redirect *r, int rank, int k)
{
    log_error("%s: rank %d: %s", r->dir, rank, strerror(errno));
    (void)fclose(r->of[rank].file[k]); /* the failure was logged */
    r->of[rank].file[k] = NULL;
    r->of[rank].shown[k] = true;
}

/* Writes the bytes of the line up to `end`, except those that are already in the file. */
static void write_up_to(struct redirect *r, int rank, int k, const char *text, size_t end)
{
    struct streams *s = &r->of[rank];
    size_t n = end > s->begun[k] ? end - s->begun[k] : 0;
    if (s->file[k] && fwrite_unlocked(text + end - n, 1, n, s->file[k]) < n)
        give_up(r, rank, k);
    s->begun[k] = end;
}

static void on_flush(uv_prepare_t *p)
{
    const struct redirect *r = p->data;
    uv_prepare_stop(p);
    for (int i = 0; i < r->ranks; i++)
        for (int k = 0; k < 2; k++)
            if (r->of[i].file[k] && fflush_unlocked(r->of[i].file[k]) != 0)
                give_up(r, i, k);
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct redirect *r = arg;
    int k = from == LAUNCH_STDERR;
    write_up_to(r, rank, k, text, text[len] ? len + 1 : len); /* with the byte that ended it */
    r->of[rank].begun[k] = 0;
    uv_prepare_start(&r->flush, on_flush);
    return true;
}

static void on_partial_line(void *arg, int rank, enum launch_stream from, const char *text,
                            size_t len)
{
    struct redirect *r = arg;
    write_up_to(r, rank, from == LAUNCH_STDERR, text, len);
    uv_prepare_start(&r->flush, on_flush);
}

static bool shows(const void *state, int rank, enum launch_stream from)
{
    const struct redirect *r = state;
    return r->of[rank].shown[from == LAUNCH_STDERR];
}

/* Its options are those of torchrun alone (cmd_torchrun.c). */
const struct feature feature_redirect = {
    .check = check,
    .size = sizeof(struct redirect),
    .open = make_dirs,
    .attach = attach,
    .events = {.line = on_line, .partial_line = on_partial_line},
    .shows = shows,
    .close = close_all,
};
