/* sweep_dir: the directory of a sweep is created once, locked, and not changed by readers. */
#include "hpo/store/sweep_dir.h"

#include <sys/stat.h>

#include "common/file.h"
#include "common/json.h"
#include "tests/unit/kit_disk.h"
#include "tests/unit/test.h"

static char root[200];

static void in_new_dir(void)
{
    strcpy(root, "/tmp/test_sweepdir.XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    strcat(root, "/sweeps");
}

static void remove_dir(void)
{
    char cmd[256];
    snprintf(cmd, sizeof cmd, "rm -rf %.*s", (int)strlen("/tmp/test_sweepdir.XXXXXX"), root);
    CHECK_INT(system(cmd), 0);
}

static bool there(const char *file)
{
    AUTO(free) char *path = xasprintf("%s/%s", root, file);
    return access(path, F_OK) == 0;
}

static int try_open(struct sweep_dir **out, const char *file, bool must_exist, struct err *e)
{
    const struct sweep_dir_opts ask = {
        .root = root, .name = "s", .file = file, .file_seed = 7, .must_exist = must_exist};
    return sweep_dir_open(out, &ask, e);
}

static struct sweep_dir *opened(const char *file)
{
    struct sweep_dir *d = NULL;
    struct err e = {0};
    if (try_open(&d, file, false, &e) < 0)
        FAIL("%s", e.text);
    CHECK_INT(e.code, 0); /* a new store is not an error */
    return d;
}

TEST(names_are_made_of_plain_characters)
{
    const struct {
        const char *text, *name;
    } cases[] = {{"digits", "digits"},
                 {"My sweep (2)!", "My-sweep-2"},
                 {"../../etc", "etc"},
                 {"-x.", "x."},
                 {"", "sweep"},
                 {"///", "sweep"},
                 {"a  b\tc/d", "a-b-c-d"},
                 {"v1.2_b", "v1.2_b"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *name = sweep_dir_slug(cases[i].text);
        CHECK_STR(name, cases[i].name);
        CHECK(sweep_dir_name_ok(name));
    }
    CHECK(!sweep_dir_name_ok("") && !sweep_dir_name_ok("..") && !sweep_dir_name_ok("a/b"));
    CHECK(!sweep_dir_name_ok("-rf") && !sweep_dir_name_ok("a b"));
}

TEST(a_sweep_is_made_once_and_found_again)
{
    in_new_dir();
    struct sweep_dir *d = opened("method: grid\n");
    CHECK(d->fresh);
    CHECK_INT(d->seed, 7);
    CHECK(there("s/sweep.yaml") && there("s/sweep.db") && there("s/lock"));
    sweep_dir_close(d);
    d = opened("method: grid\n");
    CHECK(!d->fresh);
    CHECK_INT(d->seed, 7);
    sweep_dir_close(d);
    d = opened(NULL);
    CHECK_STR(d->file, "method: grid\n");
    sweep_dir_close(d);
    remove_dir();
}

TEST(another_file_or_seed_is_refused_with_the_ways_out)
{
    in_new_dir();
    sweep_dir_close(opened("method: grid\n"));
    struct sweep_dir *d = NULL;
    struct err e = {0};
    CHECK_INT(try_open(&d, "method: random\n", false, &e), -EEXIST);
    CHECK_HAS(e.text, "another file");
    CHECK_HAS(e.hint, "--name");
    CHECK_HAS(e.hint, "drover sweep resume s --dir ");
    uint64_t seed = 8;
    const struct sweep_dir_opts ask = {.root = root, .name = "s", .seed = &seed};
    CHECK_INT(sweep_dir_open(&d, &ask, &e), -EEXIST);
    CHECK_HAS(e.text, "another seed");
    CHECK(d == NULL);
    CHECK(there("s/sweep.db"));
    remove_dir();
}

TEST(a_name_is_free_if_no_sweep_with_another_file_has_it)
{
    in_new_dir();
    const struct {
        const char *file, *name;
    } steps[] = {{"a\n", "s"}, {"a\n", "s"}, {"b\n", "s-2"}, {"c\n", "s-3"}, {"b\n", "s-2"}};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        struct sweep_dir_opts ask = {.root = root, .name = "s", .file = steps[i].file};
        AUTO(free) char *name = sweep_dir_unused_name(&ask);
        CHECK_STR(name, steps[i].name);
        ask.name = name;
        AUTO(sweep_dir) struct sweep_dir *d = NULL;
        CHECK_INT(sweep_dir_open(&d, &ask, NULL), 0);
    }
    char longest[SWEEP_DIR_NAME_MAX + 1];
    memset(longest, 'a', SWEEP_DIR_NAME_MAX);
    longest[SWEEP_DIR_NAME_MAX] = 0;
    const struct sweep_dir_opts ask = {.root = root, .name = longest, .file = "a\n"};
    struct sweep_dir *d = NULL;
    CHECK_INT(sweep_dir_open(&d, &ask, NULL), 0);
    sweep_dir_close(d); /* before its directory goes: then it would be another one's */
    AUTO(free)
    char *next = sweep_dir_unused_name(
        &(struct sweep_dir_opts){.root = root, .name = longest, .file = "b\n"});
    CHECK(sweep_dir_name_ok(next));
    CHECK_HAS(next, "a-2");
    remove_dir();
}

TEST(a_prior_is_kept_from_the_start_and_no_other_is_taken_later)
{
    in_new_dir();
    AUTO(json) json_t *prior = json_loads("{\"from\":[\"/a\"],\"observations\":[1.25]}", 0, NULL);
    AUTO(json) json_t *later = json_loads("{\"from\":[\"/a\"],\"observations\":[]}", 0, NULL);
    AUTO(json) json_t *other = json_loads("{\"from\":[\"/b\"],\"observations\":[]}", 0, NULL);
    const struct {
        const char *name;
        const json_t *prior;
        int rc;
    } steps[] = {{"s", prior, 0}, {"s", NULL, 0},        {"s", later, 0},
                 {"t", NULL, 0},  {"s", other, -EEXIST}, {"t", prior, -EEXIST}};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        const struct sweep_dir_opts ask = {
            .root = root, .name = steps[i].name, .file = "f\n", .prior = steps[i].prior};
        AUTO(sweep_dir) struct sweep_dir *d = NULL;
        struct err e = {0};
        CHECK_INT(sweep_dir_open(&d, &ask, &e), steps[i].rc);
        if (d)
            CHECK(steps[i].name[0] == 's' ? json_equal(d->prior, prior) : !d->prior);
        else
            CHECK_HAS(e.text, i == 4 ? "with another prior" : "with no prior");
    }
    AUTO(sweep_dir) struct sweep_dir *d = NULL;
    CHECK_INT(sweep_dir_read(&d, root, "s", NULL), 0);
    CHECK(json_equal(d->prior, prior));
    remove_dir();
}

