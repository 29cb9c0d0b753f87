#include "launcher/plan/env.h"

#include "tests/unit/test.h"

static char **list(const char *const *v)
{
    char **out = NULL;
    for (; *v; v++)
        strv_push(&out, xstrdup(*v));
    return out;
}
#define LIST(...) list((const char *const[]){__VA_ARGS__, NULL})

static size_t count_of(char *const *env, const char *name)
{
    size_t n = 0, len = strlen(name);
    for (size_t i = 0; env && env[i]; i++)
        n += strncmp(env[i], name, len) == 0 && env[i][len] == '=';
    return n;
}

TEST(get_and_set_know_whole_names_only)
{
    AUTO(strv) char **e = LIST("PATH=/bin", "PATHS=/x", "EMPTY=", "A=b=c");
    CHECK_STR(env_get(e, "PATH"), "/bin");
    CHECK_STR(env_get(e, "EMPTY"), "");
    CHECK_STR(env_get(e, "A"), "b=c");
    CHECK(env_get(e, "PAT") == NULL);
    CHECK(env_get(NULL, "PATH") == NULL);
    env_set(&e, "PATH", "%s:%d", "/usr", 1);
    env_set(&e, "NEW", "1");
    CHECK_STR(env_get(e, "PATH"), "/usr:1");
    CHECK_STR(env_get(e, "PATHS"), "/x");
    CHECK_INT(strv_len(e), 5);
}

TEST(each_name_stands_once_and_the_last_layer_wins)
{
    AUTO(strv) char **base = LIST("A=1", "B=1", "A=2", "C=1", "BB=3");
    AUTO(strv) char **job = LIST("B=2", "D=1"), **rank = LIST("D=2", "RANK=0");
    AUTO(strv) char **m = env_merge(base, job, rank);
    CHECK_INT(strv_len(m), 6);
    CHECK_STR(env_get(m, "A"), "2");
    CHECK_STR(env_get(m, "B"), "2");
    CHECK_STR(env_get(m, "BB"), "3");
    CHECK_STR(env_get(m, "C"), "1");
    CHECK_STR(env_get(m, "D"), "2");
    CHECK_STR(env_get(m, "RANK"), "0");
    CHECK_INT(count_of(m, "A"), 1);
    CHECK_STR(m[0], "A=2"); /* sorted by name */
    CHECK_STR(m[1], "B=2");
    CHECK_STR(m[2], "BB=3");
}

TEST(nothing_merged_is_an_empty_environment)
{
    AUTO(strv) char **m = env_merge(NULL, NULL, NULL);
    CHECK(m != NULL);
    CHECK_INT(strv_len(m), 0);
}

TEST(a_ranks_own_variables_take_the_place_of_the_common_ones)
{
    char *common[] = {"A=1", "AB=2", "PATH=/bin", NULL}, *own[] = {"RANK=3", "A=own", NULL};
    AUTO(free) char **both = env_overlay(common, own);
    CHECK_INT(strv_len(both), 4);
    CHECK_STR(env_get(both, "A"), "own");
    CHECK_STR(env_get(both, "AB"), "2");
    CHECK_STR(env_get(both, "RANK"), "3");
    CHECK(env_get(both, "PATH") == common[2] + strlen("PATH=")); /* the same bytes */
    AUTO(free) char **none = env_overlay(NULL, NULL);
    CHECK_INT(strv_len(none), 0);
}

TEST(what_is_no_assignment_is_dropped)
{
    AUTO(strv) char **base = LIST("NOEQUALS", "=x", "GOOD=1");
    AUTO(strv) char **m = env_merge(base, NULL, NULL);
    CHECK_INT(strv_len(m), 1);
}

