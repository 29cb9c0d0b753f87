#include "launcher/run/run_options.h"

#include <errno.h>

#include "tests/unit/test.h"

static struct run_options got;
static struct err error;

/* Parses `line`, cut at spaces. */
static int parse(const char *line)
{
    static char text[512];
    char *words[64];
    int n = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
        words[n++] = w;
    words[n] = NULL;
    error = (struct err){0};
    return run_options_parse(&got, "mpirun", n, words, &error);
}

static void done(void)
{
    run_options_free(&got);
}

static const struct where {
    const char *line;
    int map, bind, rank, cpus, ppr, of, oversubscribe;
} places[] = {
    {"--map-by numa:PE=2", PLAN_MAP_NUMA, 0, 0, 2, 0, 0, 0},
    {"--map-by :PE=3:OVERSUBSCRIBE", 0, 0, 0, 3, 0, 0, 1},
    {"--map-by package:oversubscribe", PLAN_MAP_PACKAGE, 0, 0, 0, 0, 0, 1},
    {"-map-by Socket,PE=4", PLAN_MAP_DEFAULT, 0, 0, 0, 0, 0, -1},
    {"-map-by SOCKET:PE=4,SPAN", PLAN_MAP_PACKAGE, 0, 0, 4, 0, 0, 0},
    {"--map-by ppr:2:socket:PE=4", PLAN_MAP_PPR, 0, 0, 4, 2, PLAN_MAP_PACKAGE, 0},
    {"--map-by ppr:8:node", PLAN_MAP_PPR, 0, 0, 0, 8, PLAN_MAP_NODE, 0},
    {"--map-by ppr:1:l3cache:NOLOCAL", PLAN_MAP_PPR, 0, 0, 0, 1, PLAN_MAP_L3, 0},
    {"-npersocket 3", PLAN_MAP_PPR, 0, 0, 0, 3, PLAN_MAP_PACKAGE, 0},
    {"--ppr 3:core", PLAN_MAP_PPR, 0, 0, 0, 3, PLAN_MAP_CORE, 0},
    {"--map-by ppr:0:node", 0, 0, 0, 0, 0, 0, -1},
    {"--map-by ppr:2:slot", 0, 0, 0, 0, 0, 0, -1},
    {"--map-by ppr:2", 0, 0, 0, 0, 0, 0, -1},
    {"--map-by none", 0, 0, 0, 0, 0, 0, -1},
    {"--map-by seq", 0, 0, 0, 0, 0, 0, -1},
    {"--map-by core:PE=0", 0, 0, 0, 0, 0, 0, -1},
    {"--map-by core:what", 0, 0, 0, 0, 0, 0, -1},
    {"--bind-to core", 0, PLAN_BIND_CORE, 0, 0, 0, 0, 0},
    {"--bind-to core:overload-allowed", 0, PLAN_BIND_CORE, 0, 0, 0, 0, 1},
    {"-bind-to core:2", 0, PLAN_BIND_CORE, 0, 2, 0, 0, 0},
    {"-bind-to rr", 0, PLAN_BIND_HWTHREAD, 0, 0, 0, 0, 0},
    {"-bind-to machine", 0, PLAN_BIND_NONE, 0, 0, 0, 0, 0},
    {"-bind-to-socket", 0, PLAN_BIND_PACKAGE, 0, 0, 0, 0, 0},
    {"--bind-to slot", 0, 0, 0, 0, 0, 0, -1},
    {"--rank-by node", 0, 0, PLAN_MAP_NODE, 0, 0, 0, 0},
    {"--rank-by fill", 0, 0, PLAN_MAP_SLOT, 0, 0, 0, 0},
    {"--rank-by span", 0, 0, PLAN_MAP_DEFAULT, 0, 0, 0, 0},
    {"--rank-by sideways", 0, 0, 0, 0, 0, 0, -1},
    {"-bynode", PLAN_MAP_NODE, 0, 0, 0, 0, 0, 0},
    {"-cpus-per-proc 4", 0, 0, 0, 4, 0, 0, 0},
    {"--use-hwthread-cpus", PLAN_MAP_HWTHREAD, 0, 0, 0, 0, 0, 0},
    {"--map-by core --use-hwthread-cpus", PLAN_MAP_CORE, 0, 0, 0, 0, 0, 0},
};

