#include "launcher/plan/mca_params.h"

#include <sys/stat.h>

#include "tests/unit/kit_temp_file.h"
#include "tests/unit/test.h"

/* The options of one parameter, separated by blanks; "!" : it is ignored. */
static const char *meaning(const char *name, const char *value)
{
    static char text[256];
    struct mca_params p = {0};
    bool ignored = false;
    mca_params_set(&p, name, value, NULL);
    CHECK_INT(p.count, 1);
    AUTO(strv) char **words = mca_params_options(&p, 0, &ignored);
    snprintf(text, sizeof text, "%s", ignored ? "!" : "");
    for (size_t i = 0; words && words[i]; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "%s%s", i ? " " : "", words[i]);
    }
    mca_params_free(&p);
    return text;
}

TEST(each_parameter_is_an_option_of_drover)
{
    static const char *const means[][3] = {
        {"hwloc_base_binding_policy", "none", "--bind-to=none"},
        {"hwloc_base_binding_policy", "core:overload-allowed", "--bind-to=core:overload-allowed"},
        {"hwloc_default_binding_policy", "package", "--bind-to=package"},
        {"hwloc_base_bind_to_core", "1", "--bind-to=core"},
        {"hwloc_base_report_bindings", "true", "--report-bindings"},
        {"hwloc_base_use_hwthreads_as_cpus", "1", "--use-hwthread-cpus"},
        {"rmaps_base_mapping_policy", "ppr:2:node", "--map-by=ppr:2:node"},
        {"rmaps_default_mapping_policy", ":oversubscribe", "--map-by=:oversubscribe"},
        {"rmaps_base_ranking_policy", "node", "--rank-by=node"},
        {"rmaps_base_bynode", "yes", "--map-by=node"},
        {"rmaps_base_pernode", "1", "--npernode=1"},
        {"rmaps_base_n_pernode", "3", "--npernode=3"},
        {"rmaps_base_n_pernode", "0", ""},
        {"rmaps_base_n_persocket", "2", "--npersocket=2"},
        {"rmaps_ppr_pattern", "2:socket", "--ppr=2:socket"},
        {"rmaps_base_cpus_per_rank", "4", "--cpus-per-rank=4"},
        {"rmaps_base_no_schedule_local", "1", "--nolocal"},
        {"rmaps_base_oversubscribe", "1", "--oversubscribe"},
        {"rmaps_base_oversubscribe", "Yes", "--oversubscribe"},
        {"rmaps_base_oversubscribe", "0", ""},
        {"rmaps_base_oversubscribe", "false", ""},
        {"rmaps_base_oversubscribe", "", ""},
        {"rmaps_base_no_oversubscribe", "true", "--nooversubscribe"},
        {"rmaps_base_display_map", "1", "--report-bindings"},
        {"orte_tag_output", "1", "--tag-output"},
        {"orte_timestamp_output", "1", "--timestamp-output"},
        {"iof_base_redirect_app_stderr_to_stdout", "1", "--merge-stderr-to-stdout"},
        {"orte_default_hostfile", "/etc/hosts4", "--default-hostfile=/etc/hosts4"},
        {"odls_base_sigkill_timeout", "5", "--grace=5"},
        {"mca_base_env_list", "A=1;B;C=x=y", "-x=A=1 -x=B -x=C=x=y"},
        {"mca_base_env_list_delimiter", ",", ""},
        {"rmaps_rank_file_path", "ranks", "!"},
        {"orte_xml_output", "true", "!"},
        {"orte_xml_output", "0", ""},
        {"orte_abort_on_non_zero_status", "0", "--keep-going"},
        {"orte_abort_on_non_zero_status", "true", ""},
        {"hwloc_base_cpu_list", "0-3", "!"},
        {"MPIEXEC_TIMEOUT", "60", "--timeout=60"},
        {"MPIEXEC_TIMEOUT", "0", ""},
        {"HYDRA_HOST_FILE", "hosts", "--hostfile=hosts"},
    };
    for (size_t i = 0; i < COUNT_OF(means); i++)
        CHECK_STR(meaning(means[i][0], means[i][1]), means[i][2]);
}

TEST(the_list_of_variables_has_the_users_delimiter)
{
    AUTO(mca_params) struct mca_params p = {0};
    bool ignored = false;
    mca_params_set(&p, "mca_base_env_list", "A=1;2,B=3", NULL);
    mca_params_set(&p, "mca_base_env_list_delimiter", ",", NULL);
    AUTO(strv) char **words = mca_params_options(&p, 0, &ignored);
    CHECK_INT(strv_len(words), 2);
    CHECK_STR(words[0], "-x=A=1;2");
    CHECK_STR(words[1], "-x=B=3");
}

