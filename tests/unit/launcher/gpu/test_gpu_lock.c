#include "launcher/gpu/gpu_lock.h"

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
