/* sweep_archive: a sweep is renamed or removed, unless a process works on it. */
#include "hpo/store/sweep_archive.h"

#include "hpo/store/sweep_dir.h"
#include "tests/unit/test.h"

static char root[64];

static void in_new_dir(void)
{
    strcpy(root, "/tmp/test_archive.XXXXXX");
    CHECK(mkdtemp(root) != NULL);
}

static void remove_dir(void)
{
    AUTO(free) char *cmd = xasprintf("rm -rf %s", root);
    CHECK_INT(system(cmd), 0);
}

static bool there(const char *file)
{
    AUTO(free) char *path = xasprintf("%s/%s", root, file);
    return access(path, F_OK) == 0;
}

static struct sweep_dir *opened(const char *name)
{
    const struct sweep_dir_opts opts = {.root = root, .name = name, .file = "method: grid\n"};
    struct sweep_dir *d = NULL;
    CHECK_INT(sweep_dir_open(&d, &opts, NULL), 0);
    return d;
}

static void make_trial(const char *name)
{
    AUTO(free)
    char *cmd = xasprintf("mkdir -p %s/%s/trials/000000/1/ckpt && ln -s /etc %s/%s/trials/etc",
                          root, name, root, name);
    CHECK_INT(system(cmd), 0);
}

static int archive(const char *name, char **to)
{
    AUTO(sweep_archive) struct sweep_archive *a = NULL;
    struct err e = {0};
    int rc = sweep_archive_lock(&a, root, name, &e);
    return rc < 0 ? rc : sweep_archive_rename(to, a, &e);
}

TEST(archived_sweeps_are_numbered_and_keep_their_files)
{
    in_new_dir();
    for (int i = 1; i <= 2; i++) {
        AUTO(free) char *to = NULL, *name = xasprintf("s.%d", i);
        AUTO(free) char *trials = xasprintf("s.%d/trials/000000/1/ckpt", i);
        sweep_dir_close(opened("s"));
        make_trial("s");
        CHECK_INT(archive("s", &to), 0);
        CHECK_STR(to, name);
        CHECK(!there("s"));
        CHECK(there(trials));
        AUTO(sweep_dir) struct sweep_dir *d = NULL;
        CHECK_INT(sweep_dir_read(&d, root, name, NULL), 0);
    }
    char *to = NULL;
    CHECK_INT(archive("s", &to), -ENOENT);
    remove_dir();
}

TEST(a_name_that_would_be_too_long_is_refused)
{
    char name[SWEEP_DIR_NAME_MAX + 1];
    in_new_dir();
    memset(name, 'a', SWEEP_DIR_NAME_MAX);
    name[SWEEP_DIR_NAME_MAX] = 0;
    sweep_dir_close(opened(name));
    char *to = NULL;
    CHECK_INT(archive(name, &to), -ENAMETOOLONG);
    CHECK(there(name));
    remove_dir();
}

TEST(a_sweep_on_which_a_process_works_stays)
{
    in_new_dir();
    struct sweep_dir *d = opened("s");
    AUTO(sweep_archive) struct sweep_archive *a = NULL;
    struct err e = {0};
    CHECK_INT(sweep_archive_lock(&a, root, "s", &e), -EBUSY);
    CHECK_HAS(e.text, "is being worked on");
    AUTO(free) char *worker = sweep_dir_host_file(d, "lock");
    sweep_dir_close(d);
    int lock = -1;
    CHECK_INT(lockfile_acquire(&lock, worker, NULL, NULL), 0);
    CHECK_INT(sweep_archive_lock(&a, root, "s", &e), -EBUSY);
    CHECK_HAS(e.text, "its worker");
    close(lock);
    CHECK_INT(sweep_archive_lock(&a, root, "s", &e), 0);
    remove_dir();
}

TEST(a_sweep_is_removed_with_all_files_and_nothing_else)
{
    in_new_dir();
    sweep_dir_close(opened("s"));
    sweep_dir_close(opened("t"));
    make_trial("s");
    AUTO(sweep_archive) struct sweep_archive *a = NULL;
    struct err e = {0};
    CHECK_INT(sweep_archive_lock(&a, root, "s", &e), 0);
    CHECK_INT(sweep_archive_remove(a, &e), 0);
    CHECK(!there("s"));
    CHECK(there("t/sweep.db"));
    CHECK(access("/etc/passwd", F_OK) == 0); /* a link is removed, not its target */
    AUTO(sweep_archive) struct sweep_archive *b = NULL;
    CHECK_INT(sweep_archive_lock(&b, root, "../x", &e), -ENOENT);
    remove_dir();
}