TEST(places_are_read_as_open_mpi_and_hydra_write_them)
{
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        const struct where *w = &places[i];
        char line[200];
        /* --nolocal needs another host */
        snprintf(line, sizeof line, "mpirun -H localhost:64,far:64 -np 2 %s ./a", w->line);
        int rc = parse(line);
        const struct launch_spec *s = &got.spec;
        if (w->oversubscribe < 0
                ? rc == 0 || !*error.text
                : rc < 0 || s->map_by != (enum plan_map)w->map ||
                      s->bind_to != (enum plan_bind)w->bind ||
                      s->rank_by != (enum plan_map)w->rank || s->cpus_per_rank != w->cpus ||
                      s->ppr != w->ppr || s->ppr_of != (enum plan_map)w->of ||
                      s->oversubscribe != (bool)w->oversubscribe)
            FAIL("%s: %d %s map %d bind %d rank %d cpus %d ppr %d of %d", w->line, rc, error.text,
                 (int)s->map_by, (int)s->bind_to, (int)s->rank_by, s->cpus_per_rank, s->ppr,
                 (int)s->ppr_of);
        done();
    }
}

TEST(nolocal_leaves_the_other_hosts)
{
    CHECK_INT(parse("mpirun -H localhost:2,far:3 -nolocal -np 1 ./a"), 0);
    CHECK_INT(got.spec.hosts->count, 1);
    CHECK_STR(got.spec.hosts->at[0].name, "far");
    CHECK_INT(got.spec.hosts->at[0].slots, 3);
    done();
}

TEST(parameters_of_open_mpi_are_variables_and_words_for_its_mpirun)
{
    CHECK_INT(parse("mpirun --mca pml ob1 --prefix /opt/x -mca btl ^openib -np 1 ./a"), 0);
    CHECK_STR(got.spec.env[0], "OMPI_MCA_pml=ob1");
    CHECK_STR(got.spec.env[1], "OMPI_MCA_btl=^openib");
    static const char *const want[] = {"--mca", "pml",     "ob1",      "--mca",
                                       "btl",   "^openib", "--prefix", "/opt/x"};
    CHECK_INT(strv_len(got.spec.engine_args), COUNT_OF(want));
    for (size_t i = 0; i < COUNT_OF(want); i++)
        CHECK_STR(got.spec.engine_args[i], want[i]);
    done();
}

static const struct {
    const char *line;
    int map, bind, oversubscribe, warnings; /* oversubscribe -1: an error */
} parameters[] = {
    {"--mca hwloc_base_binding_policy none", 0, PLAN_BIND_NONE, 0, 0},
    {"--bind-to core --mca hwloc_base_binding_policy none", 0, PLAN_BIND_CORE, 0, 0},
    {"--mca rmaps_base_mapping_policy node:oversubscribe", PLAN_MAP_NODE, 0, 1, 0},
    {"--mca rmaps_base_mapping_policy node --map-by core", PLAN_MAP_CORE, 0, 0, 0},
    {"--prtemca rmaps_default_mapping_policy :oversubscribe", 0, 0, 1, 0},
    {"--mca rmaps_base_oversubscribe 1 --map-by slot:NOOVERSUBSCRIBE", PLAN_MAP_SLOT, 0, 0, 0},
    {"--mca rmaps_base_oversubscribe 1 --nooversubscribe", 0, 0, 0, 0},
    {"--mca rmaps_base_oversubscribe 1 --mca rmaps_base_oversubscribe 0", 0, 0, 0, 0},
    {"--mca rmaps_base_no_oversubscribe 1 --oversubscribe", 0, 0, 1, 0},
    {"--mca orte_xml_output 1", 0, 0, 0, 1},
    {"--mca hwloc_base_binding_policy moon", 0, 0, -1, 0},
    {"--mca rmaps_base_mapping_policy seq", 0, 0, -1, 0},
    {"--tune /none/such", 0, 0, -1, 0},
};