TEST(resuming_what_is_not_there_makes_nothing)
{
    in_new_dir();
    struct sweep_dir *d = NULL;
    struct err e = {0};
    CHECK_INT(try_open(&d, "method: grid\n", true, &e), -ENOENT);
    CHECK(!there("."));
    sweep_dir_close(opened("method: grid\n"));
    CHECK_INT(sweep_dir_read(&d, root, "t", &e), -ENOENT);
    CHECK_HAS(e.text, "'t'");
    remove_dir();
}

TEST(two_coordinators_do_not_share_a_sweep)
{
    in_new_dir();
    struct sweep_dir *d = opened("method: grid\n"), *second = NULL;
    struct err e = {0};
    CHECK(sweep_dir_owner(d).held);
    CHECK_INT(try_open(&second, "method: grid\n", false, &e), -EBUSY);
    CHECK_HAS(e.text, "sweep 's'");
    char pid[32];
    snprintf(pid, sizeof pid, "process %d", (int)getpid());
    CHECK_HAS(e.text, pid);
    CHECK_INT(sweep_dir_read(&second, root, "s", &e), 0); /* reading is possible */
    CHECK(sweep_dir_owner(second).held);
    sweep_dir_close(d);
    CHECK(!sweep_dir_owner(second).held);
    sweep_dir_close(second);
    remove_dir();
}

