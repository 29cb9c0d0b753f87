#include "common/entropy.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "tests/unit/test.h"

static void check_fills(void)
{
    char a[32] = {0}, b[32] = {0}, zeroes[32] = {0};
    CHECK_INT(entropy_fill(a, sizeof a), 0);
    CHECK_INT(entropy_fill(b, sizeof b), 0);
    CHECK(memcmp(a, b, sizeof a) != 0 && memcmp(a, zeroes, sizeof a) != 0);
}

TEST(bytes_are_random)
{
    check_fills();
}

/* Each test is a process of its own, so the filter ends with it. */
TEST(bytes_are_random_if_a_filter_refuses_getrandom)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
        SKIP("no filter of system calls can be set");
    char byte;
    CHECK(getrandom(&byte, 1, 0) < 0 && errno == EPERM);
    check_fills();
}
