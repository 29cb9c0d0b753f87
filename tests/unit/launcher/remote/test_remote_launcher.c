/* remote_launcher: the rows, and the command lines of mpirun, srun and ssh. */
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
                                         .drover = "/opt/drover/bin/drover",
                                         .session_dir = "/tmp/w",
                                         .hostfile = "/tmp/h"};
}

TEST(mpirun_starts_an_agent_per_line_and_leaves_the_rest_to_it)
{
    AUTO(strv) char **argv = NULL, **env = NULL;
    char *args[] = {"--mca", "plm_rsh_agent", "rsh", "--prefix", "/opt/ompi", NULL};
    struct plan p;
    struct remote_launcher_opts j = job(&p, args);
    struct err e = {0};
    CHECK_INT(remote_launcher_mpirun.argv(&argv, &env, &j, &e), 0);
    CHECK_STR(joined(argv),
              "/usr/bin/mpirun --hostfile /tmp/h --map-by seq:OVERSUBSCRIBE -np 3 --bind-to none "
              "--allow-run-as-root --stdin none -wdir / -x DROVER_CONTROL -x DROVER_TOKEN --mca "
              "plm_rsh_agent rsh --prefix /opt/ompi /opt/drover/bin/drover agent");
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
    CHECK(strstr(joined(argv), " --mca plm_rsh_args -l me /opt/drover/bin/drover agent"));
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
    CHECK(strstr(line, "--mpi=none --distribution=arbitrary --cpu-bind=none --mem-bind=none"));
    CHECK(strstr(line, "--nodes=3 --ntasks=3 /opt/drover/bin/drover agent"));
    CHECK(!strstr(line, "secret") && !strstr(line, "--mca"));
    CHECK_STR(env_get(env, "SLURM_HOSTFILE"), "/tmp/h");
    CHECK_STR(env_get(env, "SLURM_JOB_ID"), "5");
    CHECK_STR(env_get(env, "DROVER_TOKEN"), "secret");
    CHECK(!env_get(env, "SLURM_NTASKS_PER_NODE"));
    CHECK_INT(strv_len(env), 3);
}

/* The command line of ssh for a node. */
static const char *ssh_line(struct plan_node *node, char *const *args, char *const *environment,
                            const char *drover)
{
    struct plan p = {.nodes = node, .node_count = 1};
    AUTO(strv) char **argv = NULL, **env = strv_copy(environment);
    AUTO(free) char *own = remote_launcher_ssh.program_for(args, environment);
    AUTO(free) char *program = own ? xstrdup(own) : xstrdup("/usr/bin/ssh");
    const struct remote_launcher_opts o = {
        .plan = &p, .engine_args = args, .program = program, .drover = drover};
    struct err e = {0};
    CHECK_INT(remote_launcher_ssh.argv(&argv, &env, &o, &e), 0);
    return joined(argv);
}

#define DEFAULTS \
    "-T -o BatchMode=yes -o ConnectTimeout=20 -o ControlMaster=no -o ClearAllForwardings=yes"
#define COMMAND "exec env DROVER_AGENT_NODE=0 '/opt/drover' agent --environment-from-stdin"

TEST(ssh_starts_the_agent_of_one_node_and_this_machine_needs_no_ssh)
{
    struct plan_node far = {.name = (char *)"a"}, me = {.name = (char *)"me@a", .port = 2222},
                     here = {.name = (char *)"head", .here = true};
    CHECK_STR(ssh_line(&far, NULL, NULL, "/opt/drover"), "/usr/bin/ssh " DEFAULTS " a " COMMAND);
    CHECK_STR(ssh_line(&me, NULL, NULL, "/opt/drover"),
              "/usr/bin/ssh " DEFAULTS " -l me -p 2222 a " COMMAND);
    CHECK_STR(ssh_line(&here, NULL, NULL, "/opt/drover"),
              "/opt/drover agent --environment-from-stdin");
}

TEST(the_path_of_drover_is_one_word_for_the_login_shell)
{
    struct plan_node far = {.name = (char *)"a"};
    CHECK_HAS(ssh_line(&far, NULL, NULL, "/opt/it's here/drover"),
              " '/opt/it'\\''s here/drover' agent ");
}

TEST(arguments_of_the_user_precede_those_of_drover_since_ssh_takes_the_first)
{
    struct plan_node far = {.name = (char *)"a"};
    char *args[] = {"--mca", "btl", "tcp", "--mca", "plm_rsh_args", " -p 22  -i key", NULL};
    char *later[] = {"--mca", "plm_rsh_args", "-v", "--prtemca", "plm_ssh_args", "-q", NULL};
    char *env[] = {(char *)"OMPI_MCA_plm_rsh_args=-4", NULL};
    char *prte[] = {(char *)"PRTE_MCA_plm_ssh_args=-6", NULL};
    CHECK_HAS(ssh_line(&far, args, env, "/opt/drover"), "/usr/bin/ssh -p 22 -i key -T -o ");
    CHECK_HAS(ssh_line(&far, later, env, "/opt/drover"), "/usr/bin/ssh -q -T -o ");
    CHECK_HAS(ssh_line(&far, NULL, env, "/opt/drover"), "/usr/bin/ssh -4 -T -o ");
    CHECK_HAS(ssh_line(&far, NULL, prte, "/opt/drover"), "/usr/bin/ssh -6 -T -o ");
}

TEST(another_program_than_ssh_gets_no_options_of_ssh)
{
    struct plan_node far = {.name = (char *)"a"};
    char *rsh[] = {"--mca", "plm_rsh_agent", "/bin/rsh -K : ssh", "--mca", "plm_rsh_args", "-n",
                   NULL};
    char *other[] = {"--mca", "plm_rsh_agent", "/opt/bin/ssh -q", NULL};
    CHECK_STR(ssh_line(&far, rsh, NULL, "/opt/drover"), "/bin/rsh -K -n a " COMMAND);
    CHECK_STR(ssh_line(&far, other, NULL, "/opt/drover"),
              "/opt/bin/ssh -q " DEFAULTS " a " COMMAND);
    CHECK(!remote_launcher_ssh.program_for(NULL, NULL));
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
        CHECK((*l)->program && (*l)->package && (*l)->node_env && (*l)->env_prefixes);
    }
    CHECK_STR(words, REMOTE_LAUNCHER_WORDS(", "));
    CHECK(!remote_launcher_find("local"));
}

TEST(an_agent_finds_its_node_whoever_started_it)
{
    char *none[] = {(char *)"RANK=4", NULL};
    char *mpirun[] = {(char *)"OMPI_COMM_WORLD_RANK=3", (char *)"SLURM_PROCID=0", NULL};
    char *srun[] = {(char *)"SLURM_PROCID=2", NULL};
    char *inside_mpirun[] = {(char *)"PMIX_RANK=7", (char *)"DROVER_AGENT_NODE=1", NULL};
    CHECK_INT(remote_launcher_node(none), -1);
    CHECK_INT(remote_launcher_node(mpirun), 3);
    CHECK_INT(remote_launcher_node(srun), 2);
    CHECK_INT(remote_launcher_node(inside_mpirun), 1);
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