TEST(what_a_failed_start_has_made_is_removed)
{
    in_new_dir();
    CHECK_INT(mkdir(root, 0777), 0);
    AUTO(free) char *path = xasprintf("%s/file", root);
    FILE *f = fopen(path, "w");
    fclose(f);
    struct sweep_dir *d = NULL;
    struct err e = {0};
    const struct sweep_dir_opts ask = {.root = path, .name = "s", .file = "x"};
    CHECK_INT(sweep_dir_open(&d, &ask, &e), -ENOTDIR);
    CHECK_HAS(e.text, "file/s");
    remove_dir();
}

TEST(sweeps_are_listed_by_name)
{
    in_new_dir();
    char **names = NULL;
    struct err e = {0};
    CHECK_INT(sweep_dir_list(&names, root, &e), 0);
    CHECK(names == NULL);
    const char *const some[] = {"b", "a", "c"};
    for (size_t i = 0; i < COUNT_OF(some); i++) {
        struct sweep_dir *d = NULL;
        const struct sweep_dir_opts ask = {.root = root, .name = some[i], .file = "x"};
        CHECK_INT(sweep_dir_open(&d, &ask, &e), 0);
        sweep_dir_close(d);
    }
    CHECK_INT(sweep_dir_list(&names, root, &e), 0);
    CHECK_INT(strv_len(names), 3);
    CHECK_STR(names[0], "a");
    CHECK_STR(names[2], "c");
    strv_free(names);
    remove_dir();
}

TEST(a_full_disk_leaves_the_old_endpoint)
{
    in_new_dir();
    struct sweep_dir *d = opened("method: grid\n");
    AUTO(free) char *endpoint = NULL, *none = NULL, *path = xasprintf("%s/s/endpoint", root);
    CHECK_INT(sweep_dir_endpoint(&endpoint, d, NULL), 0);
    struct err e = {0};
    disk_set_full(true);
    CHECK_INT(sweep_dir_endpoint(&none, d, &e), -EFBIG);
    disk_set_full(false);
    CHECK_HAS(e.text, "/endpoint: ");
    AUTO(free) char *line = file_line(path);
    CHECK_STR(line, endpoint);
    sweep_dir_close(d);
    remove_dir();
}

TEST(the_endpoint_fits_a_socket_however_long_the_path_is)
{
    in_new_dir();
    struct err e = {0};
    struct sweep_dir *d = opened("x");
    char *endpoint = NULL, *again = NULL;
    CHECK_INT(sweep_dir_endpoint(&endpoint, d, &e), 0);
    CHECK_HAS(endpoint, "/s/coord.sock");
    free(endpoint);
    sweep_dir_close(d);

    CHECK_INT(mkdir(root, 0777) < 0 && errno == EEXIST, 1);
    strcat(root, "/a-directory-with-a-rather-long-name-of-about-sixty-characters");
    CHECK_INT(mkdir(root, 0777), 0);
    char run[] = "/tmp/test_run.XXXXXX";
    CHECK(mkdtemp(run) != NULL);
    setenv("XDG_RUNTIME_DIR", run, 1);
    strcat(root, "/and-another-one-below-it-with-a-long-name");
    d = opened("x");
    CHECK_INT(sweep_dir_endpoint(&endpoint, d, &e), 0);
    CHECK_HAS(endpoint, run);
    CHECK(strlen(endpoint) < 107);
    CHECK_INT(sweep_dir_endpoint(&again, d, &e), 0);
    CHECK_STR(again, endpoint);
    free(endpoint);
    free(again);
    char drover[64];
    snprintf(drover, sizeof drover, "%s/drover", run);
    CHECK_INT(chmod(drover, 0755), 0);
    CHECK_INT(sweep_dir_endpoint(&endpoint, d, &e), 0); /* others have access to that one */
    CHECK_HAS(endpoint, "ipc:///tmp/drover-");
    free(endpoint);
    CHECK_INT(rmdir(drover) + rmdir(run), 0);
    sweep_dir_close(d);
    remove_dir();
}

