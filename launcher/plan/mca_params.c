#include "launcher/plan/mca_params.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/file.h"
#include "launcher/plan/env.h"

enum kind {
    VALUE,    /* the option gets the value */
    NUMBER,   /* the same, unless the value is 0 */
    FLAG,     /* the option is given if the value is true */
    UNLESS,   /* the option is given if the value is false */
    ENV_LIST, /* variables for the ranks */
    SETTING,  /* is read together with another parameter */
    IGNORED,  /* no option does this; a value other than that in `option` is reported as ignored */
};

/* Names of Open MPI 4 (ompi_info --all --level 9) and of PRRTE 3, the launcher of Open MPI 5
 * ("PRRTE MCA parameters" in the manual of Open MPI 5, on mpirun). */
static const struct row {
    const char *name;
    enum kind kind;
    const char *option; /* without its dashes */
} rows[] = {
    {"hwloc_base_binding_policy", VALUE, "bind-to"},
    {"hwloc_default_binding_policy", VALUE, "bind-to"},
    {"hwloc_base_bind_to_core", FLAG, "bind-to=core"},
    {"hwloc_base_bind_to_socket", FLAG, "bind-to=socket"},
    {"hwloc_base_report_bindings", FLAG, "report-bindings"},
    {"hwloc_base_use_hwthreads_as_cpus", FLAG, "use-hwthread-cpus"},
    {"hwloc_base_cpu_list", IGNORED, ""},
    {"hwloc_base_cpu_set", IGNORED, ""},
    {"hwloc_base_slot_list", IGNORED, ""},
    {"hwloc_default_cpu_list", IGNORED, ""},
    {"rmaps_base_mapping_policy", VALUE, "map-by"},
    {"rmaps_base_schedule_policy", VALUE, "map-by"},
    {"rmaps_default_mapping_policy", VALUE, "map-by"},
    {"rmaps_base_ranking_policy", VALUE, "rank-by"},
    {"rmaps_default_ranking_policy", VALUE, "rank-by"},
    {"rmaps_base_byslot", FLAG, "map-by=slot"},
    {"rmaps_base_bycore", FLAG, "map-by=core"},
    {"rmaps_base_bynode", FLAG, "map-by=node"},
    {"rmaps_base_pernode", FLAG, "npernode=1"},
    {"rmaps_ppr_pernode", FLAG, "npernode=1"},
    {"rmaps_base_n_pernode", NUMBER, "npernode"},
    {"rmaps_ppr_n_pernode", NUMBER, "npernode"},
    {"rmaps_base_n_persocket", NUMBER, "npersocket"},
    {"rmaps_ppr_n_persocket", NUMBER, "npersocket"},
    {"rmaps_base_pattern", VALUE, "ppr"},
    {"rmaps_ppr_pattern", VALUE, "ppr"},
    {"rmaps_base_cpus_per_proc", NUMBER, "cpus-per-rank"},
    {"rmaps_base_cpus_per_rank", NUMBER, "cpus-per-rank"},
    {"rmaps_base_no_schedule_local", FLAG, "nolocal"},
    {"rmaps_base_oversubscribe", FLAG, "oversubscribe"},
    {"rmaps_base_no_oversubscribe", FLAG, "nooversubscribe"},
    {"rmaps_base_display_map", FLAG, "report-bindings"},
    {"rmaps_base_display_devel_map", FLAG, "report-bindings"},
    {"rmaps_base_display_diffable_map", FLAG, "report-bindings"},
    {"rmaps_rank_file_path", IGNORED, ""},
    {"rmaps_dist_device", IGNORED, ""},
    {"orte_rankfile", IGNORED, ""},
    {"orte_tag_output", FLAG, "tag-output"},
    {"orte_timestamp_output", FLAG, "timestamp-output"},
    {"iof_base_redirect_app_stderr_to_stdout", FLAG, "merge-stderr-to-stdout"},
    {"orte_default_hostfile", VALUE, "default-hostfile"},
    {"prte_default_hostfile", VALUE, "default-hostfile"},
    {"orte_default_dash_host", VALUE, "host"},
    {"prte_default_dash_host", VALUE, "host"},
    {"orte_do_not_launch", FLAG, "do-not-launch"},
    {"orte_execute_quiet", FLAG, "quiet"},
    {"odls_base_sigkill_timeout", NUMBER, "grace"},
    {"mca_base_env_list", ENV_LIST, "x"},
    {"mca_base_env_list_delimiter", SETTING, ""},
    {"orte_xml_output", IGNORED, "0"},
    {"orte_xml_file", IGNORED, ""},
    {"orte_xterm", IGNORED, ""},
    {"orte_fork_agent", IGNORED, ""},
    {"orte_report_events", IGNORED, ""},
    {"orte_output_debugger_proctable", IGNORED, "0"},
    {"orte_display_alloc", IGNORED, "0"},
    {"orte_display_devel_alloc", IGNORED, "0"},
    {"ras_base_display_alloc", IGNORED, "0"},
    {"ras_base_display_devel_alloc", IGNORED, "0"},
    {"rmaps_base_display_topo_with_map", IGNORED, "0"},
    {"orte_enable_recovery", IGNORED, "0"},
    {"orte_max_restarts", IGNORED, "0"},
    {"orte_abort_on_non_zero_status", UNLESS, "keep-going"},
    {"orte_allocation_required", IGNORED, "0"},
    {"orte_set_default_slots", IGNORED, "cores"},
    {"orte_map_stddiag_to_stderr", IGNORED, "0"},
    {"orte_map_stddiag_to_stdout", IGNORED, "0"},
    {"iof_base_output_limit", IGNORED, "2147483647"},
    /* Variables of mpirun, hydra and Intel MPI's mpiexec themselves */
    {"MPIEXEC_TIMEOUT", NUMBER, "timeout"},
    {"I_MPI_JOB_TIMEOUT", NUMBER, "timeout"},
    {"HYDRA_HOST_FILE", VALUE, "hostfile"},
    {"I_MPI_HYDRA_HOST_FILE", VALUE, "hostfile"},
};