TEST(launcher_parameters_of_open_mpi_are_options_that_options_override)
{
    for (size_t i = 0; i < COUNT_OF(parameters); i++) {
        char line[200];
        snprintf(line, sizeof line, "mpirun -H localhost:64 -np 2 %s ./a", parameters[i].line);
        int rc = parse(line);
        const struct launch_spec *s = &got.spec;
        bool is_error = parameters[i].oversubscribe < 0;
        if (is_error ? rc == 0 || !*error.text
                     : rc < 0 || s->map_by != (enum plan_map)parameters[i].map ||
                           s->bind_to != (enum plan_bind)parameters[i].bind ||
                           s->oversubscribe != (bool)parameters[i].oversubscribe ||
                           strv_len(got.warnings) != (size_t)parameters[i].warnings)
            FAIL("%s: %d %s map %d bind %d, %zu warnings", parameters[i].line, rc, error.text,
                 (int)s->map_by, (int)s->bind_to, strv_len(got.warnings));
        done();
    }
}

TEST(a_variable_that_drover_cannot_apply_is_a_warning)
{
    setenv("OMPI_MCA_hwloc_base_binding_policy", "moon", 1);
    int rc = parse("mpirun -np 1 ./a");
    unsetenv("OMPI_MCA_hwloc_base_binding_policy");
    CHECK_INT(rc, 0);
    CHECK_INT(strv_len(got.warnings), 1);
    CHECK(strstr(got.warnings[0], "hwloc_base_binding_policy=moon (environment)"));
    done();
}

TEST(hosts_of_the_line_replace_those_of_a_parameter)
{
    CHECK_INT(parse("mpirun --mca orte_default_dash_host far:2 -np 1 ./a"), 0);
    CHECK_STR(got.spec.hosts->at[0].name, "far");
    done();
    CHECK_INT(parse("mpirun --mca orte_default_dash_host far:2 -H near:3 -np 1 ./a"), 0);
    CHECK_INT(got.spec.hosts->count, 1);
    CHECK_STR(got.spec.hosts->at[0].name, "near");
    done();
}

TEST(variables_are_passed_by_name_list_and_beginning)
{
    setenv("NAME_A", "1", 1);
    setenv("NAME_B", "2", 1);
    CHECK_INT(parse("mpirun -np 1 -x NAME_A,NAME_B -x C=1,2 -x NAME_* -x UNSET -genv D 4 ./a"), 0);
    CHECK_STR(got.env[0], "NAME_A");
    CHECK_STR(got.env[1], "NAME_B");
    CHECK_STR(got.env[2], "C=1,2");
    CHECK_INT(strv_len(got.env), 7);
    CHECK_STR(got.env[6], "D=4");
    CHECK_INT(strv_len(got.warnings), 1);
    CHECK(strstr(got.warnings[0], "UNSET"));
    done();
    CHECK_INT(parse("mpiexec -n 1 -genv A=b=c,d -env B 2 -genv C= ./a"), 0);
    CHECK_STR(got.env[0], "A=b=c,d");
    CHECK_STR(got.env[1], "B=2");
    CHECK_STR(got.env[2], "C=");
    done();
    CHECK_INT(parse("mpiexec -n 1 -genv =1 ./a"), -EINVAL);
    done();
    CHECK_INT(parse("mpiexec -n 1 -genv A"), -EINVAL);
    done();
}

TEST(output_is_marked_and_shown_as_asked)
{
    static const struct {
        const char *line;
        enum console_tag tag;
    } tags[] = {{"-np 1", CONSOLE_TAG_AUTO},
                {"--tag-output", CONSOLE_TAG_MPIRUN},
                {"-l", CONSOLE_TAG_RANK},
                {"--tag none", CONSOLE_TAG_NONE},
                {"--output tag", CONSOLE_TAG_MPIRUN},
                {"--output raw", CONSOLE_TAG_AUTO},
                {"--output rank:raw", CONSOLE_TAG_RANK},
                {"--output :raw", CONSOLE_TAG_AUTO},
                {"--tag host", CONSOLE_TAG_HOST}};
    for (size_t i = 0; i < COUNT_OF(tags); i++) {
        char line[100];
        snprintf(line, sizeof line, "mpirun %s ./a", tags[i].line);
        CHECK_INT(parse(line), 0);
        CHECK_INT(got.style.tag, tags[i].tag);
        CHECK(!got.show);
        done();
    }
    CHECK_INT(parse("mpirun --output timestamp,merge,dir=/x --show 0,3-5 ./a"), 0);
    CHECK(got.style.timestamp && got.style.merge);
    CHECK_STR(got.spec.output_dir, "/x");
    CHECK(hwloc_bitmap_isset(got.show, 4) && !hwloc_bitmap_isset(got.show, 1));
    CHECK_INT(got.spec.shown_rank, 5);
    done();
    CHECK_INT(parse("mpirun --output-filename d:nojobid,nocopy ./a"), 0);
    CHECK_STR(got.spec.output_dir, "d");
    CHECK(got.show && hwloc_bitmap_iszero(got.show));
    done();
    CHECK_INT(parse("mpirun --show 3 --show failed ./a"), 0);
    CHECK_INT(got.spec.shown_rank, 0);
    CHECK(got.show && hwloc_bitmap_iszero(got.show));
    done();
}