TEST(a_launchers_variables_are_not_inherited)
{
    static const char *const theirs[] = {"PMIX_RANK",
                                         "PMIX_SERVER_URI41",
                                         "PMI_FD",
                                         "PMI_RANK",
                                         "OMPI_COMM_WORLD_RANK",
                                         "OMPI_UNIVERSE_SIZE",
                                         "OMPI_MCA_orte_hnp_uri",
                                         "OMPI_MCA_ess",
                                         "OMPI_MCA_ess_base_vpid",
                                         "OMPI_MCA_pmix",
                                         "OMPI_MCA_mpi_oversubscribe",
                                         "HYDI_CONTROL_FD",
                                         "MPI_LOCALRANKID",
                                         "SLURM_PROCID",
                                         "SLURM_LOCALID",
                                         "SLURM_STEP_ID",
                                         "SLURM_CPU_BIND_LIST",
                                         "PALS_RANKID",
                                         "PALS_LOCAL_RANKID",
                                         "PALS_LOCAL_SIZE",
                                         "JSM_NAMESPACE_RANK",
                                         "JSM_NAMESPACE_LOCAL_RANK",
                                         "FLUX_TASK_RANK",
                                         "FLUX_TASK_LOCAL_ID",
                                         "MV2_COMM_WORLD_LOCAL_RANK",
                                         "MVP_COMM_WORLD_RANK",
                                         "MPT_LRANK",
                                         "ALPS_APP_PE",
                                         "HOROVOD_RANK",
                                         "HOROVOD_LOCAL_RANK",
                                         "RANK",
                                         "WORLD_SIZE",
                                         "MASTER_PORT",
                                         "TORCHELASTIC_USE_AGENT_STORE",
                                         "DROVER_JOB_ID",
                                         "DROVER_RANK_CPUS",
                                         "DROVER_REPORT_FD"};
    static const char *const users[] = {"PATH",
                                        "OMPI_MCA_btl",
                                        "OMPI_MCA_btl_tcp_if_include",
                                        "PMIX_MCA_gds",
                                        "SLURM_JOB_ID",
                                        "SLURM_JOB_NODELIST",
                                        "PALS_APID",
                                        "FLUX_URI",
                                        "HOROVOD_FUSION_THRESHOLD",
                                        "NCCL_DEBUG",
                                        "OMP_NUM_THREADS",
                                        "CUDA_VISIBLE_DEVICES",
                                        "RANKS",
                                        "DROVER_LOG",
                                        "DROVER_NVML_LIB",
                                        "TORCHELASTIC_TIMER_FILE",
                                        "PMIXED"};
    char **base = NULL;
    for (size_t i = 0; i < COUNT_OF(theirs); i++)
        strv_push(&base, xasprintf("%s=1", theirs[i]));
    for (size_t i = 0; i < COUNT_OF(users); i++)
        strv_push(&base, xasprintf("%s=1", users[i]));
    AUTO(strv) char **m = env_merge(base, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(theirs); i++)
        if (env_get(m, theirs[i]))
            FAIL("%s was inherited", theirs[i]);
    for (size_t i = 0; i < COUNT_OF(users); i++)
        CHECK_STR(env_get(m, users[i]), "1");
    CHECK_INT(strv_len(m), COUNT_OF(users));
    strv_free(base);
}

TEST(what_an_outer_drover_chose_goes_and_what_the_user_chose_stays)
{
    AUTO(strv)
    char **outer =
        LIST("DROVER_JOB_ID=j", "DROVER_RANK_CORES=4", "OMP_NUM_THREADS=4",
             "OMPI_MCA_schizo=^orte,slurm", "OMPI_MCA_btl=self,vader", "OMPI_MCA_pml=ucx");
    CHECK(env_is_from_launcher(outer, "OMP_NUM_THREADS"));
    CHECK(env_is_from_launcher(outer, "OMPI_MCA_schizo"));
    CHECK(env_is_from_launcher(outer, "OMPI_MCA_btl"));
    CHECK(!env_is_from_launcher(outer, "OMPI_MCA_pml")); /* a value other than drover's */
    AUTO(strv) char **over_nodes = LIST("DROVER_JOB_ID=j", "OMPI_MCA_btl=self,vader,tcp");
    CHECK(env_is_from_launcher(over_nodes, "OMPI_MCA_btl"));
    AUTO(strv) char **none = LIST("OMP_NUM_THREADS=4", "OMPI_MCA_btl=self,vader");
    CHECK(!env_is_from_launcher(none, "OMP_NUM_THREADS"));
    CHECK(!env_is_from_launcher(none, "OMPI_MCA_btl"));
}

TEST(the_users_choice_is_dash_x_first_then_what_is_inherited)
{
    AUTO(strv) char **base = LIST("A=base", "B=base", "RANK=7");
    AUTO(strv) char **user = LIST("A=user", "B", "RANK", "MISSING");
    CHECK_STR(env_user_value(base, user, "A"), "user");
    CHECK_STR(env_user_value(base, user, "B"), "base");
    CHECK_STR(env_user_value(base, user, "RANK"), "7"); /* passed on by name */
    CHECK(env_user_value(base, NULL, "RANK") == NULL);
    CHECK(env_user_value(base, user, "MISSING") == NULL);
}

static struct plan_rank ranks[2] = {{.rank = 0, .gpu = -1, .cores = 2, .cpus = (char *)"0-1"},
                                    {.rank = 1, .local_rank = 1, .gpu = 3, .cores = 2}};
static struct plan_node node = {.name = (char *)"c01", .local_size = 2, .here = true};
static struct plan plan = {.engine = PLAN_ENGINE_LOCAL,
                           .ranks = ranks,
                           .world_size = 2,
                           .nodes = &node,
                           .node_count = 1,
                           .job_id = (char *)"j1",
                           .master_addr = (char *)"127.0.0.1"};

