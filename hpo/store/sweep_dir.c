#include "hpo/store/sweep_dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>

#include "common/command.h"
#include "common/durable.h"
#include "common/entropy.h"
#include "common/file.h"
#include "common/fnv_hash.h"
#include "common/json.h"
#include "common/opt.h"
#include "common/private_dir.h"

static bool name_char(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

bool sweep_dir_name_ok(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++)
        if (!name_char(name[i]))
            return false;
    return len > 0 && len <= SWEEP_DIR_NAME_MAX && name[0] != '.' && name[0] != '-';
}

char *sweep_dir_slug(const char *text)
{
    char name[SWEEP_DIR_NAME_MAX + 1];
    size_t len = 0;
    for (; *text && len < SWEEP_DIR_NAME_MAX; text++) {
        char c = name_char(*text) ? *text : '-';
        bool starts = len > 0 || (c != '-' && c != '.');
        bool repeats = len > 0 && c == '-' && name[len - 1] == '-';
        if (starts && !repeats)
            name[len++] = c;
    }
    while (len > 0 && name[len - 1] == '-')
        len--;
    name[len] = 0;
    return xstrdup(len > 0 ? name : "sweep");
}

char *sweep_dir_command(const char *command, const char *root, const char *name)
{
    return command_to_paste(command, name, root, "sweeps");
}

static char *in_dir(const struct sweep_dir *d, const char *file)
{
    return xasprintf("%s/%s", d->path, file);
}

/* ---- opening as coordinator ----------------------------------------------------------------- */

/* Others may not write: a file that they replace would decide which programs run. */
static int make_dir(const char *path, bool *made, struct err *e)
{
    *made = mkdir(path, 0755) == 0;
    int rc = *made ? durable_sync_dir_of(path) : errno == EEXIST ? 0 : -errno;
    return rc < 0 ? err_set(e, rc, "directory '%s': %s", path, strerror(-rc)) : 0;
}

static int hint_show(const struct sweep_dir *d, struct err *e)
{
    AUTO(free) char *show = sweep_dir_command("drover sweep show", d->root, d->name);
    return err_hint(e, "%s  shows its progress", show);
}

static int become_owner(struct sweep_dir *d, struct sweep_owner_watch *watch, struct err *e)
{
    int rc = sweep_owner_acquire(&d->owner, d->path, watch, e);
    if (rc != -EBUSY)
        return rc;
    err_wrap(e, "sweep '%s' is being worked on", d->name);
    return hint_show(d, e);
}

/* Writes a copy of the sweep file for users. drover itself reads the text from the store. */
static int write_copy(const struct sweep_dir *d, const char *text, struct err *e)
{
    AUTO(free) char *path = in_dir(d, "sweep.yaml");
    int rc = file_replace(path, text, strlen(text), 0600);
    return rc < 0 ? err_set(e, rc, "%s: %s", path, strerror(-rc)) : 0;
}

/* Gives the sweep its instance, with the next commit. */
static int put_instance(struct sweep_dir *d, struct err *e)
{
    uint64_t random = 0;
    char text[24];
    int rc = entropy_fill(&random, sizeof random);
    if (rc < 0)
        return err_set(e, rc, "random numbers: %s", strerror(-rc));
    d->instance = (int64_t)(random >> 1 | 1);
    snprintf(text, sizeof text, "%" PRId64, d->instance);
    return event_store_put(d->store, EVENT_STORE_META_INSTANCE, text, e);
}

static int store_new(struct sweep_dir *d, const struct sweep_dir_opts *opts, struct err *e)
{
    if (!opts->file)
        return err_set(e, -ENOENT, "sweep '%s' has no file stored", d->name);
    d->fresh = true;
    d->file = xstrdup(opts->file);
    d->seed = opts->seed ? *opts->seed : opts->file_seed;
    d->prior = json_incref((json_t *)opts->prior);
    AUTO(free) char *prior = d->prior ? json_line(d->prior) : NULL;
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, d->seed);
    if (write_copy(d, d->file, e) < 0 || put_instance(d, e) < 0 ||
        event_store_put(d->store, "file", d->file, e) < 0 ||
        event_store_put(d->store, "seed", seed, e) < 0 ||
        (prior && event_store_put(d->store, "prior", prior, e) < 0))
        return e->code;
    return event_store_commit(d->store, e);
}

