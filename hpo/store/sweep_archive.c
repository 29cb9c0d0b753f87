#include "hpo/store/sweep_archive.h"

#include <errno.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hpo/store/lockfile.h"
#include "hpo/store/sweep_dir.h"

enum { OPEN_DIRS = 16 };

/* ---- locking -------------------------------------------------------------------------------- */

/* Workers outlive a coordinator that was killed, for a minute. */
static int check_workers(const struct sweep_archive *a, struct err *e)
{
    AUTO(free) char *pattern = xasprintf("%s/worker.*.lock", a->path);
    glob_t found = {0};
    int rc = 0;
    if (glob(pattern, 0, NULL, &found) != 0)
        found.gl_pathc = 0;
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        struct lockfile_owner o = {0};
        rc = lockfile_read_owner(&o, found.gl_pathv[i], e);
        if (rc < 0 || !o.held)
            continue;
        rc = err_set(e, -EBUSY, "sweep '%s': its worker, process %d on %s, is running", a->name,
                     (int)o.pid, o.host);
        err_hint(e, "wait: a worker without a coordinator ends within a minute");
    }
    globfree(&found);
    return rc;
}

int sweep_archive_lock(struct sweep_archive **out, const char *root, const char *name,
                       struct err *e)
{
    AUTO(sweep_archive) struct sweep_archive *a = xzalloc(sizeof *a);
    a->root = xstrdup(root);
    a->name = xstrdup(name);
    if (!sweep_dir_name_ok(name))
        return err_set(e, -ENOENT, "'%s' is not a valid sweep name", name);
    int rc = sweep_dir_find(&a->path, root, name, e);
    if (rc < 0)
        return rc;
    rc = sweep_owner_acquire(&a->owner, a->path, NULL, e);
    if (rc == -EBUSY) {
        err_wrap(e, "sweep '%s' is being worked on", name);
        AUTO(free) char *cancel = sweep_dir_command("drover sweep cancel", root, name);
        return err_hint(e, "%s  ends it", cancel);
    }
    if (rc == 0)
        rc = check_workers(a, e);
    if (rc < 0)
        return rc;
    *out = TAKE(a);
    return 0;
}

void sweep_archive_unlock(struct sweep_archive *a)
{
    if (!a)
        return;
    sweep_owner_release(a->owner);
    free(a->root);
    free(a->name);
    free(a->path);
    free(a);
}

/* ---- out of the way ------------------------------------------------------------------------- */

/* Returns the sweep's entry in `root`: its directory, or the user's link to it. */
static char *entry(const struct sweep_archive *a)
{
    return xasprintf("%s/%s", a->root, a->name);
}

int sweep_archive_rename(char **out, struct sweep_archive *a, struct err *e)
{
    AUTO(free) char *from = entry(a);
    for (int n = 1;; n++) {
        AUTO(free) char *name = xasprintf("%s.%d", a->name, n);
        AUTO(free) char *to = xasprintf("%s/%s", a->root, name);
        if (!sweep_dir_name_ok(name)) {
            err_set(e, -ENAMETOOLONG, "sweep '%s': '%s' is longer than %d characters", a->name,
                    name, SWEEP_DIR_NAME_MAX);
            return err_hint(e, "start another sweep with --name NAME");
        }
        if (access(to, F_OK) == 0)
            continue;
        if (rename(from, to) == 0) {
            *out = TAKE(name);
            return 0;
        }
        if (errno != EEXIST && errno != ENOTEMPTY) /* another process made it after the look */
            return err_set(e, -errno, "cannot rename '%s' to '%s': %s", from, to, strerror(errno));
    }
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

static int remove_tree(const char *path, struct err *e)
{
    if (nftw(path, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
        return 0;
    return err_set(e, -errno, "cannot remove '%s': %s", path, strerror(errno));
}

int sweep_archive_remove(struct sweep_archive *a, struct err *e)
{
    /* The store is removed last, so that the sweep is found until then. */
    AUTO(free) char *trials = xasprintf("%s/trials", a->path);
    AUTO(free) char *from = entry(a);
    int rc = remove_tree(trials, e);
    if (rc == 0)
        rc = remove_tree(a->path, e);
    if (rc == -ENOTEMPTY) { /* NFS and FUSE keep a removed file until it is closed */
        sweep_owner_release(a->owner);
        a->owner = NULL;
        rc = remove_tree(a->path, e);
    }
    return rc < 0 ? rc : remove_tree(from, e); /* a link to it */
}
