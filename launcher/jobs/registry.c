#include "launcher/jobs/registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/command.h"
#include "common/file.h"
#include "common/private_dir.h"
#include "common/redact.h"
#include "common/strbuf.h"
#include "launcher/guardian/process_tree.h"

enum { FILE_MAX = 1 << 20 };

struct registry {
    char *path, *lines;
};

/* ---- directories ---------------------------------------------------------------------------- */

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

/* The directory of the login session, which cron, sudo and a container's exec do not name. */
static int session_dir(char **out, struct err *e)
{
    AUTO(free) char *base = xasprintf("/run/user/%d", (int)geteuid());
    return access(base, W_OK) < 0 ? err_set(e, -errno, "%s: %s", base, strerror(errno))
                                  : jobs_dir(out, base, e);
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

json_t *registry_json(const struct registry_job *j)
{
    json_t *o = json_pack(
        "{s:o, s:s, s:i, s:I, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:I}", "id", json_text(j->id),
        "kind", registry_kind_names[j->kind], "pid", (int)j->pid, "start", (json_int_t)j->start,
        "command", json_text(j->command), "dir", json_text(j->dir), "ranks", j->ranks, "first_rank",
        j->first_rank, "nodes", json_text(j->nodes), "output_dir", json_text(j->output_dir),
        "lines", json_text(j->lines), "started_ms", (json_int_t)j->started_ms);
    if (j->sweep)
        json_object_set_new(o, "sweep", json_text(j->sweep));
    if (j->kind == REGISTRY_TRIAL)
        json_object_set_new(o, "trial", json_integer(j->trial));
    return o;
}

/* Takes the reference to `j`. */
static int job_from(struct registry_job *out, json_t *j)
{
    AUTO(json) json_t *own = j;
    const char *kind = registry_kind_names[REGISTRY_JOB];
    json_int_t start, started_ms;
    static const char *const wide[] = {"start", "started_ms", NULL};
    *out = (struct registry_job){0};
    if (!json_fits_int(j, wide) ||
        json_unpack(j, "{s:s, s?s, s?s, s?i, s:i, s:I, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:I}",
                    "id", &out->id, "kind", &kind, "sweep", &out->sweep, "trial", &out->trial,
                    "pid", &out->pid, "start", &start, "command", &out->command, "dir", &out->dir,
                    "ranks", &out->ranks, "first_rank", &out->first_rank, "nodes", &out->nodes,
                    "output_dir", &out->output_dir, "lines", &out->lines, "started_ms",
                    &started_ms) < 0)
        return -EINVAL;
    while (out->kind < REGISTRY_KINDS && strcmp(kind, registry_kind_names[out->kind]) != 0)
        out->kind++;
    if (out->kind == REGISTRY_KINDS || (out->kind != REGISTRY_JOB && !out->sweep))
        return -EINVAL;
    out->start = (uint64_t)start;
    out->started_ms = started_ms;
    out->json = TAKE(own);
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

uint64_t registry_own_start(void)
{
    struct process_tree_proc self = {0};
    return process_tree_read(&self, getpid()) < 0 ? 0 : self.start;
}

char *registry_place(void)
{
    struct utsname u = {0};
    AUTO(free) char *mark = namespace_mark();
    (void)uname(&u); /* cannot fail */
    return xasprintf("%s%.*s", u.nodename, (int)(strlen(mark) - strlen(".json")), mark);
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
    struct registry_job full = *job;
    full.pid = getpid();
    full.start = self.start;
    full.dir = cwd ? cwd : "";
    full.lines = r->lines;
    full.started_ms = clock_ms_of(CLOCK_REALTIME);
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
                                   .sweep = name,
                                   .command = command,
                                   .nodes = "",
                                   .output_dir = ""};
    return registry_enter(out, &j, e);
}

char *registry_sweep_command(const struct registry_job *j, const char *command)
{
    bool trial = j->kind == REGISTRY_TRIAL;
    AUTO(free) char *before = xasprintf("sweep %s in ", j->sweep);
    AUTO(free) char *after = xasprintf("/%s%s", j->sweep, trial ? "/trials/" : "");
    bool told = strncmp(j->command, before, strlen(before)) == 0;
    const char *dir = trial ? j->output_dir : j->command + (told ? strlen(before) : 0), *end = NULL;
    for (const char *at = dir; trial || told ? (at = strstr(at, after)) : NULL; at++)
        end = at;
    AUTO(free) char *root = end ? xstrndup(dir, (size_t)(end - dir)) : xstrdup("sweeps");
    return command_to_paste(command, j->sweep, root, "sweeps");
}

int registry_enter_trial(struct registry **out, const char *sweep, int trial, int ranks,
                         char *const *argv, const char *output_dir, struct err *e)
{
    AUTO(free) char *id = xasprintf("trial-%s.%d.%d", sweep, trial, (int)getpid());
    AUTO(strbuf) struct strbuf command = {0};
    redact_command(&command, argv);
    const struct registry_job j = {.id = id,
                                   .kind = REGISTRY_TRIAL,
                                   .sweep = sweep,
                                   .trial = trial,
                                   .command = strbuf_str(&command),
                                   .ranks = ranks,
                                   .nodes = "",
                                   .output_dir = output_dir};
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
    json_t *j = NULL;
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
    for (size_t i = 0; i < l->count; i++)
        if (l->at[i].pid == j.pid && strcmp(l->at[i].id, j.id) == 0) {
            json_decref(j.json); /* XDG_RUNTIME_DIR is the login session's directory */
            return;
        }
    if (!registry_is_alive(&j)) {
        unlink(path);
        unlink(j.lines);
        json_decref(j.json);
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
    read_dir(out, session_dir);
    read_dir(out, tmp_dir);
    if (out->count)
        qsort(out->at, out->count, sizeof *out->at, by_age);
}

void registry_end(struct registry_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        json_decref(l->at[i].json);
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
        return err_hint(e, "'drover ps' lists the jobs, 'drover runs' also those that have ended");
    }
    *out = found;
    return 0;
}
