#include "launcher/jobs/run_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/clock.h"
#include "common/duration.h"
#include "common/log.h"
#include "common/opt.h"
#include "common/utf8.h"
#include "launcher/jobs/registry.h"
#include "launcher/jobs/run_log.h"
#include "launcher/jobs/sqlite.h"

enum {
    WAIT_MS = 1000,       /* for a writer */
    FRESH_MS = 60000,     /* a drover on another machine has written within this time, or is lost */
    AGE_MAX_DAYS = 30,    /* without DROVER_RUNS_MAX_AGE_DAYS */
    TOTAL_MAX = 1 << 30,  /* bytes of all runs */
    DAY_MS = 24 * 3600000 /* of which an int holds 24 */
};

/* ---- the list ------------------------------------------------------------------------------- */

static int newest_first(const void *a, const void *b)
{
    const struct run_entry *x = a, *y = b;
    if (x->changed_ms != y->changed_ms)
        return x->changed_ms > y->changed_ms ? -1 : 1;
    return strcmp(y->id, x->id);
}

int run_store_list(struct run_list *out, struct err *e)
{
    AUTO(free) char *path = NULL;
    struct err own = {0};
    time_t now_s = time(NULL);
    *out = (struct run_list){0};
    int rc = sqlite_dir(&path, "runs", false, &own);
    if (rc == -ENOENT)
        return 0;
    if (rc < 0 && e)
        *e = own;
    AUTO(dir) DIR *d = rc < 0 ? NULL : opendir(path);
    for (const struct dirent *f; d && (f = readdir(d));) {
        struct stat st;
        size_t len = strlen(f->d_name);
        /* One that is empty and new is being made: its first rows are written as a whole */
        if (len < 4 || strcmp(f->d_name + len - 3, ".db") != 0 ||
            fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            (st.st_size == 0 && now_s - st.st_mtim.tv_sec < FRESH_MS / 1000))
            continue;
        out->at = xgrow(out->at, out->count, sizeof *out->at);
        out->at[out->count++] = (struct run_entry){.id = xstrndup(f->d_name, len - 3),
                                                   .path = xasprintf("%s/%s", path, f->d_name),
                                                   .changed_ms = (int64_t)st.st_mtim.tv_sec * 1000 +
                                                                 st.st_mtim.tv_nsec / 1000000,
                                                   .bytes = st.st_size};
    }
    if (out->count)
        qsort(out->at, out->count, sizeof *out->at, newest_first);
    return rc;
}

void run_store_end(struct run_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->at[i].id);
        free(l->at[i].path);
        json_decref(l->at[i].meta);
    }
    free(l->at);
    *l = (struct run_list){0};
}

/* ---- one run -------------------------------------------------------------------------------- */

const char *run_store_text(const struct run_entry *r, const char *key)
{
    const char *text = json_string_value(json_object_get(r->meta, key));
    return text ? text : "";
}

bool run_store_is(const struct run_entry *r, const char *state)
{
    return strcmp(run_store_text(r, "state"), state) == 0;
}