static const struct row *find_row(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* Returns the launcher's parameter that "OMPI_MCA_NAME=value" or its variable "NAME=value" sets, or
 * NULL if it sets none. */
static const struct row *row_of_variable(const char *entry)
{
    bool mca = strncmp(entry, "OMPI_MCA_", 9) == 0 || strncmp(entry, "PRTE_MCA_", 9) == 0;
    const char *at = mca ? entry + 9 : entry;
    AUTO(free) char *name = xstrndup(at, strcspn(at, "="));
    const struct row *row = find_row(name);
    return row && mca == !isupper((unsigned char)row->name[0]) ? row : NULL;
}

bool mca_params_is_launchers(const char *name)
{
    return find_row(name) != NULL;
}

/* ---- parameters that are set ---------------------------------------------------------------- */

static void clear(struct mca_param *m)
{
    free(m->name);
    free(m->value);
    free(m->source);
}

void mca_params_set(struct mca_params *p, const char *name, const char *value, const char *source)
{
    size_t kept = 0;
    if (!find_row(name))
        return;
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->at[i].name, name) == 0)
            clear(&p->at[i]);
        else
            p->at[kept++] = p->at[i];
    }
    p->at = xrealloc(p->at, kept + 1, sizeof *p->at);
    p->at[kept] =
        (struct mca_param){xstrdup(name), xstrdup(value), source ? xstrdup(source) : NULL};
    p->count = kept + 1;
}

void mca_params_free(struct mca_params *p)
{
    for (size_t i = 0; i < p->count; i++)
        clear(&p->at[i]);
    free(p->at);
    *p = (struct mca_params){0};
}

/* ---- sources -------------------------------------------------------------------------------- */

/* Removes blanks at both ends, and quotes around the text. */
static char *trim(char *text)
{
    text += strspn(text, " \t\r\n");
    size_t len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    if (len > 1 && strchr("\"'", *text) && text[len - 1] == *text) {
        text++;
        len -= 2;
    }
    text[len] = '\0';
    return text;
}

/* Reads a file with lines "name = value". Returns false if it cannot be read. */
static bool read_params(struct mca_params *p, const char *path)
{
    AUTO(free) char *text = file_text(path);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *equals = strchr(line, '=');
        if (!equals || line[strspn(line, " \t")] == '#')
            continue;
        *equals = '\0';
        mca_params_set(p, trim(line), trim(equals + 1), path);
    }
    return text != NULL;
}

/* Reads the system's parameter file of Open MPI or PRRTE. It is below OPAL_PREFIX, below the
 * directory of a program in PATH, or where Debian installs it. */