TEST(parameters_of_the_mpi_library_are_left_to_it)
{
    static const char *const names[] = {"btl", "pml", "coll_hcoll_enable", "plm_rsh_agent",
                                        "mpi_yield_when_idle"};
    AUTO(mca_params) struct mca_params p = {0};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        mca_params_set(&p, names[i], "1", NULL);
        CHECK(!mca_params_is_launchers(names[i]));
    }
    CHECK_INT(p.count, 0);
    CHECK(mca_params_is_launchers("rmaps_base_oversubscribe"));
}

static const struct mca_param *find(const struct mca_params *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->at[i].name, name) == 0)
            return &p->at[i];
    FAIL("%s is not set", name);
    return NULL;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(a_variable_overrides_the_users_file)
{
    struct place dir = make_place();
    char home[128], users[160];
    snprintf(home, sizeof home, "%s/.openmpi", dir.dir);
    snprintf(users, sizeof users, "%s/mca-params.conf", home);
    CHECK_INT(mkdir(home, 0700), 0);
    write_file(users, "# a comment = 1\n\n"
                      "rmaps_base_oversubscribe=1\n  orte_tag_output  =  1  \n btl = tcp\n"
                      "hwloc_base_binding_policy = \"none\"\nnot a parameter\n");
    AUTO(free) char *set_home = xasprintf("HOME=%s", dir.dir);
    char *env[] = {set_home, (char *)"OMPI_MCA_hwloc_base_binding_policy=core",
                   (char *)"PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
                   (char *)"OMPI_MCA_btl=self", NULL};
    AUTO(mca_params) struct mca_params p = {0};
    mca_params_read(&p, env);
    CHECK_STR(find(&p, "rmaps_base_oversubscribe")->value, "1");
    CHECK_STR(find(&p, "rmaps_base_oversubscribe")->source, users);
    CHECK_STR(find(&p, "orte_tag_output")->value, "1");
    CHECK_STR(find(&p, "hwloc_base_binding_policy")->value, "core");
    CHECK_STR(find(&p, "hwloc_base_binding_policy")->source, "environment");
    CHECK_STR(find(&p, "rmaps_default_mapping_policy")->value, ":oversubscribe");
    size_t count = p.count;
    mca_params_set(&p, "hwloc_base_binding_policy", "socket", NULL);
    CHECK_INT(p.count, count); /* set once, and now last */
    CHECK_STR(p.at[count - 1].value, "socket");
    unlink(users);
    CHECK_INT(rmdir(home), 0);
    remove_place(&dir);
}

TEST(files_that_a_variable_names_replace_the_usual_ones)
{
    struct place dir = make_place();
    write_file(dir.path, "orte_tag_output=1\n");
    AUTO(free) char *files = xasprintf("OMPI_MCA_mca_base_param_files=%s:/none/such", dir.path);
    char *env[] = {files, (char *)"HOME=/none", NULL};
    AUTO(mca_params) struct mca_params p = {0};
    mca_params_read(&p, env);
    CHECK_INT(p.count, 1);
    CHECK_STR(find(&p, "orte_tag_output")->source, dir.path);
    remove_place(&dir);
}

TEST(a_rank_of_another_job_has_variables_of_that_jobs_launcher)
{
    char *env[] = {(char *)"OMPI_MCA_mca_base_param_files=", (char *)"OMPI_COMM_WORLD_RANK=0",
                   (char *)"OMPI_MCA_rmaps_base_mapping_policy=ppr:1:node", NULL};
    AUTO(mca_params) struct mca_params p = {0};
    mca_params_read(&p, env);
    CHECK_INT(p.count, 0);
}

TEST(an_mpirun_of_drover_gets_no_parameter_that_drover_applies)
{
    char **env = NULL;
    strv_push(&env, xstrdup("OMPI_MCA_mca_base_env_list=A=1"));
    strv_push(&env, xstrdup("OMPI_MCA_plm_rsh_agent=ssh"));
    strv_push(&env, xstrdup("PRTE_MCA_rmaps_default_mapping_policy=node"));
    strv_push(&env, xstrdup("rmaps_base_oversubscribe=1"));
    mca_params_remove(env);
    CHECK_INT(strv_len(env), 2);
    CHECK_STR(env[0], "OMPI_MCA_plm_rsh_agent=ssh");
    CHECK_STR(env[1], "rmaps_base_oversubscribe=1");
    strv_free(env);
}
