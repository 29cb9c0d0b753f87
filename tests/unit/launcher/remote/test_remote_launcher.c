/* remote_launcher: the rows, and the command lines of mpirun and srun. */
#include "launcher/plan/env.h"
#include "launcher/remote/remote_launcher.h"
#include "tests/unit/test.h"

static char *joined(char **argv)
{
    static char text[2000];
    text[0] = '\0';
    for (size_t i = 0; argv && argv[i]; i++) {
        strcat(text, i ? " " : "");
        strcat(text, argv[i]);
    }
    return text;
}

static struct remote_launcher_opts job(struct plan *p, char *const *args)
{
    static struct plan_node nodes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    *p = (struct plan){.world_size = 5, .nodes = nodes, .node_count = 3};
    return (struct remote_launcher_opts){.plan = p,
                                         .engine_args = args,
                                         .program = "/usr/bin/mpirun",
                                         .drover_rank = "/opt/drover/libexec/drover/drover-rank",
                                         .session_dir = "/tmp/w",
                                         .hostfile = "/tmp/h"};
}

TEST(mpirun_runs_rank_i_on_line_i_and_leaves_the_rest_to_us)
{
    AUTO(strv) char **argv = NULL, **env = NULL;
    char *args[] = {"--mca", "plm_rsh_agent", "rsh", "--prefix", "/opt/ompi", NULL};
    struct plan p;
    struct remote_launcher_opts j = job(&p, args);
    struct err e = {0};
    CHECK_INT(remote_launcher_mpirun.argv(&argv, &env, &j, &e), 0);
    CHECK_STR(joined(argv),
              "/usr/bin/mpirun --hostfile /tmp/h --map-by seq:OVERSUBSCRIBE -np 5 --bind-to none "
              "--allow-run-as-root --stdin none -wdir / -x DROVER_CONTROL -x DROVER_TOKEN --mca "
              "plm_rsh_agent rsh --prefix /opt/ompi /opt/drover/libexec/drover/drover-rank");
}

TEST(the_user_and_port_of_far_hosts_go_to_ssh)
{
    struct plan_node nodes[] = {{.name = "head", .here = true}, {.name = "me@a"}, {.name = "me@b"}};
    struct plan p;
    struct remote_launcher_opts j = job(&p, NULL);
    struct err e = {0};
    p.nodes = nodes;
    AUTO(strv) char **argv = NULL, **env = NULL;
    CHECK_INT(remote_launcher_mpirun.argv(&argv, &env, &j, &e), 0);
    CHECK(strstr(joined(argv), " --mca plm_rsh_args -l me /opt/drover/libexec/drover/drover-rank"));
    AUTO(strv) char **both = NULL, **port = NULL;
    nodes[1].port = nodes[2].port = 2222;
    CHECK_INT(remote_launcher_mpirun.argv(&port, &env, &j, &e), 0);
    CHECK(strstr(joined(port), " --mca plm_rsh_args -l me -p 2222 /opt/drover"));
    nodes[2].port = 0;
    CHECK_INT(remote_launcher_mpirun.argv(&both, &env, &j, &e), -EINVAL);
    CHECK_HAS(e.text, "several users or ports");
    nodes[1].port = 0;
    AUTO(strv) char **other = NULL;
    nodes[2].name = "you@b";
    CHECK_INT(remote_launcher_mpirun.argv(&other, &env, &j, &e), -EINVAL);
    CHECK(strstr(e.hint, "~/.ssh/config"));
    char *args[] = {"--mca", "plm_rsh_args", "-p 22", NULL};
    nodes[2].name = "me@b";
    j.engine_args = args;
    AUTO(strv) char **twice = NULL;
    CHECK_INT(remote_launcher_mpirun.argv(&twice, &env, &j, &e), -EINVAL);
}

TEST(srun_takes_nothing_from_what_sbatch_said_of_tasks)
{
    AUTO(strv) char **argv = NULL, **env = NULL;
    char *args[] = {"--mca", "a", "b", NULL};
    struct plan p;
    struct remote_launcher_opts j = job(&p, args);
    struct err e = {0};
    strv_push(&env, strdup("SLURM_NTASKS_PER_NODE=8"));
    strv_push(&env, strdup("SLURM_JOB_ID=5"));
    strv_push(&env, strdup("SLURM_HOSTFILE=/old"));
    strv_push(&env, strdup("DROVER_TOKEN=secret"));
    CHECK_INT(remote_launcher_srun.argv(&argv, &env, &j, &e), 0);
    const char *line = joined(argv);
    CHECK(strstr(line, "--mpi=pmix --distribution=arbitrary --cpu-bind=none --mem-bind=none"));
    CHECK(strstr(line, "--nodes=3 --ntasks=5 /opt/drover/libexec/drover/drover-rank"));
    CHECK(!strstr(line, "secret") && !strstr(line, "--mca"));
    CHECK_STR(env_get(env, "SLURM_HOSTFILE"), "/tmp/h");
    CHECK_STR(env_get(env, "SLURM_JOB_ID"), "5");
    CHECK_STR(env_get(env, "DROVER_TOKEN"), "secret");
    CHECK(!env_get(env, "SLURM_NTASKS_PER_NODE"));
    CHECK_INT(strv_len(env), 3);
}

TEST(the_words_in_help_and_hints_are_those_of_the_rows)
{
    char words[200] = "";
    for (const struct remote_launcher *const *l = remote_launchers; *l; l++) {
        CHECK(remote_launcher_find((*l)->word) == *l);
        if ((*l)->hidden)
            continue;
        strcat(words, words[0] ? ", " : "");
        strcat(words, (*l)->word);
        CHECK((*l)->program && (*l)->package && (*l)->rank_env && (*l)->env_prefixes);
    }
    CHECK_STR(words, REMOTE_LAUNCHER_WORDS(", "));
    CHECK(!remote_launcher_find("local"));
}

TEST(an_agent_finds_its_rank_whoever_started_it)
{
    char *none[] = {(char *)"RANK=4", NULL};
    char *mpirun[] = {(char *)"OMPI_COMM_WORLD_RANK=3", (char *)"SLURM_PROCID=0", NULL};
    char *srun[] = {(char *)"SLURM_PROCID=2", NULL};
    char *inside_mpirun[] = {(char *)"PMIX_RANK=7", (char *)"DROVER_AGENT_RANK=1", NULL};
    CHECK_INT(remote_launcher_rank(none), -1);
    CHECK_INT(remote_launcher_rank(mpirun), 3);
    CHECK_INT(remote_launcher_rank(srun), 2);
    CHECK_INT(remote_launcher_rank(inside_mpirun), 1);
}

TEST(what_a_launcher_sets_for_a_process_is_known_by_its_prefix)
{
    char *env[] = {(char *)"PATH=/bin",
                   (char *)"PMIX_RANK=1",
                   (char *)"SLURM_JOB_ID=5",
                   (char *)"OMPI_MCA_orte_local_tmpdir_base=/tmp/w",
                   (char *)"PRTE_X=1",
                   (char *)"PMI_FD=3",
                   NULL};
    AUTO(strv) char **rest = remote_launcher_strip_env(env);
    CHECK_INT(strv_len(rest), 2);
    CHECK_STR(env_get(rest, "PATH"), "/bin");
    CHECK_STR(env_get(rest, "OMPI_MCA_orte_local_tmpdir_base"), "/tmp/w");
    CHECK(remote_launcher_sets("SLURM_JOB_ID=5") && !remote_launcher_sets("SLURMD_NODENAME=a"));
}
