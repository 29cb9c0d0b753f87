/* Leftover segments and mounts from a recorded root; directories of this machine. */
#include "common/durable.h"
#include "launcher/doctor/checks/file_system.h"
#include "tests/unit/launcher/doctor/kit_check.h"

static void put_link(const char *root, const char *path, const char *to)
{
    AUTO(free) char *file = xasprintf("%s/%s", root, path);
    AUTO(free) char *neighbour = xasprintf("%s.dir", path);
    put(root, neighbour, "");
    CHECK(unlink(file) == 0 || errno == ENOENT);
    CHECK_INT(symlink(to, file), 0);
}

TEST(a_segment_is_a_leftover_if_no_process_maps_it)
{
    char *root = kit_check_root();
    CHECK_FINDS("host.shm_left", NULL, CHECK_OK, "none", "");
    put(root, "dev/shm/nccl-abc", "x");
    put(root, "dev/shm/torch_7_1", "x");
    put(root, "dev/shm/mine", "x");
    put(root, "proc/7/maps",
        "7f00-7f10 rw-s 00000000 00:18 5     /dev/shm/nccl-abc\n"
        "7f20-7f30 r--p 00000000 00:18 6     /lib/libc.so.6\n");
    CHECK_FINDS("host.shm_left", NULL, CHECK_WARN, "1 file that no process maps",
                "rm /dev/shm/torch_7_1");
    CHECK(!strstr(kit_result.advice, "nccl-abc") && !strstr(kit_result.advice, "mine"));
    put(root, "proc/7/maps",
        "7f00-7f10 rw-s 0 00:18 5 /dev/shm/nccl-abc (deleted)\n"
        "7f00-7f10 rw-s 0 00:18 6 /dev/shm/torch_7_1\n");
    CHECK_FINDS("host.shm_left", NULL, CHECK_WARN, "1 file", "rm /dev/shm/nccl-abc");
    remove_root(root);
}

TEST(a_container_with_the_hosts_dev_shm_does_not_see_who_maps_it)
{
    char *root = kit_check_root();
    put(root, "dev/shm/nccl-abc", "x");
    put_link(root, "proc/self/ns/pid", "pid:[4026532000]");
    put_link(root, "proc/self/ns/ipc", "ipc:[4026531839]");
    CHECK_FINDS("host.shm_left", NULL, CHECK_SKIP, "cannot see", "");
    put_link(root, "proc/self/ns/ipc", "ipc:[4026532001]");
    CHECK_FINDS("host.shm_left", NULL, CHECK_WARN, "1 file", "");
    remove_root(root);
}

TEST(a_segment_of_a_user_whose_processes_are_hidden_is_not_judged)
{
    char *root = kit_check_root();
    if (geteuid() != 0)
        SKIP("root may read all files");
    CHECK_INT(chmod(root, 0755), 0);
    put(root, "dev/shm/nccl-abc", "x");
    put(root, "proc/7/maps", "");
    AUTO(free)
    char *open_dirs = xasprintf("chmod -R a+rX '%s'; chmod 0 '%s/proc/7/maps'", root, root);
    CHECK_INT(system(open_dirs), 0);
    CHECK_INT(setresuid(65534, 65534, 0), 0);
    CHECK_FINDS("host.shm_left", NULL, CHECK_SKIP, "1 file of other users", "");
    CHECK_INT(setresuid(0, 0, 0), 0);
    CHECK_FINDS("host.shm_left", NULL, CHECK_WARN, "1 file", "rm /dev/shm/nccl-abc");
    remove_root(root);
}

TEST(a_dead_mount_is_named_with_its_server)
{
    char *root = kit_check_root();
    CHECK_FINDS("host.nfs_hang", NULL, CHECK_OK, "0", "");
    put(root, "proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\nnas:/export /data nfs4 rw 0 0\n");
    CHECK_FINDS("host.nfs_hang", NULL, CHECK_OK, "1", "");
    put(root, "data/file", "");
    CHECK_FINDS("host.nfs_hang", NULL, CHECK_OK, "1", "");
    remove_root(root);
}

