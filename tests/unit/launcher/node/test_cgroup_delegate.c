/* cgroup_delegate: in a tree of files that replaces the kernel's. */
#include "launcher/node/cgroup.h"

#include "common/strbuf.h"
#include "tests/unit/kit_root.h"

static bool all_mine(pid_t pid)
{
    return true;
}

static bool only_this(pid_t pid)
{
    return pid == getpid();
}

static char *text_of(const char *dir, const char *name)
{
    AUTO(free) char *path = xasprintf("%s/%s", dir, name);
    AUTO(file) FILE *f = fopen(path, "r");
    char text[256] = "";
    if (!f)
        return xstrdup("(no file)");
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    return xstrdup(text);
}

#define CHECK_FILE(dir, name, expected)          \
    do {                                         \
        AUTO(free) char *t = text_of(dir, name); \
        CHECK_STR(t, expected);                  \
    } while (0)

/* A group /u that contains this process and has the given controllers. */
static char *tree(const char *controllers)
{
    char *root = new_root(), pid[32];
    snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    put(root, "proc/self/cgroup", "0::/u\n");
    put(root, "sys/fs/cgroup/u/cgroup.controllers", controllers);
    put(root, "sys/fs/cgroup/u/cgroup.procs", pid);
    return root;
}

static void refused(const char *root, bool (*mine)(pid_t pid), const char *why)
{
    struct err e = {0};
    char *home = NULL;
    CHECK_INT(cgroup_delegate_claim(&home, root, mine, &e), -ENOTSUP);
    CHECK(!home);
    CHECK_HAS(e.text, why);
    CHECK_HAS(e.hint, "Delegate=yes");
}

TEST(what_is_in_our_group_goes_below_and_its_controllers_are_handed_on)
{
    char *root = tree("cpuset cpu memory pids\n"), pid[32];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    put(root, "sys/fs/cgroup/u/other/keep", "");
    AUTO(free) char *left = xasprintf("%s/sys/fs/cgroup/u/drover-12-3", root);
    CHECK_INT(mkdir(left, 0700), 0);
    AUTO(free) char *home = NULL;
    CHECK_INT(cgroup_delegate_claim(&home, root, only_this, NULL), 0);
    CHECK_HAS(home, "/sys/fs/cgroup/u");
    CHECK_FILE(home, "drover-worker/cgroup.procs", pid);
    CHECK_FILE(home, "cgroup.subtree_control", "+cpu"); /* the last PID that was written */
    CHECK(access(left, F_OK) < 0);
    CHECK_FILE(home, "other/keep", "");
    remove_root(root);
}

TEST(without_the_controller_of_cpu_memory_alone_is_handed_on)
{
    char *root = tree("memory\n");
    AUTO(free) char *home = NULL;
    CHECK_INT(cgroup_delegate_claim(&home, root, all_mine, NULL), 0);
    CHECK_FILE(home, "cgroup.subtree_control", "+memory");
    remove_root(root);
}

TEST(a_group_that_others_are_in_too_is_not_touched)
{
    char *root = tree("memory\n");
    AUTO(free) char *two = xasprintf("%d\n1\n", (int)getpid());
    put(root, "sys/fs/cgroup/u/cgroup.procs", two);
    refused(root, only_this, "it contains process 1, too");
    AUTO(free) char *dir = xasprintf("%s/sys/fs/cgroup/u", root);
    CHECK_FILE(dir, "cgroup.subtree_control", "(no file)");
    CHECK_FILE(dir, "drover-worker/cgroup.procs", "(no file)");
    remove_root(root);
}

TEST(what_is_missing_is_told)
{
    char *root = new_root();
    refused(root, all_mine, "/proc/self/cgroup: no cgroup is listed");
    remove_root(root);
    root = tree("cpu pids\n");
    refused(root, all_mine, "without the memory controller");
    put(root, "proc/self/cgroup", "4:memory:/x\n0::/u\n");
    refused(root, all_mine, "/sys/fs/cgroup/memory/x: version 1");
    remove_root(root);
}

TEST(limits_are_written_and_an_empty_group_is_removed)
{
    char *root = new_root();
    const struct cgroup_delegate_limits some = {1 << 30, 3}, none = {0, 0};
    AUTO(free) char *dir = NULL;
    AUTO(free) char *bare = NULL;
    CHECK_INT(cgroup_delegate_make(&dir, root, "7-1", &some, NULL), 0);
    CHECK_FILE(root, "drover-7-1/memory.max", "1073741824");
    CHECK_FILE(dir, "memory.swap.max", "0");
    CHECK_FILE(dir, "memory.oom.group", "1");
    CHECK_FILE(dir, "cpu.max", "300000 100000");
    struct err e = {0};
    CHECK_INT(cgroup_delegate_make(&bare, root, "7-1", &none, &e), -EEXIST);
    CHECK_HAS(e.text, "drover-7-1");
    CHECK_INT(cgroup_delegate_make(&bare, root, "7-2", &none, NULL), 0);
    cgroup_delegate_remove(bare);
    CHECK(access(bare, F_OK) < 0);
    cgroup_delegate_remove(NULL);
    remove_root(root);
}
