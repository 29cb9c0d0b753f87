#include "launcher/gpu/gpu_lock.h"

#include <pwd.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/unit/test.h"

/* A UUID that no other test of this machine uses. */
static const char *own_uuid(int number)
{
    static char uuid[2][64];
    snprintf(uuid[number], sizeof uuid[number], "GPU-test-%d-%d", (int)getpid(), number);
    return uuid[number];
}

TEST(a_lock_is_held_by_one_placement_until_its_descriptors_are_closed)
{
    struct gpu_locks a = {0}, b = {0};
    struct err e = {0};
    CHECK(!gpu_lock_is_held(own_uuid(0)));
    CHECK_INT(gpu_locks_add(&a, own_uuid(0), &e), 0);
    CHECK_INT(gpu_locks_add(&a, own_uuid(1), &e), 0);
    CHECK(gpu_lock_is_held(own_uuid(0)));
    CHECK_INT(gpu_lock_owner(own_uuid(0)), getpid());
    CHECK_INT(gpu_locks_add(&b, own_uuid(0), &e), -EBUSY);
    CHECK_HAS(e.text, own_uuid(0));
    gpu_locks_free(&a);
    CHECK(!gpu_lock_is_held(own_uuid(0)) && !gpu_lock_is_held(own_uuid(1)));
    CHECK_INT(gpu_lock_owner(own_uuid(0)), 0);
    CHECK_INT(gpu_locks_add(&b, own_uuid(0), &e), 0);
    gpu_locks_free(&b);
}

TEST(a_lock_vanishes_when_its_process_is_killed)
{
    int ready[2];
    CHECK_INT(pipe(ready), 0);
    const char *uuid = own_uuid(0);
    pid_t pid = fork();
    if (pid == 0) {
        struct gpu_locks l = {0};
        (void)!write(ready[1], gpu_locks_add(&l, uuid, NULL) == 0 ? "y" : "n", 1);
        pause();
    }
    char c = 0;
    CHECK_INT(read(ready[0], &c, 1), 1);
    CHECK_INT(c, 'y');
    CHECK(gpu_lock_is_held(uuid));
    CHECK_INT(gpu_lock_owner(uuid), pid);
    kill(pid, SIGKILL);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK(!gpu_lock_is_held(uuid));
}

TEST(users_of_a_machine_share_the_locks)
{
    enum { NOBODY = 65534 };
    struct gpu_locks l = {0};
    const char *uuid = own_uuid(0);
    if (geteuid() != 0)
        SKIP("only root can become another user");
    CHECK_INT(gpu_locks_add(&l, uuid, NULL), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct gpu_locks other = {0};
        bool same = setuid(NOBODY) == 0 && gpu_lock_is_held(uuid) &&
                    gpu_lock_owner(uuid) == getppid() &&
                    gpu_locks_add(&other, uuid, NULL) == -EBUSY;
        _exit(same ? 0 : 1);
    }
    int status = -1;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    gpu_locks_free(&l);
}

/* Binds an abstract name in a process of another user, which ends when the descriptor is closed. */
static int squat(const char *name)
{
    enum { NOBODY = 65534 };
    int ready[2], stop[2];
    char c = 0;
    CHECK_INT(pipe(ready), 0);
    CHECK_INT(pipe(stop), 0);
    if (fork() == 0) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        memcpy(a.sun_path + 1, name, strlen(name));
        socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
        int fd = setuid(NOBODY) == 0 ? socket(AF_UNIX, SOCK_DGRAM, 0) : -1;
        close(stop[1]);
        (void)!write(ready[1], bind(fd, (struct sockaddr *)&a, len) == 0 ? "y" : "n", 1);
        (void)!read(stop[0], &c, 1);
        _exit(0);
    }
    CHECK_INT(read(ready[0], &c, 1), 1);
    CHECK_INT(c, 'y');
    return stop[1];
}

