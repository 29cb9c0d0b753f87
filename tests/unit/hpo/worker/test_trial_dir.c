/* test_trial_dir - the directory of a trial, and what the next lease finds in it. */
#include "hpo/worker/trial_dir.h"

#include <stdarg.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static char dir[64];

static void in_new_dir(void)
{
    strcpy(dir, "/tmp/test_trial_dir.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
}

__attribute__((format(printf, 1, 2))) static void sh(const char *fmt, ...)
{
    char cmd[512];
    va_list ap;
    va_start(ap, fmt);
    int n = snprintf(cmd, sizeof cmd, "set -e; cd %s; ", dir);
    vsnprintf(cmd + n, sizeof cmd - (size_t)n, fmt, ap);
    va_end(ap);
    if (system(cmd) != 0)
        FAIL("%s", cmd);
}

/* Whether the trial had a lease before. */
static bool prepared(int64_t lease)
{
    AUTO(free) char *root = trial_dir_path(dir, 17);
    struct err e = {0};
    bool resumed = false;
    int64_t from = -1;
    struct trial_dir_opts ask = {root, lease, "{\"lr\": 0.5}\n", "wandb_version: 1\n"};
    if (trial_dir_make(&ask, &resumed, &from, &e) < 0 ||
        (from && trial_dir_copy(&ask, from, &e) < 0))
        FAIL("%s", e.text);
    return resumed;
}

TEST(the_first_lease_finds_its_parameters_and_no_checkpoint)
{
    in_new_dir();
    CHECK(!prepared(4));
    sh("test \"$(cat trials/000017/params.json)\" = '{\"lr\": 0.5}'");
    sh("grep -q wandb_version trials/000017/4/config.yaml");
    sh("test -d trials/000017/4/ckpt && test -z \"$(ls -A trials/000017/4/ckpt)\"");
    sh("test -z \"$(find . -name '*.tmp')\"");
    sh("rm -rf %s", dir);
}

TEST(the_next_lease_starts_from_a_copy_of_the_checkpoint)
{
    in_new_dir();
    prepared(4);
    sh("cd trials/000017/4/ckpt; echo 7 > step; mkdir -p a/b; head -c 3000000 /dev/urandom > a/b/w;"
       "ln -s a/b/w last; chmod 640 step; touch -d '2020-01-02' step; mkfifo pipe");
    CHECK(prepared(9));
    sh("cmp trials/000017/4/ckpt/a/b/w trials/000017/9/ckpt/a/b/w");
    sh("cd trials/000017/9/ckpt; test $(cat step) = 7; test $(readlink last) = a/b/w;"
       "test $(stat -c %%a step) = 640; test $(date -r step +%%Y) = 2020; test ! -e pipe");
    sh("echo 8 > trials/000017/9/ckpt/step; test $(cat trials/000017/4/ckpt/step) = 7");
    sh("rm -rf %s", dir);
}

TEST(an_incomplete_checkpoint_is_skipped)
{
    in_new_dir();
    prepared(4);
    sh("echo 7 > trials/000017/4/ckpt/step; mkdir -p trials/000017/6/ckpt.tmp; mkdir "
       "trials/000017/notes; mkdir -p trials/000017/30/ckpt");
    CHECK(prepared(9)); /* 6 was interrupted; 30 is later */
    sh("test $(cat trials/000017/9/ckpt/step) = 7");
    sh("rm -rf %s", dir);
}

TEST(an_error_names_the_directory_that_cannot_be_written)
{
    in_new_dir();
    sh("echo > trials");
    AUTO(free) char *root = trial_dir_path(dir, 3);
    struct err e = {0};
    bool resumed;
    int64_t from;
    struct trial_dir_opts ask = {root, 1, "{}", ""};
    CHECK_INT(trial_dir_make(&ask, &resumed, &from, &e), -ENOTDIR);
    CHECK_HAS(e.text, "trials/000003");
    sh("rm trials; mkdir -p trials/000003/1/ckpt");
    CHECK_INT(trial_dir_make(&(struct trial_dir_opts){root, 2, "{}", ""}, &resumed, &from, &e), 0);
    CHECK_INT(from, 1);
    sh("rmdir trials/000003/1/ckpt");
    CHECK_INT(trial_dir_copy(&(struct trial_dir_opts){root, 2, "{}", ""}, from, &e), -ENOENT);
    CHECK_HAS(e.text, "trials/000003/2': ckpt, from lease 1");
    sh("rm -rf %s", dir);
}
