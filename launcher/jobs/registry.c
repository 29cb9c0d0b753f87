#include "launcher/jobs/registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "common/private_dir.h"
#include "common/redact.h"
#include "common/strbuf.h"
#include "launcher/guardian/process_tree.h"

enum { FILE_MAX = 1 << 20 };

struct registry {
    char *path, *lines;
};

AUTO_DEFINE(dir, DIR *, closedir)

/* ---- directories
 * -------------------------------------------------------------------------------------
 */

/* Returns BASE/drover/jobs, created if necessary. */
static int jobs_dir(char **out, const char *base, struct err *e)
{
    AUTO(free) char *above = xasprintf("%s/drover", base);
    AUTO(free) char *dir = xasprintf("%s/jobs", above);
    int rc = private_dir_make(above, e);
    if (rc == 0)
        rc = private_dir_make(dir, e);
    if (rc == 0)
        *out = TAKE(dir);
    return rc;
}

/* The directory in XDG_RUNTIME_DIR. */
static int runtime_dir(char **out, struct err *e)
{
    const char *given = getenv("XDG_RUNTIME_DIR");
    if (!given || given[0] != '/')
        return err_set(e, -ENOENT, "XDG_RUNTIME_DIR is not set");
    return jobs_dir(out, given, e);
}

static int tmp_dir(char **out, struct err *e)
{
    AUTO(free) char *base = NULL;
    int rc = private_dir_in(&base, "/tmp", e);
    return rc < 0 ? rc : jobs_dir(out, base, e);
}

static int choose_dir(char **out, struct err *e)
{
    return runtime_dir(out, NULL) == 0 ? 0 : tmp_dir(out, e);
}

/* ---- one job -------------------------------------------------------------------------------- */

static void job_end(struct registry_job *j)
{
    free(j->id);
    free(j->sweep);
    free(j->command);
    free(j->dir);
    free(j->nodes);
    free(j->output_dir);
    free(j->lines);
}

static int read_text(char **out, const json_t *j, const char *key)
{
    const char *text;
    int rc = json_require_str(&text, j, key, NULL);
    if (rc == 0)
        *out = xstrdup(text);
    return rc;
}

static const char *const kind_names[] = {
    [REGISTRY_JOB] = "job", [REGISTRY_SWEEP] = "sweep", [REGISTRY_TRIAL] = "trial"};

json_t *registry_json(const struct registry_job *j)
{
    json_t *o = json_pack("{s:o, s:s, s:i, s:I, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:I}", "id",
                          json_text(j->id), "kind", kind_names[j->kind], "pid", (int)j->pid,
                          "start", (json_int_t)j->start, "command", json_text(j->command), "dir",
                          json_text(j->dir), "ranks", j->ranks, "first_rank", j->first_rank,
                          "nodes", json_text(j->nodes), "output_dir", json_text(j->output_dir),
                          "lines", json_text(j->lines), "started_ms", (json_int_t)j->started_ms);
    if (j->sweep)
        json_object_set_new(o, "sweep", json_text(j->sweep));
    if (j->kind == REGISTRY_TRIAL)
        json_object_set_new(o, "trial", json_integer(j->trial));
    return o;
}

/* Reads what tells a sweep and its trials from other jobs. */
static int kind_from(struct registry_job *out, const json_t *j)
{
    const char *kind = json_string_value(json_object_get(j, "kind"));
    size_t i = 0;
    while (kind && i < COUNT_OF(kind_names) && strcmp(kind, kind_names[i]) != 0)
        i++;
    if (i == COUNT_OF(kind_names))
        return -EINVAL;
    out->kind = (enum registry_kind)i;
    out->trial = (int)json_integer_value(json_object_get(j, "trial"));
    return out->kind == REGISTRY_JOB ? 0 : read_text(&out->sweep, j, "sweep");
}

