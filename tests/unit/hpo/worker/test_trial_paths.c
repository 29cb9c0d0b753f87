/* test_trial_paths - where trials run on a node, and where their files are: in the sweep's
 * directory only if it is the same one. */
#include "hpo/worker/trial_paths.h"

#include <sys/stat.h>

#include "common/json.h"
#include "tests/unit/test.h"

static char root[64];
static struct curve_keys server, worker;

/* ROOT/sweeps/s with keys, and a run in it. */
static json_t *make_sweep(void)
{
    struct err e = {0};
    strcpy(root, "/tmp/test_trial_paths.XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    AUTO(free) char *sweeps = xasprintf("%s/sweeps", root), *s = xasprintf("%s/s", sweeps);
    AUTO(free) char *trial = xasprintf("%s/trials/000003", s);
    CHECK_INT(mkdir(sweeps, 0777) | mkdir(s, 0777), 0);
    CHECK_INT(curve_keys_of_sweep(&server, &worker, s, &e), 0);
    CHECK_INT(curve_keys_give(&worker, s, "tcp://c:1", &e), 0);
    return json_pack("{s:s,s:s,s:s}", "sweep", "s", "dir", trial, "wdir", root);
}

static void remove_all(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -r %s", root);
    CHECK_INT(system(cmd), 0);
}

static struct trial_paths *found(const struct trial_paths_opts *ask, const json_t *run)
{
    struct err e = {0};
    struct trial_paths *s = NULL;
    if (trial_paths_new(&s, ask, run, &e) < 0)
        FAIL("%s", e.text);
    return s;
}

TEST(files_are_in_the_sweeps_directory_if_the_node_has_it)
{
    AUTO(json) json_t *run = make_sweep();
    for (int with_keys = 0; with_keys < 2; with_keys++) {
        const struct trial_paths_opts ask = {.dir = "/none", .keys = with_keys ? &worker : NULL};
        AUTO(trial_paths) struct trial_paths *s = found(&ask, run);
        CHECK_STR(s->wdir, root);
        CHECK(!s->moved);
    }
    remove_all();
}

TEST(the_directory_of_another_sweep_of_that_name_is_not_used)
{
    AUTO(json) json_t *run = make_sweep();
    struct curve_keys other = worker;
    other.secret[0] ^= 1;
    AUTO(free) char *dir = xasprintf("%s/here", root);
    const struct trial_paths_opts ask = {.dir = dir, .keys = &other};
    AUTO(trial_paths) struct trial_paths *s = found(&ask, run);
    AUTO(free)
    char *want = xasprintf("%s/s-%02x%02x%02x%02x", dir, other.other[0], other.other[1],
                           other.other[2], other.other[3]);
    CHECK(s->moved);
    CHECK_STR(s->sweep, want);
    remove_all();
}

TEST(a_missing_working_directory_is_named_with_a_hint)
{
    AUTO(json) json_t *run = make_sweep();
    json_object_set_new(run, "wdir", json_string("/nowhere/at/all"));
    struct err e = {0};
    struct trial_paths *s = NULL;
    const struct trial_paths_opts ask = {.dir = "x"}, elsewhere = {.dir = "x", .wdir = "/"};
    CHECK_INT(trial_paths_new(&s, &ask, run, &e), -ENOENT);
    CHECK_HAS(e.text, "'/nowhere/at/all'");
    CHECK_HAS(e.hint, "--wdir");
    CHECK(s == NULL);
    s = found(&elsewhere, run);
    CHECK_STR(s->wdir, "/");
    trial_paths_free(s);
    remove_all();
}