TEST(times_restarts_and_stdin_have_their_fields)
{
    CHECK_INT(parse("mpirun --start-timeout 2.5 --hang-timeout 60 --max-restarts 3 --events f "
                    "--idle-timeout 30m --grace 0 --stdin 3 --engine slurm -np 4 ./a"),
              0);
    CHECK_INT(got.spec.start_timeout_ms, 2500);
    CHECK(got.features.hang_timeout_s == 60);
    CHECK(got.features.idle_timeout_s == 1800);
    CHECK_INT(got.spec.max_restarts, 3);
    CHECK_STR(got.features.events, "f");
    CHECK_INT(got.spec.grace_ms, 1);
    CHECK_INT(got.spec.node.stdin_rank, 3);
    CHECK_STR(got.spec.engine, "slurm");
    done();
    static const char *const wrong[] = {"--start-timeout -1",
                                        "--hang-timeout 1e9",
                                        "--idle-timeout -1",
                                        "--max-restarts -1",
                                        "--stdin -1",
                                        "-np 0",
                                        "-np -2"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char line[100];
        snprintf(line, sizeof line, "mpirun %s ./a", wrong[i]);
        CHECK(parse(line) < 0 && *error.text);
        done();
    }
}

TEST(programs_behind_a_colon_add_their_ranks)
{
    CHECK_INT(parse("mpirun -np 1 ./a 1 : -np 2 -x A=1 ./b.py : -np 3 ./c : "), -EINVAL);
    done();
    CHECK_INT(parse("mpirun -np 1 ./a 1 : -np 2 -x A=1 ./b.py : -n 3 ./c"), 0);
    CHECK_INT(got.spec.ranks, 6);
    CHECK_INT(strv_len(got.spec.argv), 2);
    CHECK_INT(got.spec.app_count, 2);
    CHECK_STR(got.spec.apps[0].argv[0], "python3");
    CHECK_STR(got.spec.apps[0].env[0], "A=1");
    CHECK_INT(got.spec.apps[1].ranks, 3);
    done();
    CHECK_INT(parse("mpirun -np 1 -- ./a : -np 2"), 0);
    CHECK_INT(strv_len(got.spec.argv), 4);
    done();
}

TEST(options_without_meaning_and_refused_ones_are_told_apart)
{
    CHECK_INT(parse("mpirun --xml -novm --report-uri f -np 1 ./a"), 0);
    CHECK_INT(strv_len(got.ignored), 4);
    done();
    CHECK_INT(parse("mpirun -np 1 --xterm 0 ./a"), -EINVAL);
    CHECK_STR(error.text, "option '--xterm' is not supported");
    CHECK(*error.hint);
    done();
    static const char *const refused[] = {"xterm 0",  "debugger x", "debug",           "tv",
                                          "genvnone", "envnone",    "genvexcl A",      "envexcl A",
                                          "gtool x",  "membind x",  "gpus-per-proc 1", "with-ft"};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        char line[100];
        snprintf(line, sizeof line, "mpirun -np 1 --%s ./a", refused[i]);
        if (parse(line) == 0 || !*error.hint)
            FAIL("%s: no way out", refused[i]);
        done();
    }
}