static int job_from(struct registry_job *out, const json_t *j)
{
    struct registry_job new = {0};
    int64_t pid, start, ranks, first;
    if (json_require_int(&pid, j, "pid", NULL) < 0 ||
        json_require_int(&start, j, "start", NULL) < 0 ||
        json_require_int(&ranks, j, "ranks", NULL) < 0 ||
        json_require_int(&first, j, "first_rank", NULL) < 0 ||
        json_require_int(&new.started_ms, j, "started_ms", NULL) < 0 ||
        read_text(&new.id, j, "id") < 0 || read_text(&new.command, j, "command") < 0 ||
        read_text(&new.dir, j, "dir") < 0 || read_text(&new.nodes, j, "nodes") < 0 ||
        read_text(&new.output_dir, j, "output_dir") < 0 || read_text(&new.lines, j, "lines") < 0 ||
        kind_from(&new, j) < 0) {
        job_end(&new);
        return -EINVAL;
    }
    new.pid = (pid_t)pid;
    new.start = (uint64_t)start;
    new.ranks = (int)ranks;
    new.first_rank = (int)first;
    *out = new;
    return 0;
}

int registry_is_alive(const struct registry_job *j)
{
    struct process_tree_proc w;
    return process_tree_read(&w, j->pid) == 0 && w.start == j->start && w.state != 'Z';
}

/* ---- enter and leave ------------------------------------------------------------------------ */

/* The end of file names of this PID namespace. Containers that share a /tmp have other namespaces,
 * whose pids mean nothing here. */
static char *namespace_mark(void)
{
    char text[64];
    ssize_t n = readlink("/proc/self/ns/pid", text, sizeof text - 1); /* "pid:[4026531836]" */
    text[n > 0 ? n : 0] = '\0';
    char *digits = text + strcspn(text, "0123456789");
    digits[strspn(digits, "0123456789")] = '\0';
    return xasprintf(".%s.json", digits);
}

int registry_enter(struct registry **out, const struct registry_job *job, struct err *e)
{
    AUTO(free) char *dir = NULL;
    struct process_tree_proc self = {0};
    if (strchr(job->id, '/'))
        return err_set(e, -EINVAL, "job '%s': its name contains a '/'", job->id);
    int rc = choose_dir(&dir, e);
    if (rc == 0 && (rc = process_tree_read(&self, getpid())) < 0)
        err_set(e, rc, "/proc/self: %s", strerror(-rc));
    if (rc < 0)
        return rc;
    AUTO(free) char *mark = namespace_mark();
    AUTO(registry) struct registry *r = xzalloc(sizeof *r);
    AUTO(free) char *cwd = getcwd(NULL, 0);
    r->path = xasprintf("%s/%s%s", dir, job->id, mark);
    r->lines = xasprintf("%s/%s.lines", dir, job->id);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct registry_job full = *job;
    full.pid = getpid();
    full.start = self.start;
    full.dir = cwd ? cwd : (char *)"";
    full.lines = r->lines;
    full.started_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    AUTO(json) json_t *j = registry_json(&full);
    AUTO(free) char *text = json_line(j);
    rc = file_replace(r->path, text, strlen(text), 0600);
    if (rc < 0)
        return err_set(e, rc, "'%s': %s", r->path, strerror(-rc));
    *out = TAKE(r);
    return 0;
}

int registry_enter_sweep(struct registry **out, const char *name, const char *dir, struct err *e)
{
    AUTO(free) char *id = xasprintf("sweep-%s.%d", name, (int)getpid());
    AUTO(free) char *command = xasprintf("sweep %s in %s", name, dir);
    const struct registry_job j = {.id = id,
                                   .kind = REGISTRY_SWEEP,
                                   .sweep = (char *)name,
                                   .command = command,
                                   .nodes = (char *)"",
                                   .output_dir = (char *)""};
    return registry_enter(out, &j, e);
}

