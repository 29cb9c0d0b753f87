#include "serve/data/serve_sweeps.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/json.h"
#include "hpo/spec/spec.h"
#include "hpo/store/sweep_dir.h"

enum {
    LIST_MS = 100,    /* time that one call of serve_sweeps_list() reads sweeps */
    IDLE_MS = 60000,  /* a sweep that is not used for this time is closed */
    IN_USE_MS = 2000, /* a sweep that was used this lately makes no room for another one */
};

static const int64_t epoch_mask = 0xffffffffffff; /* the page's numbers are doubles */

struct open_sweep {
    char *name;
    struct serve_sweep sweep;
    int64_t file; /* epoch_of() it */
    int64_t used_ms, read_ms;
};

struct serve_sweeps {
    char *root, *chosen;
    struct open_sweep open[SERVE_SWEEPS_OPEN_MAX];
    json_t *summaries; /* name -> {"stamp", "summary"} */
};

struct serve_sweeps *serve_sweeps_new(const char *root, const char *chosen)
{
    struct serve_sweeps *s = xzalloc(sizeof *s);
    s->root = xstrdup(root);
    s->chosen = chosen ? xstrdup(chosen) : NULL;
    s->summaries = json_object();
    return s;
}

static void drop_kept(struct serve_sweep *s)
{
    for (size_t i = 0; i < SERVE_SWEEPS_KEPT_MAX; i++)
        strbuf_free(&s->kept[i].body);
}

static void close_sweep(struct open_sweep *o)
{
    drop_kept(&o->sweep);
    serve_columns_free(o->sweep.columns);
    sweep_reader_close(o->sweep.reader);
    json_decref(o->sweep.importance);
    free(o->name);
    *o = (struct open_sweep){0};
}

void serve_sweeps_free(struct serve_sweeps *s)
{
    for (size_t i = 0; s && i < SERVE_SWEEPS_OPEN_MAX; i++)
        close_sweep(&s->open[i]);
    if (s) {
        free(s->root);
        free(s->chosen);
        json_decref(s->summaries);
    }
    free(s);
}

const char *serve_sweeps_root(const struct serve_sweeps *s)
{
    return s->root;
}

/* Identifies the file of the store; 0: there is none. */
static int64_t epoch_of(const char *root, const char *name)
{
    AUTO(free) char *path = xasprintf("%s/%s/sweep.db", root, name);
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)(st.st_ino ^ ((uint64_t)st.st_dev << 48)) & epoch_mask
                                : 0;
}

static struct open_sweep *find_open(struct serve_sweeps *s, const char *name)
{
    for (size_t i = 0; i < SERVE_SWEEPS_OPEN_MAX; i++)
        if (s->open[i].name && strcmp(s->open[i].name, name) == 0)
            return &s->open[i];
    return NULL;
}

/* Closes idle sweeps, and returns room for another one; NULL: all are in use. */
static struct open_sweep *make_room(struct serve_sweeps *s)
{
    int64_t now = clock_ms();
    struct open_sweep *oldest = &s->open[0];
    for (size_t i = 0; i < SERVE_SWEEPS_OPEN_MAX; i++) {
        if (s->open[i].name && now - s->open[i].used_ms > IDLE_MS)
            close_sweep(&s->open[i]);
        if (s->open[i].used_ms < oldest->used_ms)
            oldest = &s->open[i];
    }
    if (oldest->name && now - oldest->used_ms <= IN_USE_MS)
        return NULL;
    close_sweep(oldest);
    return oldest;
}

static int open_sweep(struct open_sweep **out, struct serve_sweeps *s, const char *name,
                      int64_t epoch, struct err *e)
{
    AUTO(sweep_reader) struct sweep_reader *reader = NULL;
    int rc = sweep_reader_open(&reader, s->root, name, e);
    struct open_sweep *o = rc == 0 ? make_room(s) : NULL;
    if (rc < 0)
        return rc;
    if (!o)
        return err_set(e, -EBUSY, "%d other sweeps are being looked at", SERVE_SWEEPS_OPEN_MAX);
    o->name = xstrdup(name);
    o->sweep.columns = serve_columns_new(reader->spec, reader->columns);
    o->file = epoch;
    /* The number of a removed file is soon that of another one. */
    o->sweep.epoch = (epoch ^ reader->dir->instance) & epoch_mask;
    o->sweep.reader = TAKE(reader);
    o->read_ms = clock_ms();
    *out = o;
    return 0;
}

/* Reads what is new, unless the sweep was read lately. */
static int refresh(struct open_sweep *o, struct err *e)
{
    int64_t now = clock_ms();
    if (now - o->read_ms < SERVE_SWEEPS_FRESH_MS)
        return 0;
    o->read_ms = now;
    drop_kept(&o->sweep);
    return sweep_reader_update(o->sweep.reader, e);
}