TEST(a_rank_finds_torchruns_contract)
{
    struct launch_spec s = {0};
    AUTO(strv) char **job = env_job(&plan, &s, NULL);
    AUTO(strv) char **rank = env_rank(&plan, &ranks[1], &s, NULL, false);
    AUTO(strv) char **m = env_merge(NULL, job, rank);
    static const char *const expected[][2] = {{"RANK", "1"},
                                              {"LOCAL_RANK", "1"},
                                              {"GROUP_RANK", "0"},
                                              {"NODE_RANK", "0"},
                                              {"ROLE_RANK", "1"},
                                              {"ROLE_NAME", "default"},
                                              {"WORLD_SIZE", "2"},
                                              {"LOCAL_WORLD_SIZE", "2"},
                                              {"GROUP_WORLD_SIZE", "1"},
                                              {"ROLE_WORLD_SIZE", "2"},
                                              {"MASTER_ADDR", "127.0.0.1"},
                                              {"TORCHELASTIC_RESTART_COUNT", "0"},
                                              {"TORCHELASTIC_MAX_RESTARTS", "0"},
                                              {"TORCHELASTIC_RUN_ID", "j1"},
                                              {"OMP_NUM_THREADS", "2"},
                                              {"DROVER_JOB_ID", "j1"},
                                              {"DROVER_RANK_GPU", "3"},
                                              {"OMPI_COMM_WORLD_RANK", "1"},
                                              {"OMPI_COMM_WORLD_SIZE", "2"},
                                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                              {"MPI_LOCALRANKID", "1"},
                                              {"MPI_LOCALNRANKS", "2"},
                                              {"OMPI_MCA_schizo", "^orte,slurm"}};
    for (size_t i = 0; i < COUNT_OF(expected); i++)
        CHECK_STR(env_get(m, expected[i][0]), expected[i][1]);
    CHECK(env_get(m, "MASTER_PORT") == NULL); /* set by the process that holds the port */
    CHECK(env_get(m, "OMPI_MCA_mpi_oversubscribe") == NULL);
    CHECK(env_get(m, "DROVER_RANK_CPUS") == NULL); /* not bound */
}