/* ---- identity ------------------------------------------------------------------------------- */

TEST(a_sweep_keeps_its_instance_and_another_one_of_its_name_has_another)
{
    in_new_dir();
    struct sweep_dir *d = opened("a");
    int64_t first = d->instance;
    CHECK(first > 0);
    sweep_dir_close(d);
    d = opened("a");
    CHECK(d->instance == first);
    sweep_dir_close(d);
    struct err e = {0};
    CHECK_INT(sweep_dir_read(&d, root, "s", &e), 0);
    CHECK(d->instance == first);
    sweep_dir_close(d);
    AUTO(free) char *command = xasprintf("rm -r %s", root);
    CHECK_INT(system(command), 0);
    d = opened("a");
    CHECK(d->instance > 0 && d->instance != first);
    sweep_dir_close(d);
    remove_dir();
}

TEST(a_store_of_an_older_drover_gets_an_instance_when_it_is_opened_for_writing)
{
    in_new_dir();
    struct err e = {0};
    struct sweep_dir *d = opened("a");
    CHECK_INT(event_store_put(d->store, EVENT_STORE_META_INSTANCE, "0", &e), 0);
    CHECK_INT(event_store_commit(d->store, &e), 0);
    sweep_dir_close(d);
    CHECK_INT(sweep_dir_read(&d, root, "s", &e), 0);
    CHECK_INT(d->instance, 0);
    sweep_dir_close(d);
    d = opened("a");
    int64_t given = d->instance;
    CHECK(given > 0);
    sweep_dir_close(d);
    d = opened("a");
    CHECK(d->instance == given);
    sweep_dir_close(d);
    remove_dir();
}

TEST(a_command_for_another_instance_is_refused)
{
    const struct sweep_dir d = {.instance = 71};
    struct err e = {0};
    AUTO(json) json_t *own = json_pack("{s:s,s:i}", "verb", "stop", "instance", 71);
    AUTO(json) json_t *old = json_pack("{s:s}", "verb", "stop");
    AUTO(json) json_t *other = json_pack("{s:s,s:i}", "verb", "stop", "instance", 72);
    AUTO(json) json_t *wrong = json_pack("{s:s,s:s}", "verb", "stop", "instance", "71");
    CHECK_INT(sweep_dir_check_command(&d, own, &e), 0);
    CHECK_INT(sweep_dir_check_command(&d, old, &e), 0); /* its sender does not know instances */
    CHECK_INT(sweep_dir_check_command(&d, other, &e), -ESTALE);
    CHECK_HAS(e.text, "for another sweep");
    CHECK_INT(sweep_dir_check_command(&d, wrong, &e), -ESTALE);
}

TEST(a_sweep_does_not_start_next_to_trials_without_a_store)
{
    in_new_dir();
    struct err e = {0};
    struct sweep_dir *d = opened("a");
    sweep_dir_close(d);
    AUTO(free) char *trials = xasprintf("%s/s/trials", root);
    AUTO(free) char *command = xasprintf("rm %s/s/sweep.*", root);
    CHECK_INT(mkdir(trials, 0755), 0);
    CHECK_INT(system(command), 0);
    CHECK_INT(try_open(&d, "a", false, &e), -EEXIST);
    CHECK_HAS(e.text, "has trials of a sweep whose store is gone");
    CHECK_HAS(e.hint, trials);
    CHECK(!there("s/sweep.db"));
    CHECK_INT(rmdir(trials), 0);
    sweep_dir_close(opened("a"));
    remove_dir();
}