TEST(mounts_that_may_hang_are_those_with_a_server_or_a_daemon)
{
    static const char *const may[] = {"nfs", "nfs4", "cifs", "fuse.sshfs", "fuse", "lustre"};
    static const char *const not [] = {"ext4", "tmpfs", "overlay", "fuseblk", "fusectl", "autofs"};
    for (size_t i = 0; i < COUNT_OF(may); i++)
        CHECK(file_system_may_hang(may[i]));
    for (size_t i = 0; i < COUNT_OF(not ); i++)
        CHECK(!file_system_may_hang(not [i]));
    CHECK(!durable_network("/proc"));
    CHECK(!durable_network("/no such directory"));
}

TEST(a_directory_that_does_not_exist_yet_counts_as_the_one_above)
{
    char *root = kit_check_root();
    AUTO(free) char *later = xasprintf("%s/a", root), *lost = xasprintf("%s/a/b/c", root);
    const char *dirs[] = {later, NULL};
    CHECK_FINDS("host.fs", &(struct check_env){.dirs = dirs}, CHECK_OK, "2 directories", "");
    dirs[0] = lost;
    CHECK_FINDS("host.fs", &(struct check_env){.dirs = dirs}, CHECK_WARN, "/a/b does not exist",
                "mount it");
    kit_check("host.disk", &(struct check_env){.dirs = dirs});
    CHECK_HAS(kit_result.value, " free (");
    remove_root(root);
}

TEST(space_is_short_below_10_percent_and_fails_below_1_percent_or_500_mb)
{
    static const struct {
        unsigned long mib;
        double percent, inodes;
        enum check_state state;
        const char *value;
    } rows[] = {
        {100000, 10, 100, CHECK_OK, "free (10.0%)"},
        {100000, 9.9, 100, CHECK_WARN, "9.7 GiB free (9.9%)"},
        {100000, 0.9, 100, CHECK_FAIL, "900 MiB free (0.9%)"},
        {1000, 47, 100, CHECK_FAIL, "470 MiB free (47.0%)"},
        {1000, 90, 9, CHECK_WARN, "inodes free (9.0%)"},
        {1000, 90, 0.5, CHECK_FAIL, "inodes free (0.5%)"},
        {0, 0, 100, CHECK_OK, "free (100.0%)"}, /* such as a file system of the kernel */
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        kit_set_files(rows[i].mib, rows[i].percent, rows[i].inodes);
        CHECK_FINDS("host.disk", NULL, rows[i].state, rows[i].value,
                    rows[i].state == CHECK_OK ? "" : "another directory");
    }
}

TEST(the_size_of_the_largest_file_is_part_of_the_advice)
{
    char *root = kit_check_root();
    put(root, "checkpoint", "0123456789");
    kit_set_files(100000, 5, 100);
    CHECK_INT(setenv("TMPDIR", root, 1), 0);
    CHECK_FINDS("host.disk", NULL, CHECK_WARN, root, "its largest file has 10 B");
    remove_root(root);
}

TEST(a_read_only_file_system_fails_and_noexec_fails_only_under_the_program)
{
    char *command[] = {"/bin/sh", NULL};
    kit_set_files(1000, 90, 100);
    kit_machine.files.f_flag = ST_NOEXEC;
    CHECK_FINDS("host.fs", NULL, CHECK_OK, "1 directory is writable", "");
    CHECK_FINDS("host.fs", &(struct check_env){.command = command}, CHECK_FAIL, "/bin/sh",
                "remount,exec");
    kit_machine.files.f_flag = ST_RDONLY;
    CHECK_FINDS("host.fs", NULL, CHECK_FAIL, "read-only file system", "");
}

TEST(a_directory_without_permission_to_write_fails)
{
    char *root = kit_check_root();
    const char *dirs[] = {"/proc", NULL};
    if (geteuid() == 0)
        CHECK_INT(setresuid(65534, 65534, 0), 0);
    CHECK_FINDS("host.fs", &(struct check_env){.dirs = dirs}, CHECK_FAIL, "/proc: ", "");
    if (getuid() == 65534)
        CHECK_INT(setresuid(0, 0, 0), 0);
    remove_root(root);
}
