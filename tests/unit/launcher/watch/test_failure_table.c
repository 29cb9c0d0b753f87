/* failure_table: what a restart can do about a failure. */
#include "launcher/watch/failure_table.h"

#include <signal.h>

#include "tests/unit/test.h"

static enum failure_remedy remedy(const struct rank_end *r, const char *line)
{
    const char *lines[] = {line, NULL};
    struct failure_cause c;
    CHECK(failure_cause_find(&c, r, lines, NULL));
    return c.remedy;
}

static enum failure_remedy of_line(const char *line)
{
    return remedy(&(struct rank_end){.status = 1}, line);
}

TEST(what_the_user_has_to_change_is_not_restarted)
{
    static const char *const lines[] = {
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        "ModuleNotFoundError: No module named 'numpy'",
        "RuntimeError: CUDA error: invalid device ordinal",
        "OSError: [Errno 28] No space left on device",
        "python3: can't open file '/w/trian.py': [Errno 2] No such file or directory",
        "slurmstepd: error: *** STEP 7.0 ON c01 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT",
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        CHECK_INT(of_line(lines[i]), FAILURE_STOP);
    CHECK_INT(remedy(&(struct rank_end){.status = 2}, "t.py: error: unrecognized arguments: --lr"),
              FAILURE_STOP);
    CHECK_INT(remedy(&(struct rank_end){.status = 127}, "t.sh: 3: nvcc: not found"), FAILURE_STOP);
}

TEST(damaged_hardware_is_left)
{
    static const char *const lines[] = {
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00): 48, pid=12, name=python",
        "OSError: [Errno 116] Stale file handle",
        "RuntimeError: CUDA error: system not yet initialized",
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        CHECK_INT(of_line(lines[i]), FAILURE_ELSEWHERE);
}

TEST(what_may_not_come_again_is_restarted)
{
    static const char *const lines[] = {
        "RuntimeError: CUDA error: unspecified launch failure",
        "RuntimeError: [gloo] Connection closed by peer",
        "OSError: We couldn't connect to 'https://huggingface.co'",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed",
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        CHECK_INT(of_line(lines[i]), FAILURE_RESTART);
    CHECK_INT(remedy(&(struct rank_end){.status = -1, .signal = SIGKILL, .oom_killed = true}, "x"),
              FAILURE_RESTART);
}

TEST(exceptions_of_wrong_programs_are_not_restarted_and_those_of_the_world_are)
{
    CHECK_INT(failure_cause_remedy("NameError: name 'x' is not defined"), FAILURE_STOP);
    CHECK_INT(failure_cause_remedy("SyntaxError: invalid syntax"), FAILURE_STOP);
    CHECK_INT(failure_cause_remedy("huggingface_hub.errors.RepositoryNotFoundError: 404"),
              FAILURE_STOP);
    CHECK_INT(failure_cause_remedy("RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
              FAILURE_STOP);
    CHECK_INT(failure_cause_remedy("NotImplementedError"), FAILURE_STOP);
    CHECK_INT(failure_cause_remedy("RuntimeError: bad"), FAILURE_RESTART);
    CHECK_INT(failure_cause_remedy("requests.exceptions.ConnectionError: NameError"),
              FAILURE_RESTART);
    CHECK_INT(failure_cause_remedy("TimeoutError"), FAILURE_RESTART);
}

TEST(second_hand_rows_only_name_another_rank_and_never_forbid_a_restart)
{
    size_t second_hand = 0;
    for (size_t i = 0; i < failure_table_rows; i++) {
        second_hand += failure_table[i].second_hand;
        CHECK(!failure_table[i].texts[COUNT_OF(failure_table[i].texts) - 1]);
        CHECK(!failure_table[i].second_hand || failure_table[i].remedy == FAILURE_RESTART);
    }
    CHECK(second_hand >= 6);
}