/* Reads the stored text, seed, warm start and instance. A single commit has written all of them. */
static int read_meta(struct sweep_dir *d, struct err *e)
{
    AUTO(free) char *seed = NULL, *prior = NULL, *instance = NULL;
    if (event_store_get(&d->file, d->store, "file", e) < 0 ||
        event_store_get(&seed, d->store, "seed", e) < 0 ||
        event_store_get(&prior, d->store, "prior", e) < 0 ||
        event_store_get(&instance, d->store, EVENT_STORE_META_INSTANCE, e) < 0)
        return e->code;
    d->instance = instance ? strtoll(instance, NULL, 10) : 0;
    if (prior && json_parse(&d->prior, prior, strlen(prior), e) < 0)
        return err_wrap(e, "%s/sweep.db: prior", d->path);
    d->seed = seed ? strtoull(seed, NULL, 10) : 0;
    return 0;
}

static int other_sweep(const struct sweep_dir *d, const char *difference, struct err *e)
{
    err_set(e, -EEXIST, "%s already holds a sweep with %s", d->path, difference);
    AUTO(free) char *resume = sweep_dir_command("drover sweep resume", d->root, d->name);
    return err_hint(e,
                    "--restart archives it and starts anew; --name OTHER starts another one; %s  "
                    "continues the stored one",
                    resume);
}

static int check_stored(struct sweep_dir *d, const struct sweep_dir_opts *opts, struct err *e)
{
    if (opts->file && strcmp(opts->file, d->file) != 0)
        return other_sweep(d, "another file", e);
    if (opts->seed && *opts->seed != d->seed)
        return other_sweep(d, "another seed", e);
    if (opts->prior && !d->prior)
        return other_sweep(d, "no prior", e);
    if (opts->prior &&
        !json_equal(json_object_get(opts->prior, "from"), json_object_get(d->prior, "from")))
        return other_sweep(d, "another prior", e);
    return 0;
}

static int lost(const struct sweep_dir *d, struct err *e)
{
    err_wrap(e, "sweep '%s': nothing more is stored", d->name);
    return hint_show(d, e);
}

static int check_owner(void *arg, struct err *e)
{
    const struct sweep_dir *d = arg;
    return sweep_owner_check(d->owner, e) < 0 ? lost(d, e) : 0;
}

int sweep_dir_beat(const struct sweep_dir *d, struct err *e)
{
    return sweep_owner_beat(d->owner, e) < 0 ? lost(d, e) : 0;
}

static int open_store(struct sweep_dir *d, const struct sweep_dir_opts *opts, struct err *e)
{
    AUTO(free) char *db = in_dir(d, "sweep.db"), *trials = in_dir(d, "trials");
    if (access(db, F_OK) < 0 && access(trials, F_OK) == 0) { /* and checkpoints, in their places */
        err_set(e, -EEXIST, "%s has trials of a sweep whose store is gone", d->path);
        return err_hint(e, "rm -r %s  removes them; --name OTHER starts another sweep", trials);
    }
    if (event_store_open(&d->store, db, EVENT_STORE_WRITE, e) < 0 || read_meta(d, e) < 0)
        return e->code;
    event_store_set_guard(d->store, check_owner, d);
    int rc = d->file ? check_stored(d, opts, e) : store_new(d, opts, e);
    if (rc < 0 || d->instance)
        return rc;
    rc = put_instance(d, e); /* an older drover has written the store */
    return rc < 0 ? rc : event_store_commit(d->store, e);
}

static int no_such_sweep(const char *root, const char *name, struct err *e)
{
    err_set(e, -ENOENT, "there is no sweep '%s' in '%s'", name, root);
    AUTO(strv) char **names = NULL;
    if (sweep_dir_list(&names, root, NULL) < 0)
        return -ENOENT;
    const char *near = opt_suggest(name, (const char *const *)names, strv_len(names));
    if (near)
        err_hint(e, "%s", near);
    return -ENOENT;
}

