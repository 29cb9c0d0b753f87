/* limits: the message names the limit that was hit, its value and the way to raise it. */
#include "launcher/node/limits.h"

#include <sys/resource.h>

#include "tests/unit/kit_root.h"
#include "tests/unit/test.h"

static void set_limit(__rlimit_resource_t resource, rlim_t soft, rlim_t hard)
{
    CHECK_INT(setrlimit(resource, &(struct rlimit){soft, hard}), 0);
}

static struct err explained(int code, const char *root)
{
    struct err e = {0};
    err_set(&e, code, "fork: %s", strerror(-code));
    CHECK_INT(limits_explain(&e, root), code);
    return e;
}

TEST(the_lowest_limit_on_processes_is_named)
{
    char *root = new_root();
    put(root, "proc/sys/kernel/threads-max", "5000\n");
    put(root, "proc/sys/kernel/pid_max", "32768\n");
    struct err e = explained(-EAGAIN, root);
    CHECK_STR(e.text, "fork: Resource temporarily unavailable: the limit is 5000 threads of this "
                      "machine");
    CHECK_STR(e.hint, "sysctl kernel.threads-max=10000");
    put(root, "proc/self/cgroup", "0::/a/b\n");
    put(root, "sys/fs/cgroup/a/b/pids.max", "max\n");
    put(root, "sys/fs/cgroup/a/pids.max", "300\n");
    e = explained(-EAGAIN, root);
    CHECK_HAS(e.text, "the limit is 300 processes and threads of this cgroup (pids.max)");
    CHECK_HAS(e.hint, "--pids-limit");
    remove_root(root);
}

TEST(a_users_limit_counts_for_all_users_but_root)
{
    char *root = new_root();
    put(root, "proc/sys/kernel/threads-max", "5000\n");
    set_limit(RLIMIT_NPROC, 100, 200);
    struct err e = explained(-EAGAIN, root);
    if (geteuid() == 0) {
        CHECK_HAS(e.text, "5000");
        CHECK_INT(seteuid(12345), 0);
    }
    e = explained(-EAGAIN, "/none");
    CHECK_HAS(e.text, "the limit is 100 processes and threads of this user (ulimit -u)");
    CHECK_STR(e.hint, "ulimit -u 200");
    if (getuid() == 0)
        CHECK_INT(seteuid(0), 0);
    remove_root(root);
}

TEST(the_limit_on_open_files_is_named)
{
    set_limit(RLIMIT_NOFILE, 100, 500);
    struct err e = explained(-EMFILE, "/none");
    CHECK_HAS(e.text, "the limit is 100 open files per process (ulimit -n)");
    CHECK_STR(e.hint, "ulimit -n 500");
    set_limit(RLIMIT_NOFILE, 100, 100);
    e = explained(-EMFILE, "/none");
    CHECK_HAS(e.hint, "/etc/security/limits.conf");
    char *root = new_root();
    put(root, "proc/sys/fs/file-max", "7000\n");
    e = explained(-ENFILE, root);
    CHECK_HAS(e.text, "the limit is 7000 open files of this machine");
    remove_root(root);
}

TEST(other_errors_and_unknown_limits_stay_as_they_are)
{
    struct err e = explained(-EACCES, "");
    CHECK_STR(e.text, "fork: Permission denied");
    CHECK_STR(e.hint, "");
    e = explained(-ENFILE, "/none");
    CHECK_STR(e.text, "fork: Too many open files in system");
    CHECK_INT(limits_explain(NULL, ""), -EIO);
}

TEST(files_that_will_be_opened_must_fit)
{
    struct err e = {0};
    set_limit(RLIMIT_NOFILE, 200, 200);
    CHECK_INT(limits_require_files(100, "20 ranks", &e), 0);
    CHECK_INT(limits_require_files(200, "20 ranks", &e), -EMFILE);
    CHECK(strncmp(e.text, "20 ranks: ", 10) == 0);
    CHECK_HAS(e.text, "the limit is 200 open files");
}

TEST(threads_that_cannot_be_started_are_an_error)
{
    struct err e = {0};
    CHECK_INT(limits_require_threads(4, "the worker", &e), 0);
    if (geteuid() == 0 && setuid(0x40000000 + (uid_t)getpid()) < 0)
        SKIP("needs root, to become a user without other processes");
    struct rlimit before;
    CHECK_INT(getrlimit(RLIMIT_NPROC, &before), 0);
    set_limit(RLIMIT_NPROC, 1, before.rlim_max);
    int rc = limits_require_threads(4, "the worker", &e);
    set_limit(RLIMIT_NPROC, before.rlim_cur, before.rlim_max); /* LeakSanitizer starts a thread */
    CHECK_INT(rc, -EAGAIN);
    CHECK_HAS(e.text, "the worker: start a thread: ");
    CHECK_HAS(e.text, "the limit is 1 processes");
}
