#include "launcher/client/rank_identity.h"

#include "tests/unit/test.h"

/* Sets the whole environment of a test to "NAME=value" … */
static const char *const *env;

static const char *lookup(const char *name)
{
    for (int i = 0; env && env[i]; i++)
        if (strncmp(env[i], name, strlen(name)) == 0 && env[i][strlen(name)] == '=')
            return strchr(env[i], '=') + 1;
    return NULL;
}

#define ENV(...) (env = (const char *const[]){__VA_ARGS__, NULL})

static struct rank_identity read_ok(void)
{
    struct rank_identity w;
    struct err e = {0};
    if (rank_identity_read(&w, lookup, &e) < 0)
        FAIL("refused: %s", e.text);
    return w;
}

static struct err read_bad(void)
{
    struct rank_identity w;
    struct err e = {0};
    CHECK_INT(rank_identity_read(&w, lookup, &e), -EINVAL);
    CHECK_INT(e.code, -EINVAL);
    return e;
}

static void check(struct rank_identity w, int rank, int size, int local_rank, int local_size,
                  int node)
{
    CHECK_INT(w.rank, rank);
    CHECK_INT(w.size, size);
    CHECK_INT(w.local_rank, local_rank);
    CHECK_INT(w.local_size, local_size);
    CHECK_INT(w.node, node);
}

TEST(nobody_around_means_rank_0_of_1)
{
    env = NULL;
    check(read_ok(), 0, 1, 0, 1, 0);
    CHECK(read_ok().source == NULL);
}

TEST(torchruns_variables_are_read)
{
    ENV("RANK=13", "WORLD_SIZE=16", "LOCAL_RANK=5", "LOCAL_WORLD_SIZE=8", "GROUP_RANK=1");
    check(read_ok(), 13, 16, 5, 8, 1);
    ENV("RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=2", "NODE_RANK=7",
        "GROUP_RANK=1");
    check(read_ok(), 2, 4, 0, 2, 7);
}

TEST(drovers_variables_win_over_those_of_mpirun_and_slurm)
{
    ENV("RANK=1", "WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4",
        "SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1");
    check(read_ok(), 1, 2, 1, 2, 0);
}

TEST(mpiruns_node_rank_is_no_index_of_a_node)
{
    ENV("OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
        "OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_NODE_RANK=1");
    check(read_ok(), 5, 8, 1, 4, 1);
    ENV("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
        "OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_NODE_RANK=1");
    check(read_ok(), 1, 4, 1, 4, 0);
}

TEST(mpichs_variables_are_read)
{
    ENV("PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2");
    check(read_ok(), 3, 4, 1, 2, 1);
    CHECK_STR(read_ok().source, "PMI_RANK");
}

TEST(slurms_variables_count_only_inside_a_step)
{
    ENV("SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_ID=0", "SLURM_LOCALID=1",
        "SLURM_NODEID=1");
    check(read_ok(), 3, 4, 1, 4, 1);
    ENV("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=4"); /* a batch script */
    check(read_ok(), 0, 1, 0, 1, 0);
    ENV("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=4",
        "SLURM_STEP_ID=4294967290"); /* salloc's shell */
    check(read_ok(), 0, 1, 0, 1, 0);
}

TEST(without_a_local_rank_the_job_is_on_one_node)
{
    ENV("RANK=3", "WORLD_SIZE=4");
    check(read_ok(), 3, 4, 3, 4, 0);
    ENV("RANK=3", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2");
    check(read_ok(), 3, 4, 1, 2, 1);
}

TEST(a_world_size_that_a_script_exports_alone_does_no_harm)
{
    ENV("WORLD_SIZE=8", "SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=8", "SLURM_STEP_ID=0");
    check(read_ok(), 3, 8, 3, 8, 0);
    ENV("WORLD_SIZE=8");
    check(read_ok(), 0, 1, 0, 1, 0);
}

TEST(a_rank_without_a_size_is_refused_with_the_way_out)
{
    ENV("RANK=0");
    struct err e = read_bad();
    CHECK_HAS(e.text, "RANK is set");
    CHECK_HAS(e.hint, "WORLD_SIZE");
    ENV("PMIX_RANK=1");
    e = read_bad();
    CHECK_HAS(e.text, "PMIX_RANK is set");
}

TEST(contradictions_are_refused)
{
    ENV("RANK=4", "WORLD_SIZE=4");
    struct err e = read_bad();
    CHECK_STR(e.text, "RANK is 4, but WORLD_SIZE is 4");
    ENV("RANK=0", "WORLD_SIZE=4", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2");
    e = read_bad();
    CHECK_HAS(e.text, "LOCAL_RANK is 2");
}

TEST(a_value_that_is_not_a_number_is_refused)
{
    static const char *const bad[] = {"RANK=x", "RANK=-1", "RANK=1x", "RANK=99999999999"};
    for (int i = 0; i < 4; i++) {
        ENV(bad[i], "WORLD_SIZE=4");
        struct err e = read_bad();
        CHECK_HAS(e.text, "RANK: '");
    }
    ENV("RANK=0", "WORLD_SIZE=two");
    struct err e = read_bad();
    CHECK_HAS(e.text, "WORLD_SIZE: 'two' is not a number");
    ENV("RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=?");
    e = read_bad();
    CHECK_HAS(e.text, "LOCAL_RANK");
    ENV("RANK=0", "WORLD_SIZE=2", "GROUP_RANK=?");
    e = read_bad();
    CHECK_HAS(e.text, "GROUP_RANK");
}