TEST(spares_are_hosts_beyond_those_that_the_job_needs)
{
    CHECK_INT(parse("mpirun -H a:2,b:2,c:2,d:2 --spares 1 ./a"), 0);
    CHECK_INT(got.features.spares.candidates->count, 4);
    CHECK(got.features.spares.nodes_min == 3 && got.features.spares.nodes_max == 3);
    CHECK_INT(got.spec.hosts->count, 3); /* of a plan, before it is known which are healthy */
    CHECK_STR(got.spec.hosts->at[2].name, "c");
    done();
    static const struct {
        const char *line, *text;
    } bad[] = {
        {"mpirun --spares 1 ./a", "--spares: no hosts are given"},
        {"mpirun -H a,b --spares 2 ./a", "--spares 2: the job has only 2 hosts"},
        {"mpirun -H a,b,c --spares 1 -np 1 ./a : -np 1 ./b", "--spares: not with several programs"},
        {"mpirun -H a,b --exclude-file /dev/null --spares 0 ./a", "spares"},
        {"mpirun -H a,b --exclude-file /bin/true ./a", "--exclude-file: /bin/true"},
        {"mpirun -H a,b --preflight most ./a", "unknown preflight 'most'"},
        {"mpirun --preflight full --no-preflight ./a", "exclude each other"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK_INT(parse(bad[i].line) < 0, 1);
        CHECK_HAS(error.text, bad[i].text);
        done();
    }
}

TEST(hosts_of_the_exclude_file_are_left_out)
{
    char path[] = "/tmp/drover-test-XXXXXX";
    AUTO(fd) int fd = mkstemp(path);
    CHECK(dprintf(fd, "b - broken\nc 2001-01-01T00:00:00Z long ago\n") > 0);
    AUTO(free) char *line = xasprintf("mpirun -H a,b,c,d --exclude-file %s --spares 1 ./a", path);
    CHECK_INT(parse(line), 0);
    CHECK(got.features.spares.candidates == NULL &&
          got.features.spares.nodes_min == 3); /* the spare is used already */
    CHECK_INT(got.spec.hosts->count, 3);
    CHECK_STR(got.spec.hosts->at[1].name, "c");
    done();
    CHECK(dprintf(fd, "a - x\nd - x\n") > 0);
    CHECK_INT(parse(line), -EINVAL);
    CHECK_HAS(error.text, "the job needs 3 hosts, and --exclude-file leaves 1");
    done();
    unlink(path);
}

TEST(hydras_launcher_ssh_starts_ranks_on_other_nodes_only)
{
    CHECK_INT(parse("mpiexec -launcher ssh -H node1,node2 ./a"), 0);
    CHECK_STR(got.spec.engine, "ssh");
    done();
    CHECK_INT(parse("mpiexec -bootstrap ssh -n 1 ./a"), 0);
    CHECK(!got.spec.engine);
    done();
    CHECK_INT(parse("mpiexec -launcher fork -n 1 ./a"), 0);
    CHECK_STR(got.spec.engine, "local");
    done();
    CHECK_INT(parse("mpirun --engine ssh -n 1 ./a"), 0);
    CHECK_STR(got.spec.engine, "ssh");
    done();
}

TEST(ssh_reaches_other_nodes_if_there_is_no_mpirun)
{
    char dir[] = "/tmp/drover-path-XXXXXX";
    CHECK(mkdtemp(dir));
    AUTO(free) char *mpirun = xasprintf("%s/mpirun", dir);
    setenv("PATH", dir, 1);
    CHECK_INT(parse("run -H node1 -n 1 ./a"), 0);
    CHECK_STR(got.spec.remote_engine, "ssh");
    done();
    CHECK_INT(parse("run -n 1 ./a"), 0);
    CHECK(!got.spec.remote_engine);
    done();
    CHECK_INT(parse("run -H node1 -n 1 --prefix /opt/ompi ./a"), 0);
    CHECK_STR(got.spec.remote_engine, "openmpi");
    done();
    CHECK_INT(symlink("/bin/true", mpirun), 0);
    CHECK_INT(parse("run -H node1 -n 1 --mca btl tcp ./a"), 0);
    CHECK(!got.spec.remote_engine);
    done();
    unlink(mpirun);
    rmdir(dir);
}

TEST(arguments_for_ssh_are_those_of_mpiruns_ssh)
{
    CHECK_INT(parse("run -n 1 --ssh-args -4 --prtemca plm_ssh_agent rsh ./a"), 0);
    CHECK_INT(strv_len(got.spec.engine_args), 6);
    CHECK_STR(got.spec.engine_args[1], "plm_rsh_args");
    CHECK_STR(got.spec.engine_args[2], "-4");
    CHECK_STR(got.spec.engine_args[4], "plm_ssh_agent");
    CHECK_INT(strv_len(got.mpirun_only), 0);
    done();
}