static struct sweep_dir *unopened(const char *root, const char *name)
{
    struct sweep_dir *d = xzalloc(sizeof *d);
    d->root = xstrdup(root);
    d->name = xstrdup(name);
    return d;
}

/* Removes the files of a failed start, and the directory that it created. */
static void remove_new(struct sweep_dir *d, const char *path)
{
    static const char *const files[] = {"lock", "owner", "sweep.db", "sweep.db-mark", "sweep.yaml"};
    event_store_close(TAKE(d->store));
    for (size_t i = 0; d->path && i < COUNT_OF(files); i++) {
        AUTO(free) char *file = in_dir(d, files[i]);
        (void)unlink(file); /* it may not exist */
    }
    (void)rmdir(path); /* it stays if it has other files */
}

int sweep_dir_open(struct sweep_dir **out, const struct sweep_dir_opts *opts, struct err *e)
{
    struct err local = {0};
    e = e ? e : &local;
    AUTO(sweep_dir) struct sweep_dir *d = unopened(opts->root, opts->name);
    AUTO(free) char *path = xasprintf("%s/%s", opts->root, opts->name);
    AUTO(free) char *db = xasprintf("%s/sweep.db", path);
    if ((opts->must_exist || !opts->file) && access(db, F_OK) < 0)
        return no_such_sweep(opts->root, opts->name, e);
    bool made_root = false, made = false;
    if (make_dir(opts->root, &made_root, e) < 0 || make_dir(path, &made, e) < 0)
        return e->code;
    d->path = realpath(path, NULL);
    int rc = d->path ? become_owner(d, opts->watch, e)
                     : err_set(e, -errno, "%s: %s", path, strerror(errno));
    if (rc == 0)
        rc = open_store(d, opts, e);
    if (rc < 0 && made)
        remove_new(d, path);
    if (rc < 0 && made_root)
        (void)rmdir(opts->root); /* it stays if it has other files */
    if (rc < 0)
        return rc;
    *out = TAKE(d);
    return 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

int sweep_dir_find(char **out, const char *root, const char *name, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/%s", root, name);
    AUTO(free) char *db = xasprintf("%s/sweep.db", path);
    AUTO(free) char *real = realpath(path, NULL);
    if (!real || access(db, F_OK) < 0)
        return errno == EACCES ? err_set(e, -EACCES, "%s: %s", path, strerror(EACCES))
                               : no_such_sweep(root, name, e);
    *out = TAKE(real);
    return 0;
}

int sweep_dir_read(struct sweep_dir **out, const char *root, const char *name, struct err *e)
{
    struct err local = {0};
    e = e ? e : &local;
    AUTO(sweep_dir) struct sweep_dir *d = unopened(root, name);
    if (sweep_dir_find(&d->path, root, name, e) < 0)
        return e->code;
    AUTO(free) char *db = in_dir(d, "sweep.db");
    if (event_store_open(&d->store, db, EVENT_STORE_READ, e) < 0 || read_meta(d, e) < 0)
        return e->code;
    if (!d->file)
        return err_set(e, -ENOENT, "%s: the sweep has not started yet", db);
    *out = TAKE(d);
    return 0;
}

char *sweep_dir_unused_name(const struct sweep_dir_opts *opts)
{
    for (int n = 1;; n++) {
        char suffix[16] = "";
        if (n > 1)
            snprintf(suffix, sizeof suffix, "-%d", n);
        AUTO(free)
        char *name =
            xasprintf("%.*s%s", SWEEP_DIR_NAME_MAX - (int)strlen(suffix), opts->name, suffix);
        AUTO(sweep_dir) struct sweep_dir *d = NULL;
        /* If the sweep cannot be read, sweep_dir_open() says why. */
        if (sweep_dir_read(&d, opts->root, name, NULL) < 0 || strcmp(d->file, opts->file) == 0 ||
            (opts->same && opts->same(opts->arg, d->file)))
            return TAKE(name);
    }
}

void sweep_dir_close(struct sweep_dir *d)
{
    if (!d)
        return;
    event_store_close(d->store);
    sweep_owner_release(d->owner);
    free(d->name);
    free(d->root);
    free(d->path);
    free(d->file);
    json_decref(d->prior);
    free(d);
}

struct lockfile_owner sweep_dir_owner(const struct sweep_dir *d)
{
    return sweep_owner_read(d->path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int sweep_dir_list(char ***out, const char *root, struct err *e)
{
    AUTO(dir) DIR *dir = opendir(root);
    if (!dir && errno != ENOENT)
        return err_set(e, -errno, "directory '%s': %s", root, strerror(errno));
    AUTO(strv) char **names = NULL;
    const struct dirent *ent;
    while (dir && (ent = readdir(dir))) {
        AUTO(free) char *db = xasprintf("%s/%s/sweep.db", root, ent->d_name);
        if (sweep_dir_name_ok(ent->d_name) && access(db, F_OK) == 0)
            strv_push(&names, xstrdup(ent->d_name));
    }
    if (names)
        qsort(names, strv_len(names), sizeof *names, by_name);
    *out = TAKE(names);
    return 0;
}

int sweep_dir_check_command(const struct sweep_dir *d, const json_t *command, struct err *e)
{
    const json_t *instance = json_object_get(command, "instance");
    return !instance || json_integer_value(instance) == d->instance
               ? 0
               : err_set(e, -ESTALE, "the command was for another sweep that was here");
}

/* ---- files in the directory ----------------------------------------------------------------- */

char *sweep_dir_host_file(const struct sweep_dir *d, const char *suffix)
{
    struct utsname u;
    AUTO(free) char *host = uname(&u) < 0 ? NULL : sweep_dir_slug(u.nodename);
    return xasprintf("%s/worker.%s.%s", d->path, host ? host : "local", suffix);
}

/* Sets `*out` to a directory with a short path: $XDG_RUNTIME_DIR/drover, or the private directory
 * in /tmp. */
static int socket_dir(char **out, struct err *e)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    bool usable = run && *run == '/' && strlen(run) < 64;
    AUTO(free) char *dir = usable ? xasprintf("%s/drover", run) : NULL;
    if (!dir || private_dir_make(dir, NULL) < 0)
        return private_dir_in(out, "/tmp", e);
    *out = TAKE(dir);
    return 0;
}

int sweep_dir_endpoint(char **out, const struct sweep_dir *d, struct err *e)
{
    AUTO(free) char *sock = in_dir(d, "coord.sock");
    if (strlen(sock) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        AUTO(free) char *dir = NULL;
        int rc = socket_dir(&dir, e);
        if (rc < 0)
            return rc;
        free(sock);
        sock = xasprintf("%s/%016" PRIx64 ".sock", dir,
                         fnv_hash_bytes(FNV_HASH_INIT, d->path, strlen(d->path)));
    }
    AUTO(free) char *file = in_dir(d, "endpoint");
    AUTO(free) char *line = xasprintf("ipc://%s\n", sock);
    int rc = file_replace(file, line, strlen(line), 0600);
    if (rc < 0)
        return err_set(e, rc, "%s: %s", file, strerror(-rc));
    *out = xasprintf("ipc://%s", sock);
    return 0;
}

int sweep_dir_write_workers(const struct sweep_dir *d, const json_t *list, struct err *e)
{
    AUTO(free) char *path = in_dir(d, "workers.json"), *text = json_line(list);
    int rc = file_replace(path, text, strlen(text), event_store_permissions(d->store));
    return rc < 0 ? err_set(e, rc, "%s: %s", path, strerror(-rc)) : 0;
}

json_t *sweep_dir_workers(const struct sweep_dir *d)
{
    AUTO(free) char *path = in_dir(d, "workers.json");
    json_t *list = sweep_dir_owner(d).held ? json_load_file(path, 0, NULL) : NULL;
    return list ? list : json_array();
}
