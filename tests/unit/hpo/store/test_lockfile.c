/* lockfile: the owner of the lock, which is released when its process dies. */
#include "hpo/store/lockfile.h"

#include "common/mem.h"
#include "tests/unit/kit_disk.h"
#include "tests/unit/test.h"

static char dir[64];

static void in_new_dir(void)
{
    strcpy(dir, "/tmp/test_lockfile.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
}

static void remove_dir(void)
{
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    CHECK_INT(system(cmd), 0);
}

TEST(a_lock_names_its_owner_and_ends_with_him)
{
    in_new_dir();
    char lock[96];
    snprintf(lock, sizeof lock, "%s/lock", dir);
    struct err e = {0};
    struct lockfile_owner o = {.held = true};
    CHECK_INT(lockfile_read_owner(&o, lock, &e), 0);
    CHECK(!o.held);
    int ready[2];
    CHECK_INT(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd;
        char c = lockfile_acquire(&fd, lock, "note", NULL) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &c, 1);
        pause();
    }
    char c;
    CHECK_INT(read(ready[0], &c, 1), 1);
    CHECK_INT(c, 'y');
    CHECK_INT(lockfile_read_owner(&o, lock, &e), 0);
    CHECK(o.held);
    CHECK_INT(o.pid, pid);
    CHECK_STR(o.note, "note");
    int fd = -1;
    CHECK_INT(lockfile_acquire(&fd, lock, NULL, &e), -EBUSY);
    char text[32];
    snprintf(text, sizeof text, "process %d", (int)pid);
    CHECK_HAS(e.text, text);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK_INT(lockfile_read_owner(&o, lock, &e), 0);
    CHECK(!o.held);
    CHECK_STR(o.note, "note"); /* the last owner */
    CHECK_INT(lockfile_acquire(&fd, lock, NULL, &e), 0);
    close(fd);
    remove_dir();
}

TEST(a_full_disk_leaves_the_last_owners_line)
{
    in_new_dir();
    char lock[96];
    snprintf(lock, sizeof lock, "%s/lock", dir);
    int fd = -1;
    struct err e = {0};
    CHECK_INT(lockfile_acquire(&fd, lock, "note", &e), 0);
    close(fd);
    disk_set_full(true);
    CHECK_INT(lockfile_acquire(&fd, lock, "other", &e), -EFBIG);
    disk_set_full(false);
    struct lockfile_owner o = {0};
    CHECK_INT(lockfile_read_owner(&o, lock, &e), 0);
    CHECK_STR(o.note, "note");
    remove_dir();
}

TEST(what_cannot_be_opened_is_an_error_and_what_is_not_there_is_free)
{
    struct err e = {0};
    struct lockfile_owner o = {.held = true};
    int fd = -1;
    CHECK_INT(lockfile_acquire(&fd, "/nowhere/lock", NULL, &e), -ENOENT);
    CHECK_HAS(e.text, "/nowhere/lock");
    CHECK_INT(fd, -1);
    CHECK_INT(lockfile_read_owner(&o, "/nowhere/lock", &e), 0);
    CHECK(!o.held && o.pid == 0);
}

TEST(a_lock_whose_file_was_removed_or_replaced_is_gone)
{
    struct err e = {0};
    AUTO(free) char *path = xasprintf("/tmp/drover-lock-%d", (int)getpid());
    AUTO(fd) int fd = -1;
    CHECK_INT(lockfile_acquire(&fd, path, "one", &e), 0);
    CHECK(!lockfile_is_gone(fd, path));
    CHECK_INT(unlink(path), 0);
    CHECK(lockfile_is_gone(fd, path));
    AUTO(fd) int other = -1;
    CHECK_INT(lockfile_acquire(&other, path, "two", &e), 0);
    CHECK(lockfile_is_gone(fd, path));
    CHECK(!lockfile_is_gone(other, path));
    CHECK_INT(unlink(path), 0);
}