static void read_system_file(struct mca_params *p, char *const *env, const char *name)
{
    const char *prefix = env_get(env, "OPAL_PREFIX"), *path = env_get(env, "PATH");
    AUTO(strv) char **dirs = NULL;
    if (prefix)
        strv_push(&dirs, xasprintf("%s/etc", prefix));
    AUTO(free) char *list = xstrdup(path ? path : "");
    for (char *rest = list, *dir; (dir = strsep(&rest, ":"));) {
        size_t len = strlen(dir);
        if (*dir == '/' && len > 4 && strcmp(dir + len - 4, "/bin") == 0)
            strv_push(&dirs, xasprintf("%.*s/etc", (int)len - 4, dir));
    }
    strv_push(&dirs, xstrdup("/etc/openmpi"));
    for (size_t i = 0; dirs[i]; i++) {
        AUTO(free) char *file = xasprintf("%s/%s", dirs[i], name);
        if (read_params(p, file))
            return;
    }
}

static void read_files(struct mca_params *p, char *const *env)
{
    const char *home = env_get(env, "HOME");
    const char *named = env_get(env, "OMPI_MCA_mca_base_param_files");
    named = named ? named : env_get(env, "OMPI_MCA_mca_param_files");
    AUTO(strv) char **files = NULL;
    if (named) { /* the first file has the highest precedence */
        AUTO(free) char *list = xstrdup(named);
        for (char *rest = list, *one; (one = strsep(&rest, ",:"));)
            strv_push(&files, xstrdup(one));
    } else {
        read_system_file(p, env, "prte-mca-params.conf");
        read_system_file(p, env, "openmpi-mca-params.conf");
        strv_push(&files, xasprintf("%s/.openmpi/mca-params.conf", home ? home : ""));
        strv_push(&files, xasprintf("%s/.prte/mca-params.conf", home ? home : ""));
    }
    for (size_t i = strv_len(files); i > 0; i--)
        (void)read_params(p, files[i - 1]); /* the file may be missing */
}

void mca_params_read(struct mca_params *p, char *const *env)
{
    read_files(p, env);
    bool is_rank = env_get(env, "OMPI_COMM_WORLD_RANK") != NULL;
    for (size_t i = 0; env && env[i] && !is_rank; i++) {
        const struct row *row = row_of_variable(env[i]);
        if (row && strchr(env[i], '='))
            mca_params_set(p, row->name, strchr(env[i], '=') + 1, "environment");
    }
}

void mca_params_remove(char **env)
{
    size_t kept = 0;
    for (size_t i = 0; env && env[i]; i++) {
        if (row_of_variable(env[i]))
            free(env[i]);
        else
            env[kept++] = env[i];
    }
    if (env)
        env[kept] = NULL;
}

/* ---- meaning -------------------------------------------------------------------------------- */

static bool is_true(const char *value)
{
    static const char *const words[] = {"true", "t", "yes", "y", "enabled"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return atoi(value) != 0;
}

/* Compares two values. "1" and "true" are the same value; other texts must be equal. */
static bool is_same(const char *value, const char *usual)
{
    bool is_bool = strcmp(usual, "0") == 0 || strcmp(usual, "1") == 0;
    return is_bool ? is_true(value) == is_true(usual) : strcmp(value, usual) == 0;
}

/* Returns the options for a list of variables such as "A=1;B". A variable has a value, or is passed
 * on by its name. */
static char **variables(const struct mca_params *p, const char *value)
{
    const char *delimiter = ";";
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->at[i].name, "mca_base_env_list_delimiter") == 0 && *p->at[i].value)
            delimiter = p->at[i].value;
    char **words = NULL;
    AUTO(free) char *list = xstrdup(value);
    for (char *rest = list, *one; (one = strsep(&rest, delimiter));)
        if (*one)
            strv_push(&words, xasprintf("-x=%s", one));
    return words;
}

char **mca_params_options(const struct mca_params *p, size_t i, bool *ignored)
{
    const char *value = p->at[i].value;
    const struct row *row = find_row(p->at[i].name);
    char **words = NULL;
    *ignored = row->kind == IGNORED && !is_same(value, row->option);
    if (row->kind == ENV_LIST)
        return variables(p, value);
    if ((row->kind == FLAG && is_true(value)) || (row->kind == UNLESS && !is_true(value)))
        strv_push(&words, xasprintf("--%s", row->option));
    else if ((row->kind == VALUE && *value) || (row->kind == NUMBER && strcmp(value, "0") != 0))
        strv_push(&words, xasprintf("--%s=%s", row->option, value));
    return words;
}
