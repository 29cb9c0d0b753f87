#include "hpo/worker/trial_paths.h"

#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

static const char *text(const json_t *run, const char *key)
{
    return json_string_value(json_object_get(run, key));
}

/* Returns SWEEP of SWEEP/trials/000017; to be freed. */
static char *sweep_of(const char *trial)
{
    AUTO(free) char *path = xstrdup(trial);
    return xstrdup(dirname(dirname(path)));
}

static bool is_sweep_dir(const char *sweep, const struct curve_keys *keys)
{
    struct curve_keys found;
    AUTO(free) char *file = xasprintf("%s/worker.key", sweep), *endpoint = NULL;
    return access(sweep, W_OK) == 0 && curve_keys_read(&found, &endpoint, file, NULL) == 0 &&
           memcmp(found.secret, keys->secret, CURVE_KEYS_BYTES) == 0;
}

/* Makes DIR/SWEEP-xxxxxxxx, from the coordinator's key: two sweeps of one name have two
 * directories. */
static int own_dir(char **out, const struct trial_paths_opts *opts, const json_t *run,
                   struct err *e)
{
    if (mkdir(opts->dir, 0755) < 0 && errno != EEXIST)
        return err_set(e, -errno, "--dir '%s': %s", opts->dir, strerror(errno));
    AUTO(free) char *root = realpath(opts->dir, NULL);
    if (!root || access(root, W_OK) < 0)
        return err_set(e, -errno, "--dir '%s': %s", opts->dir, strerror(errno));
    const uint8_t *k = opts->keys->other;
    *out = xasprintf("%s/%s-%02x%02x%02x%02x", root, text(run, "sweep"), k[0], k[1], k[2], k[3]);
    return 0;
}

int trial_paths_new(struct trial_paths **out, const struct trial_paths_opts *opts,
                    const json_t *run, struct err *e)
{
    AUTO(trial_paths) struct trial_paths *s = xzalloc(sizeof *s);
    const char *wdir = opts->wdir ? opts->wdir : text(run, "wdir");
    s->wdir = realpath(wdir, NULL);
    if (!s->wdir || access(s->wdir, X_OK) < 0) {
        int code = errno;
        err_set(e, -code, "working directory '%s' of the trials: %s", wdir, strerror(code));
        return err_hint(e, "mount or copy it on this node, or start the worker with --wdir DIR");
    }
    s->sweep = sweep_of(text(run, "dir"));
    s->moved = opts->keys && !is_sweep_dir(s->sweep, opts->keys);
    if (s->moved) {
        free(TAKE(s->sweep));
        int rc = own_dir(&s->sweep, opts, run, e);
        if (rc < 0)
            return rc;
    }
    *out = TAKE(s);
    return 0;
}

void trial_paths_free(struct trial_paths *s)
{
    if (!s)
        return;
    free(s->wdir);
    free(s->sweep);
    free(s);
}
