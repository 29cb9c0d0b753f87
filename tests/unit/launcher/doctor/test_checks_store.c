/* A sweep's directory: its store, its lock and its coordinator. */
#include <fcntl.h>
#include <sys/utsname.h>

#include "tests/unit/launcher/doctor/kit_check.h"

/* Writes the header of an SQLite file with a WAL, and returns the path of DIR/sweep.db. */
static char *put_store(const char *dir)
{
    char head[100] = "SQLite format 3";
    head[18] = head[19] = 2;
    char *path = xasprintf("%s/sweep.db", dir);
    AUTO(file) FILE *f = fopen(path, "w");
    CHECK(f && fwrite(head, sizeof head, 1, f) == 1);
    return path;
}

static void put_owner(const char *dir, int pid)
{
    struct utsname u;
    CHECK_INT(uname(&u), 0);
    AUTO(free) char *text = xasprintf("%d %s \n", pid, u.nodename);
    put(dir, "lock", text);
}

static int dead_pid(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    return pid;
}

static void finds(const char *dir, enum check_state s, const char *value, const char *advice)
{
    CHECK_FINDS("store.ok", &(struct check_env){.sweep_dir = dir}, s, value, advice);
}

TEST(a_store_must_be_an_sqlite_file)
{
    char *root = new_root();
    CHECK_FINDS("store.ok", NULL, CHECK_SKIP, "no sweep was given", "");
    finds(root, CHECK_SKIP, "sweep.db does not exist", "");
    put(root, "sweep.db", "");
    finds(root, CHECK_OK, "sweep.db", ""); /* before the first commit */
    put(root, "sweep.db", "text");
    finds(root, CHECK_FAIL, "damaged", "");
    AUTO(free) char *db = put_store(root);
    finds(root, CHECK_OK, db, "");
    CHECK_INT(unlink(db), 0);
    CHECK_INT(mkdir(db, 0700), 0);
    finds(root, CHECK_FAIL, "Is a directory", "");
    remove_root(root);
}

TEST(a_coordinator_that_was_killed_leaves_its_socket)
{
    char *root = new_root();
    AUTO(free) char *db = put_store(root);
    AUTO(free) char *endpoint = xasprintf("ipc://%s/coord.sock\n", root);
    put(root, "endpoint", endpoint);
    put_owner(root, dead_pid());
    finds(root, CHECK_OK, db, ""); /* it has ended and removed its socket */
    put(root, "coord.sock", "");
    finds(root, CHECK_FAIL, "is dead, and the sweep has not ended", "drover sweep resume");
    put_owner(root, getpid());
    finds(root, CHECK_OK, db, "");
    remove_root(root);
}

TEST(a_lock_that_another_process_than_its_owner_holds_fails)
{
    char *root = new_root();
    AUTO(free) char *db = put_store(root);
    put_owner(root, dead_pid());
    AUTO(free) char *path = xasprintf("%s/lock", root);
    AUTO(fd) int fd = open(path, O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK_INT(fcntl(fd, F_OFD_SETLK, &lock), 0);
    finds(root, CHECK_FAIL, "another one still holds its lock", "fuser");
    remove_root(root);
}

TEST(a_wal_of_more_than_100_mb_names_its_reader)
{
    char *root = new_root();
    AUTO(free) char *db = put_store(root);
    AUTO(free) char *wal = xasprintf("%s-wal", db);
    AUTO(free) char *reader = xasprintf("(pid %d)", (int)getpid());
    AUTO(fd) int fd = open(wal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(ftruncate(fd, 100 << 20), 0);
    finds(root, CHECK_OK, db, "");
    CHECK_INT(ftruncate(fd, 101 << 20), 0);
    finds(root, CHECK_FAIL, "has 101 MiB", reader);
    remove_root(root);
}