int serve_sweeps_get(struct serve_sweep **out, struct serve_sweeps *s, const char *name,
                     struct err *e)
{
    struct open_sweep *o = find_open(s, name);
    int64_t epoch = epoch_of(s->root, name);
    int rc = o && o->file == epoch ? refresh(o, e) : 0;
    if (o && (rc < 0 || o->file != epoch)) {
        close_sweep(o); /* after an error, the next call opens the sweep again */
        o = NULL;
    }
    if (rc == 0 && !o)
        rc = open_sweep(&o, s, name, epoch, e);
    if (rc < 0)
        return rc;
    o->used_ms = clock_ms();
    *out = &o->sweep;
    return 0;
}

void serve_sweeps_changed(struct serve_sweeps *s, const char *name)
{
    struct open_sweep *o = find_open(s, name);
    if (o)
        o->read_ms = 0;
}

bool serve_sweep_add_kept(struct strbuf *out, const struct serve_sweep *s, int64_t since)
{
    for (size_t i = 0; i < SERVE_SWEEPS_KEPT_MAX; i++) {
        const struct serve_kept *k = &s->kept[i];
        if (k->body.len > 0 && k->since == since) {
            strbuf_add(out, k->body.data, k->body.len);
            return true;
        }
    }
    return false;
}

void serve_sweep_keep(struct serve_sweep *s, int64_t since, const struct strbuf *body)
{
    if (body->len > SERVE_SWEEPS_KEPT_BYTES)
        return;
    struct serve_kept *k = &s->kept[s->kept_next++ % SERVE_SWEEPS_KEPT_MAX];
    k->since = since;
    strbuf_reset(&k->body);
    strbuf_add(&k->body, body->data, body->len);
}

/* ---- the list ------------------------------------------------------------------------------- */

static json_t *summary(const struct sweep_reader *v)
{
    int best = sweep_columns_best(v->columns);
    json_t *o = json_pack("{s:s,s:I,s:b}", "method", v->spec->method->name, "trials",
                          (json_int_t)v->columns->count, "maximize", v->spec->metrics[0].maximize);
    sweep_reader_set_status(v, o);
    if (best >= 0)
        json_object_set_new(o, "best", json_number(sweep_columns_score(v->columns, (size_t)best)));
    return o;
}

/* What changes if the sweep's files change. The caller frees it. */
static char *stamp_of(const char *root, const char *name)
{
    static const char *const files[] = {"sweep.db", "sweep.db-wal", "feed.jsonl", "endpoint"};
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        AUTO(free) char *path = xasprintf("%s/%s/%s", root, name, files[i]);
        struct stat st = {0};
        if (stat(path, &st) == 0)
            strbuf_printf(&b, "%lld.%lld.%lld ", (long long)st.st_size,
                          (long long)st.st_mtim.tv_sec, (long long)st.st_mtim.tv_nsec);
    }
    return strbuf_take(&b);
}

/* Returns the summary (new reference), or NULL. A sweep that the page shows first, or that is open,
 * is not read twice. */
static json_t *read_summary(struct serve_sweeps *s, const char *name, struct err *e)
{
    struct serve_sweep *open = NULL;
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    bool kept = find_open(s, name) || (s->chosen && strcmp(s->chosen, name) == 0);
    if (kept)
        return serve_sweeps_get(&open, s, name, e) == 0 ? summary(open->reader) : NULL;
    return sweep_reader_open(&v, s->root, name, e) == 0 ? summary(v) : NULL;
}

/* Returns the summary of a sweep (new reference): a stored one if the files are unchanged. Returns
 * an empty object if the time is over. */
static json_t *summary_of(struct serve_sweeps *s, const char *name, int64_t until_ms)
{
    AUTO(free) char *stamp = stamp_of(s->root, name);
    const json_t *known = json_object_get(s->summaries, name);
    const char *of = json_string_value(json_object_get(known, "stamp"));
    if (of && strcmp(of, stamp) == 0)
        return json_deep_copy(json_object_get(known, "summary"));
    if (clock_ms() > until_ms)
        return known ? json_deep_copy(json_object_get(known, "summary")) : json_object();
    struct err e = {0};
    json_t *o = read_summary(s, name, &e);
    o = o ? o : json_pack("{s:o}", "error", json_text(e.text));
    json_object_set_new(s->summaries, name, json_pack("{s:s,s:O}", "stamp", stamp, "summary", o));
    return o;
}

json_t *serve_sweeps_list(struct serve_sweeps *s, struct err *e)
{
    AUTO(strv) char **names = NULL;
    if (sweep_dir_list(&names, s->root, e) < 0)
        return NULL;
    json_t *list = json_array();
    int64_t until_ms = clock_ms() + LIST_MS;
    for (size_t i = 0; i < strv_len(names); i++) {
        json_t *o = summary_of(s, names[i], until_ms);
        json_object_set_new(o, "name", json_string(names[i]));
        json_array_append_new(list, o);
    }
    return json_pack("{s:s,s:s?,s:o}", "root", s->root, "chosen", s->chosen, "sweeps", list);
}