int registry_enter_trial(struct registry **out, const char *sweep, int trial, int ranks,
                         char *const *argv, const char *output_dir, struct err *e)
{
    AUTO(free) char *id = xasprintf("trial-%s.%d.%d", sweep, trial, (int)getpid());
    AUTO(strbuf) struct strbuf command = {0};
    redact_command(&command, argv);
    const struct registry_job j = {.id = id,
                                   .kind = REGISTRY_TRIAL,
                                   .sweep = (char *)sweep,
                                   .trial = trial,
                                   .command = (char *)strbuf_str(&command),
                                   .ranks = ranks,
                                   .nodes = (char *)"",
                                   .output_dir = (char *)output_dir};
    return registry_enter(out, &j, e);
}

void registry_leave(struct registry *r)
{
    if (!r)
        return;
    unlink(r->lines);
    unlink(r->path);
    free(r->path);
    free(r->lines);
    free(r);
}

const char *registry_lines(const struct registry *r)
{
    return r->lines;
}

/* ---- read ----------------------------------------------------------------------------------- */

static int read_job(struct registry_job *out, const char *path)
{
    AUTO(fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid())
        return -EPERM;
    AUTO(strbuf) struct strbuf text = {0};
    AUTO(json) json_t *j = NULL;
    int rc = file_read_fd(&text, fd, FILE_MAX);
    if (rc == 0)
        rc = json_parse(&j, text.data, text.len, NULL);
    return rc < 0 ? rc : job_from(out, j);
}

static void add_job(struct registry_list *l, const char *path)
{
    struct registry_job j;
    if (read_job(&j, path) < 0)
        return; /* it is being removed, or a later drover wrote it */
    if (!registry_is_alive(&j)) {
        unlink(path);
        unlink(j.lines);
        job_end(&j);
        return;
    }
    l->at = xrealloc(l->at, l->count + 1, sizeof *l->at);
    l->at[l->count++] = j;
}

static void read_dir(struct registry_list *l, int (*choose)(char **out, struct err *e))
{
    AUTO(free) char *path = NULL;
    if (choose(&path, NULL) < 0)
        return;
    AUTO(free) char *mark = namespace_mark();
    AUTO(dir) DIR *d = opendir(path);
    for (const struct dirent *f; d && (f = readdir(d));) {
        size_t len = strlen(f->d_name), end = strlen(mark);
        AUTO(free) char *file = xasprintf("%s/%s", path, f->d_name);
        if (len > end && strcmp(f->d_name + len - end, mark) == 0)
            add_job(l, file);
    }
}

static int by_age(const void *a, const void *b)
{
    const struct registry_job *x = a, *y = b;
    if (x->started_ms != y->started_ms)
        return x->started_ms < y->started_ms ? -1 : 1;
    return strcmp(x->id, y->id);
}

void registry_read(struct registry_list *out)
{
    *out = (struct registry_list){0};
    read_dir(out, runtime_dir);
    read_dir(out, tmp_dir);
    if (out->count)
        qsort(out->at, out->count, sizeof *out->at, by_age);
}

void registry_end(struct registry_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        job_end(&l->at[i]);
    free(l->at);
    *l = (struct registry_list){0};
}

static int starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

int registry_find(const struct registry_job **out, const struct registry_list *l,
                  const char *prefix, struct err *e)
{
    const struct registry_job *found = NULL;
    AUTO(free) char *whole = xasprintf("drover-%s", prefix);
    for (size_t i = 0; i < l->count; i++) {
        const struct registry_job *j = &l->at[i];
        if (strcmp(j->id, prefix) == 0) {
            *out = j;
            return 0;
        }
        if (!starts_with(j->id, prefix) && !starts_with(j->id, whole))
            continue;
        if (found) {
            err_set(e, -EEXIST, "job '%s': several jobs have this prefix", prefix);
            return err_hint(e, "%s or %s; 'drover ps' lists the jobs", found->id, j->id);
        }
        found = j;
    }
    if (!found) {
        err_set(e, -ENOENT, "job '%s': you have no running job of this name on this node", prefix);
        return err_hint(e, "'drover ps' lists the jobs");
    }
    *out = found;
    return 0;
}