int64_t run_store_number(const struct run_entry *r, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(r->meta, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

void run_store_duration(char out[24], const struct run_entry *r)
{
    int64_t now_ms = run_store_is(r, "running") ? clock_ms_of(CLOCK_REALTIME) : r->changed_ms;
    int64_t ms = run_store_number(r, "end_ms", now_ms) - run_store_number(r, "begin_ms", now_ms);
    duration_format(out, 24, ms / 1000);
}

void run_store_cause(struct strbuf *b, const struct run_entry *r)
{
    const char *text = run_store_text(r, "cause"), *cause = strstr(text, "\n  cause: ");
    if (run_store_is(r, "lost"))
        text = "its drover was killed, or the machine went down";
    else if (cause)
        text = cause + strlen("\n  cause: ");
    else if (strncmp(text, "drover ", 7) == 0 && strstr(text, ": "))
        text = strstr(text, ": ") + 2;
    AUTO(free) char *line = xstrndup(text, strcspn(text, "\n"));
    utf8_add_line(b, line);
}

/* The pid says nothing on another machine, or in another container: then the file does, to which a
 * drover that runs writes every 10 s. */
static const char *find_state(const struct run_entry *r)
{
    const json_t *process = json_object_get(r->meta, "process"), *status;
    const char *place = json_string_value(json_object_get(process, "place"));
    if ((status = json_object_get(r->meta, "status")))
        return json_integer_value(status) == 0                     ? "done"
               : json_is_true(json_object_get(r->meta, "by_user")) ? "stopped"
                                                                   : "failed";
    AUTO(free) char *here = registry_place();
    const struct registry_job j = {
        .pid = (pid_t)json_integer_value(json_object_get(process, "pid")),
        .start = (uint64_t)json_integer_value(json_object_get(process, "start"))};
    bool runs = place && strcmp(place, here) == 0
                    ? registry_is_alive(&j)
                    : clock_ms_of(CLOCK_REALTIME) - r->changed_ms < FRESH_MS;
    return runs ? "running" : "lost";
}

int run_store_each(const struct run_entry *r, const char *sql,
                   void (*fn)(void *arg, const char *text), void *arg, struct err *e)
{
    AUTO(sqlite_file) struct sqlite_file f = {0};
    sqlite3_stmt *st = NULL;
    int step, rc = sqlite_open(&f, r->path, false, WAIT_MS, e);
    int64_t version = 0;
    if (rc == 0)
        rc = sqlite_check(&f, RUN_LOG_APPLICATION_ID, RUN_LOG_FORMAT, &version, e);
    if (rc == 0 && version == 0)
        rc = err_set(e, -EBADMSG, "%s: not a log of a run", r->path);
    if (rc == 0)
        rc = sqlite_prepare(&f, &st, sql, e);
    if (rc < 0)
        return rc;
    while ((step = sqlite.step(st)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite.column_text(st, 0);
        fn(arg, text ? text : "");
    }
    rc = step == SQLITE_DONE ? 0 : sqlite_failed(&f, e);
    sqlite.finalize(st);
    return rc;
}

static void take_meta(void *arg, const char *text)
{
    (void)json_parse(&((struct run_entry *)arg)->meta, text, strlen(text), NULL);
}

bool run_store_read(struct run_entry *r)
{
    struct err e = {0};
    if (r->meta)
        return true;
    int rc =
        run_store_each(r, "SELECT json_group_object(key, json(value)) FROM meta", take_meta, r, &e);
    if (rc == 0 && !json_is_object(r->meta))
        rc = err_set(&e, -EBADMSG, "%s: damaged", r->path);
    if (rc < 0) {
        log_warn("%s (skipped)", e.text);
        return false;
    }
    json_object_set_new(r->meta, "id", json_text(r->id));
    json_object_set_new(r->meta, "state", json_string(find_state(r)));
    return true;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

int run_store_find(struct run_entry **out, const struct run_list *l, const char *word,
                   struct err *e)
{
    struct run_entry *found = NULL;
    AUTO(free) char *whole = xasprintf("drover-%s", word);
    for (size_t i = 0; i < l->count; i++) {
        struct run_entry *r = &l->at[i];
        if (strcmp(r->id, word) == 0) {
            found = r;
            break;
        }
        if (!begins(r->id, word) && !begins(r->id, whole))
            continue;
        if (found) {
            err_set(e, -EEXIST, "run '%s': several runs have this prefix", word);
            (void)err_hint(e, "%s or %s", found->id, r->id);
            return -EEXIST;
        }
        found = r;
    }
    for (size_t i = 0; i < l->count && !found; i++)
        if (run_store_read(&l->at[i]) && strcmp(run_store_text(&l->at[i], "name"), word) == 0)
            found = &l->at[i];
    if (!found || !run_store_read(found)) {
        err_set(e, -ENOENT, "run '%s': you have no run of this id or name", word);
        (void)err_hint(e, "'drover runs' lists the runs");
        return -ENOENT;
    }
    *out = found;
    return 0;
}

/* ---- removal -------------------------------------------------------------------------------- */

int run_store_remove(struct run_entry *r, struct err *e)
{
    if (r->meta && run_store_is(r, "running")) {
        err_set(e, -EBUSY, "run %s: it has not ended", r->id);
        (void)err_hint(e, "drover kill %s", r->id);
        return -EBUSY;
    }
    AUTO(free) char *journal = xasprintf("%s-journal", r->path);
    if (unlink(r->path) < 0)
        return err_set(e, -errno, "%s: %s", r->path, strerror(errno));
    (void)unlink(journal); /* usually there is none */
    return 0;
}

void run_store_trim(void)
{
    struct run_list l;
    int64_t total = 0, now_ms = clock_ms_of(CLOCK_REALTIME);
    int days = AGE_MAX_DAYS;
    const char *text = getenv("DROVER_RUNS_MAX_AGE_DAYS");
    struct err e = {0};
    if (text && opt_int(&days, "DROVER_RUNS_MAX_AGE_DAYS", text, 0, 1000000, &e) < 0)
        log_warn("%s (%d is used)", e.text, days);
    (void)run_store_list(&l, NULL);
    for (size_t i = 0; i < l.count; i++) {
        struct run_entry *r = &l.at[i];
        total += r->bytes;
        bool old = now_ms - r->changed_ms > (int64_t)days * DAY_MS;
        if ((old || total > TOTAL_MAX) && run_store_read(r))
            (void)run_store_remove(r, NULL); /* it runs, or another drover was faster */
    }
    run_store_end(&l);
}