TEST(names_of_another_user_are_no_locks_if_they_name_a_process_of_somebody_else)
{
    const char *uuid = own_uuid(0);
    int own = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct stat st;
    if (geteuid() != 0)
        SKIP("only root can become another user");
    CHECK_INT(fstat(own, &st), 0);
    /* A name of earlier versions; one with this process, which is root's; one that looks like a
     * line of a socket of this process. */
    AUTO(free) char *former = xasprintf("drover-gpu/%s", uuid);
    AUTO(free) char *lie = xasprintf("drover-gpu/%d.01234567/%s", (int)getpid(), uuid);
    AUTO(free) char *line = xasprintf("x\n0: 2 0 0 2 1 %lu @%s", (unsigned long)st.st_ino, lie);
    const char *const names[] = {former, lie, line};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct gpu_locks l = {0};
        int stop = squat(names[i]);
        CHECK(!gpu_lock_is_held(uuid));
        CHECK_INT(gpu_locks_add(&l, uuid, NULL), 0);
        gpu_locks_free(&l);
        close(stop);
        CHECK(wait(NULL) > 0);
    }
}

TEST(locks_count_of_users_who_may_write_to_a_device)
{
    enum { USER = 54321, GROUP = 54322 };
    char dir[] = "/tmp/drover-test-XXXXXX", devices[64], device[64];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(devices, sizeof devices, "%s/nvidia[0-9]*", dir);
    snprintf(device, sizeof device, "%s/nvidia0", dir);
    CHECK(gpu_lock_user_may(devices, USER)); /* there is none */
    CHECK_INT(mknod(device, S_IFREG | 0600, 0), 0);
    CHECK(!gpu_lock_user_may(devices, USER));
    CHECK(gpu_lock_user_may(devices, geteuid()) && gpu_lock_user_may(devices, 0));
    CHECK_INT(chmod(device, 0664), 0);
    CHECK(!gpu_lock_user_may(devices, USER));
    CHECK_INT(chmod(device, 0666), 0);
    CHECK(gpu_lock_user_may(devices, USER));
    struct passwd *daemon = getpwnam("daemon");
    if (geteuid() == 0 && daemon) {
        CHECK_INT(chmod(device, 0660), 0);
        CHECK_INT(chown(device, USER, daemon->pw_gid), 0);
        CHECK(gpu_lock_user_may(devices, USER) && gpu_lock_user_may(devices, daemon->pw_uid));
        CHECK_INT(chown(device, 0, GROUP), 0);
        CHECK(!gpu_lock_user_may(devices, USER) && !gpu_lock_user_may(devices, daemon->pw_uid));
    }
    unlink(device);
    rmdir(dir);
}

TEST(containers_share_the_device_if_not_all_users_have_it_and_else_the_library)
{
    enum { NOBODY = 65534 };
    char dir[] = "/tmp/drover-test-XXXXXX", device[64];
    struct stat st, of_device;
    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(chmod(dir, 0755), 0);
    snprintf(device, sizeof device, "%s/nvidiactl", dir);
    setenv("DROVER_NVML_LIB", "/nowhere/libnvidia-ml.so.1", 1);
    CHECK_INT(gpu_lock_file(device), -1);
    CHECK_INT(mknod(device, S_IFREG | 0600, 0), 0);
    CHECK_INT(stat(device, &of_device), 0);
    AUTO(fd) int fd = gpu_lock_file(device);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == of_device.st_ino);
    pid_t pid = geteuid() == 0 ? fork() : -1;
    if (pid == 0)
        _exit(setuid(NOBODY) == 0 && gpu_lock_file(device) < 0 ? 0 : 1);
    int status = 0;
    CHECK(pid < 0 || (waitpid(pid, &status, 0) == pid && status == 0));
    CHECK_INT(chmod(device, 0666), 0);
    CHECK_INT(gpu_lock_file(device), -1);
    setenv("DROVER_NVML_LIB", "libc.so.6", 1); /* any library */
    AUTO(fd) int library = gpu_lock_file(device);
    CHECK(library >= 0 && fstat(library, &st) == 0 && st.st_ino != of_device.st_ino);
    unsetenv("DROVER_NVML_LIB");
    unlink(device);
    rmdir(dir);
}

TEST(a_gpu_without_a_usable_uuid_cannot_be_locked)
{
    struct gpu_locks l = {0};
    char uuid[200];
    memset(uuid, 'x', sizeof uuid - 1);
    uuid[sizeof uuid - 1] = '\0';
    CHECK_INT(gpu_locks_add(&l, "", NULL), -EINVAL);
    CHECK_INT(gpu_locks_add(&l, uuid, NULL), -EINVAL);
    CHECK(!gpu_lock_is_held("") && !gpu_lock_is_held(uuid));
    CHECK_INT(l.count, 0);
}