TEST(in_an_allocation_ranks_have_the_variables_of_slurms_tasks)
{
    static const char *const of_job[] = {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE",
                                         "SLURM_NNODES"};
    static const char *const of_rank[] = {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"};
    char *inside[] = {(char *)"SLURM_JOB_ID=7", (char *)"SLURM_NTASKS=9", NULL};
    const struct launch_spec s = {0}, part = {.external_part.nodes = 2};
    AUTO(strv) char **job = env_job(&plan, &s, inside);
    AUTO(strv) char **rank = env_rank(&plan, &plan.ranks[1], &s, inside, false);
    CHECK_STR(env_get(job, "SLURM_NTASKS"), env_get(job, "WORLD_SIZE"));
    CHECK_STR(env_get(job, "SLURM_NPROCS"), env_get(job, "WORLD_SIZE"));
    CHECK_STR(env_get(job, "SLURM_NNODES"), env_get(job, "GROUP_WORLD_SIZE"));
    struct plan_node nodes[] = {{.local_size = 2}, {.local_size = 2}, {.local_size = 1}};
    const struct plan three = {.world_size = 5, .nodes = nodes, .node_count = 3, .job_id = "j"};
    AUTO(strv) char **job3 = env_job(&three, &s, inside);
    CHECK_STR(env_get(job3, "SLURM_TASKS_PER_NODE"), "2(x2),1");
    CHECK_STR(env_get(job3, "SLURM_NNODES"), "3");
    CHECK_STR(env_get(rank, "SLURM_PROCID"), "1");
    CHECK_STR(env_get(rank, "SLURM_LOCALID"), env_get(rank, "LOCAL_RANK"));
    CHECK_STR(env_get(rank, "SLURM_NODEID"), env_get(rank, "GROUP_RANK"));
    AUTO(strv) char **outside_job = env_job(&plan, &s, NULL);
    AUTO(strv) char **outside_rank = env_rank(&plan, &plan.ranks[1], &s, NULL, false);
    AUTO(strv) char **part_job = env_job(&plan, &part, inside);
    AUTO(strv) char **part_rank = env_rank(&plan, &plan.ranks[1], &part, inside, false);
    for (size_t i = 0; i < COUNT_OF(of_job); i++)
        CHECK(!env_get(outside_job, of_job[i]) && !env_get(part_job, of_job[i]));
    for (size_t i = 0; i < COUNT_OF(of_rank); i++)
        CHECK(!env_get(outside_rank, of_rank[i]) && !env_get(part_rank, of_rank[i]));
}

TEST(only_a_job_on_one_node_gets_its_transports_at_once)
{
    struct plan far = plan;
    far.engine = "openmpi";
    struct launch_spec s = {.restart_count = 1, .max_restarts = 3};
    far.node_count = 1;
    AUTO(strv) char **one = env_job(&far, &s, NULL);
    CHECK_STR(env_get(one, "OMPI_MCA_btl"), "self,vader");
    far.node_count = 2;
    AUTO(strv) char **two = env_job(&far, &s, NULL);
    CHECK(env_get(two, "OMPI_MCA_pml") == NULL && env_get(two, "OMPI_MCA_btl") == NULL);
    CHECK_STR(env_get(two, "OMPI_MCA_schizo"), "^orte,slurm");
    CHECK_STR(env_get(two, "MPIR_CVAR_PMI_VERSION"), "1");
    CHECK_STR(env_get(two, "DROVER_RESTART_COUNT"), "1");
    CHECK_STR(env_get(two, "TORCHELASTIC_RESTART_COUNT"), "1");
    CHECK_STR(env_get(two, "TORCHELASTIC_MAX_RESTARTS"), "3");
    s.node.no_pmix = true;
    AUTO(strv) char **none = env_job(&far, &s, NULL);
    CHECK(env_get(none, "OMPI_MCA_schizo") == NULL);
}

TEST(what_the_user_has_set_is_left_alone)
{
    AUTO(strv) char **base = LIST("OMP_NUM_THREADS=9", "OMPI_MCA_btl=tcp,self", "FOO=1");
    AUTO(strv) char **user = LIST("OMPI_MCA_pml=ucx", "ROLE_NAME=mine", "FOO", "NOT_THERE");
    struct launch_spec s = {.env = user};
    AUTO(strv) char **job = env_job(&plan, &s, base);
    AUTO(strv) char **rank = env_rank(&plan, &ranks[0], &s, base, true);
    AUTO(strv) char **m = env_merge(base, job, rank);
    CHECK_STR(env_get(m, "OMP_NUM_THREADS"), "9");
    CHECK_STR(env_get(m, "OMPI_MCA_btl"), "tcp,self");
    CHECK_STR(env_get(m, "OMPI_MCA_pml"), "ucx");
    CHECK_STR(env_get(m, "ROLE_NAME"), "mine");
    CHECK_STR(env_get(m, "FOO"), "1");
    CHECK(env_get(m, "NOT_THERE") == NULL);
    CHECK_STR(env_get(m, "OMPI_MCA_mpi_oversubscribe"), "1");
}

TEST(without_pmix_nothing_of_mpi_is_set)
{
    struct launch_spec s = {.node.no_pmix = true};
    AUTO(strv) char **job = env_job(&plan, &s, NULL);
    AUTO(strv) char **rank = env_rank(&plan, &ranks[0], &s, NULL, true);
    AUTO(strv) char **m = env_merge(NULL, job, rank);
    for (size_t i = 0; m[i]; i++)
        CHECK(strncmp(m[i], "OMPI_", 5) != 0 && strncmp(m[i], "MPI_", 4) != 0);
}

/* Reads the URI as JAX does: a number before '.', of which 12 bits are the coordinator's port. */
static unsigned number_of_uri(char *const *env, const char *address)
{
    const char *uri = env_get(env, "OMPI_MCA_orte_hnp_uri");
    unsigned number = 0;
    char rest[64] = "";
    if (!uri || sscanf(uri, "%u.0;%63s", &number, rest) != 2)
        FAIL("malformed URI '%s'", uri ? uri : "none");
    CHECK(number > 0 && number % 4096 == 0);
    CHECK(strncmp(rest, address, strlen(address)) == 0);
    return number;
}

TEST(jax_finds_rank_0_and_a_port_of_this_job)
{
    struct launch_spec s = {0};
    AUTO(strv) char **job = env_job(&plan, &s, NULL);
    AUTO(strv) char **same = env_job(&plan, &s, NULL);
    AUTO(strv) char **other = NULL;
    env_set_hnp_uri(&other, "fe80::1", "j2");
    unsigned number = number_of_uri(job, "tcp://127.0.0.1:");
    CHECK(number_of_uri(same, "tcp://127.0.0.1:") == number);
    CHECK(number_of_uri(other, "tcp6://[fe80::1]:") != number);
    struct plan far = plan; /* its address is known later */
    far.master_addr = NULL;
    AUTO(strv) char **later = env_job(&far, &s, NULL);
    CHECK(env_get(later, "OMPI_MCA_orte_hnp_uri") == NULL);
}

TEST(five_hundred_variables_for_64_ranks_take_no_time_to_speak_of)
{
    char **base = NULL;
    for (int i = 0; i < 500; i++)
        strv_push(&base, xasprintf("VARIABLE_%d=%d", i * 7919 % 500, i));
    for (int r = 0; r < 64; r++) { /* far below a test's limit of 20 s */
        AUTO(strv) char **m = env_merge(base, base, base);
        CHECK_INT(strv_len(m), 500);
    }
    strv_free(base);
}
