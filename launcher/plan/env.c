#include "launcher/plan/env.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/fnv_hash.h"
#include "common/strbuf.h"

/* Variables for an unmodified MPI program whose PMIx server is drover's. Without OMPI_MCA_schizo,
 * Open MPI 4.1 silently runs as N jobs of one rank each, outside and inside of a Slurm allocation
 * (two of its components decide so). Open MPI 5 has no ORTE and ignores variables that it does not
 * know. OMPI_MCA_ess=pmi is not in this list: an mpirun inside a rank would inherit it and fail.
 *
 * A job on one node starts faster if it does not probe the transports between nodes. In a job over
 * several nodes, they are chosen when the networks of all nodes are known (engine/mpi_transport.h).
 */
static const struct {
    const char *name, *value;
    bool one_node; /* not for a job over several nodes */
} mpi_env[] = {
    {"OMPI_MCA_schizo", "^orte,slurm", false},
    {ENV_MPI_LAYER, ENV_MPI_LAYER_VALUE, true},
    {ENV_MPI_TRANSPORTS, ENV_MPI_SHARED_MEMORY, true},
    {"OMPI_MCA_btl_vader_single_copy_mechanism", "none", true},
    {"MPIR_CVAR_PMI_VERSION", "1", false}, /* MPICH 5 fails if it finds both PMI_SIZE and PMIX_* */
    {ENV_HWLOC_BLACKLIST, ENV_HWLOC_BLACKLIST_VALUE, false},
};

/* Compares the first letter without a call, since most names differ there. */
static bool is_name(const char *entry, const char *name, size_t len)
{
    return *entry == *name && strncmp(entry, name, len) == 0 && entry[len] == '=';
}

static size_t len_of_name(const char *entry)
{
    return (size_t)(strchrnul(entry, '=') - entry);
}

const char *env_get(char *const *env, const char *name)
{
    size_t len = strlen(name);
    const char *value = NULL;
    for (size_t i = 0; env && env[i]; i++)
        if (is_name(env[i], name, len))
            value = env[i] + len + 1;
    return value;
}

/* Adds or replaces "NAME=value"; takes ownership of `entry`. */
static void put_entry(char ***env, char *entry)
{
    size_t len = len_of_name(entry);
    for (size_t i = 0; *env && (*env)[i]; i++) {
        if (!is_name((*env)[i], entry, len))
            continue;
        free((*env)[i]);
        (*env)[i] = entry;
        return;
    }
    strv_push(env, entry);
}

void env_set(char ***env, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    AUTO(free) char *value = xvasprintf(fmt, ap);
    va_end(ap);
    put_entry(env, xasprintf("%s=%s", name, value));
}

static bool starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Returns true if an outer drover has set the variable, and the user has not changed it since. */
static bool is_from_outer_drover(char *const *base, const char *name)
{
    const char *set = NULL;
    for (size_t i = 0; i < COUNT_OF(mpi_env) && !set; i++)
        set = strcmp(mpi_env[i].name, name) == 0 ? mpi_env[i].value : NULL;
    if (set && !env_get(base, "DROVER_JOB_ID"))
        set = NULL;
    if (strcmp(name, "OMP_NUM_THREADS") == 0)
        set = env_get(base, "DROVER_RANK_CORES");
    const char *value = set ? env_get(base, name) : NULL;
    bool with_tcp = value && strcmp(name, ENV_MPI_TRANSPORTS) == 0 &&
                    strcmp(value, ENV_MPI_SHARED_MEMORY_AND_TCP) == 0;
    return with_tcp || (value && strcmp(value, set) == 0);
}

bool env_is_from_launcher(char *const *base, const char *name)
{
    /* Observed in ranks of Open MPI 4.1.4 (orterun), MPICH 4.0.2 (hydra), Slurm 22.05 (srun's
     * manual, "OUTPUT ENVIRONMENT VARIABLES") and torchrun (local_elastic_agent.py). From their
     * manuals: PALS and ALPS (aprun), JSM (jsrun), Flux, MVAPICH, HPE MPI, Horovod. */
    static const char *const prefixes[] = {
        "PMIX_",           "PMI_",          "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess",
        "OMPI_MCA_pmix",   "PRTE_LAUNCHED", "MPI_LOCAL",        "HYDI_",          "SLURM_STEP",
        "SLURM_LAUNCH_",   "SLURM_SRUN_",   "SLURM_CPU_BIND",   "SLURM_MEM_BIND", "SLURM_PMI",
        "DROVER_RANK_",    "PALS_LOCAL_",   "JSM_NAMESPACE_",   "FLUX_TASK_",     "MV2_COMM_WORLD_",
        "MVP_COMM_WORLD_",
    };
    static const char *const names[] = {
        "OMPI_APP_CTX_NUM_PROCS",
        "OMPI_ARGV",
        "OMPI_COMMAND",
        "OMPI_FILE_LOCATION",
        "OMPI_FIRST_RANKS",
        "OMPI_NUM_APP_CTX",
        "OMPI_UNIVERSE_SIZE",
        "OMPI_MCA_initial_wdir",
        "OMPI_MCA_mpi_oversubscribe",
        "OMPI_MCA_rmaps_base_oversubscribe",
        "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_TASK_PID",
        "SLURM_GTIDS",
        "SLURM_DISTRIBUTION",
        "SLURM_MPI_TYPE",
        "PALS_RANKID",
        "PALS_NODEID",
        "PALS_SIZE",
        "PALS_NRANKS",
        "ALPS_APP_PE",
        "FLUX_JOB_SIZE",
        "FLUX_JOB_NNODES",
        "MPT_LRANK",
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
        "HOROVOD_LOCAL_RANK",
        "HOROVOD_LOCAL_SIZE",
        "HOROVOD_CROSS_RANK",
        "HOROVOD_CROSS_SIZE",
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "NODE_RANK",
        "ROLE_RANK",
        "ROLE_NAME",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_WORLD_SIZE",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_MAX_RESTARTS",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_USE_AGENT_STORE",
        "TORCHELASTIC_ERROR_FILE",
        "DROVER_JOB_ID",
        "DROVER_RESTART_COUNT",
        "DROVER_REPORT_FD",
    };
    if (starts(name, "PMIX_MCA_"))
        return false;
    for (size_t i = 0; i < COUNT_OF(prefixes); i++)
        if (*name == *prefixes[i] && starts(name, prefixes[i]))
            return true;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (*name == *names[i] && strcmp(name, names[i]) == 0)
            return true;
    return is_from_outer_drover(base, name);
}

const char *env_user_value(char *const *base, char *const *user, const char *name)
{
    size_t len = strlen(name);
    const char *value = NULL;
    for (size_t i = 0; user && user[i]; i++) {
        if (is_name(user[i], name, len))
            value = user[i] + len + 1;
        else if (strcmp(user[i], name) == 0 && env_get(base, name))
            value = env_get(base, name);
    }
    if (value || env_is_from_launcher(base, name))
        return value;
    return env_get(base, name);
}

/* ---- merging -------------------------------------------------------------------------------- */

struct entry {
    const char *text;
    size_t name_len;
    size_t order; /* the entry with the highest order wins */
};

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    size_t len = x->name_len < y->name_len ? x->name_len : y->name_len;
    int c = memcmp(x->text, y->text, len);
    if (c)
        return c;
    if (x->name_len != y->name_len)
        return x->name_len < y->name_len ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static bool is_inherited(char *const *base, const char *text)
{
    char name[64]; /* longer than any launcher's variable */
    size_t len = len_of_name(text);
    if (len >= sizeof name)
        return true;
    memcpy(name, text, len);
    name[len] = '\0';
    return !env_is_from_launcher(base, name);
}

char **env_merge(char *const *base, char *const *job, char *const *rank)
{
    char *const *const layers[] = {base, job, rank};
    size_t total = strv_len(base) + strv_len(job) + strv_len(rank), n = 0;
    AUTO(free) struct entry *entries = xcalloc(total, sizeof *entries);
    for (size_t l = 0; l < COUNT_OF(layers); l++)
        for (size_t i = 0; layers[l] && layers[l][i]; i++) {
            const char *text = layers[l][i];
            size_t len = len_of_name(text);
            if (len > 0 && text[len] == '=' && (l > 0 || is_inherited(base, text))) {
                entries[n] = (struct entry){text, len, n};
                n++;
            }
        }
    if (n > 0)
        qsort(entries, n, sizeof *entries, by_name);
    char **out = xcalloc(n + 1, sizeof *out);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        bool last = i + 1 == n || entries[i].name_len != entries[i + 1].name_len ||
                    memcmp(entries[i].text, entries[i + 1].text, entries[i].name_len) != 0;
        if (last)
            out[kept++] = xstrdup(entries[i].text);
    }
    return out;
}

char **env_overlay(char *const *common, char *const *own)
{
    size_t n = strv_len(own);
    char **out = xcalloc(n + strv_len(common) + 1, sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = own[i];
    for (; common && *common; common++) {
        size_t len = len_of_name(*common), i = 0;
        while (own && own[i] && !is_name(own[i], *common, len))
            i++;
        if (!own || !own[i])
            out[n++] = *common;
    }
    return out;
}

/* ---- variables of a job and of a rank ------------------------------------------------------- */

/* Adds the variables of the user's -x, each with its value. */
static void put_user_env(char ***env, char *const *user, char *const *base)
{
    for (size_t i = 0; user && user[i]; i++) {
        const char *value = strchr(user[i], '=') ? NULL : env_get(base, user[i]);
        if (value)
            put_entry(env, xasprintf("%s=%s", user[i], value));
        else if (strchr(user[i], '='))
            put_entry(env, xstrdup(user[i]));
    }
}

void env_set_hnp_uri(char ***env, const char *address, const char *job_id)
{
    /* Like Open MPI's job number, this one has 32 bits, of which the lower 12 are 0. */
    uint32_t number = (uint32_t)(fnv_hash_text(FNV_HASH_INIT, job_id) % 0xfffff + 1) << 12;
    bool ipv6 = strchr(address, ':') != NULL;
    env_set(env, "OMPI_MCA_orte_hnp_uri", ipv6 ? "%u.0;tcp6://[%s]:9" : "%u.0;tcp://%s:9", number,
            address);
}

/* Returns true if the ranks get the variables that srun sets per task, since scripts that run in an
 * allocation read them. A node of torchrun's rendezvous does not know them. */
static bool has_slurm_tasks(const struct launch_spec *s, char *const *base)
{
    return env_get(base, "SLURM_JOB_ID") && s->external_part.nodes == 0;
}

/* Returns the ranks of each node as Slurm writes them: "2(x3),1". The caller frees it. */
static char *tasks_per_node(const struct plan *p)
{
    struct strbuf b = {0};
    for (int i = 0, times; i < p->node_count; i += times) {
        int ranks = p->nodes[i].local_size;
        for (times = 1; i + times < p->node_count && p->nodes[i + times].local_size == ranks;)
            times++;
        strbuf_printf(&b, times > 1 ? "%s%d(x%d)" : "%s%d", i > 0 ? "," : "", ranks, times);
    }
    return strbuf_take(&b);
}

char **env_job(const struct plan *p, const struct launch_spec *s, char *const *base)
{
    char **env = xcalloc(1, sizeof *env);
    const struct launch_external_part *part = &s->external_part;
    int world = plan_world_size(p, s);
    env_set(&env, "DROVER_JOB_ID", "%s", p->job_id);
    /* torchrun's variables, with one role for all ("Environment Variables" of
     * torch.distributed.run). */
    env_set(&env, "WORLD_SIZE", "%d", world);
    env_set(&env, "GROUP_WORLD_SIZE", "%d", part->nodes > 0 ? part->nodes : p->node_count);
    env_set(&env, "ROLE_WORLD_SIZE", "%d", world);
    env_set(&env, "ROLE_NAME", "default");
    if (p->master_addr)
        env_set(&env, "MASTER_ADDR", "%s", p->master_addr);
    env_set(&env, "TORCHELASTIC_RESTART_COUNT", "%d", s->restart_count);
    env_set(&env, "TORCHELASTIC_MAX_RESTARTS", "%d", s->max_restarts);
    env_set(&env, "DROVER_RESTART_COUNT", "%d", s->restart_count);
    env_set(&env, "TORCHELASTIC_RUN_ID", "%s", p->job_id);
    if (s->nccl_ras_port > 0 && !env_user_value(base, s->env, "NCCL_RAS_ADDR"))
        env_set(&env, "NCCL_RAS_ADDR", "localhost:%d", s->nccl_ras_port);
    if (!s->node.no_pmix) {
        env_set(&env, "OMPI_COMM_WORLD_SIZE", "%d", p->world_size);
        if (p->master_addr)
            env_set_hnp_uri(&env, p->master_addr, p->job_id);
        for (size_t i = 0; i < COUNT_OF(mpi_env); i++)
            if ((p->node_count == 1 || !mpi_env[i].one_node) &&
                !env_user_value(base, s->env, mpi_env[i].name))
                env_set(&env, mpi_env[i].name, "%s", mpi_env[i].value);
    }
    if (has_slurm_tasks(s, base)) {
        env_set(&env, "SLURM_NTASKS", "%d", p->world_size);
        env_set(&env, "SLURM_NPROCS", "%d", p->world_size); /* an older name */
        AUTO(free) char *tasks = tasks_per_node(p);
        env_set(&env, "SLURM_TASKS_PER_NODE", "%s", tasks);
        env_set(&env, "SLURM_NNODES", "%d", p->node_count);
    }
    put_user_env(&env, s->env, base);
    return env;
}

char **env_rank(const struct plan *p, const struct plan_rank *r, const struct launch_spec *s,
                char *const *base, bool oversubscribed)
{
    int local_size = p->nodes[r->node].local_size, rank = p->first_rank + r->rank;
    int node = s->external_part.nodes > 0 ? s->external_part.node : r->node;
    char **env = xcalloc(1, sizeof *env);
    env_set(&env, "RANK", "%d", rank);
    env_set(&env, "LOCAL_RANK", "%d", r->local_rank);
    env_set(&env, "LOCAL_WORLD_SIZE", "%d", local_size);
    env_set(&env, "GROUP_RANK", "%d", node);
    env_set(&env, "NODE_RANK", "%d", node); /* not a variable of torchrun, but scripts read it */
    env_set(&env, "ROLE_RANK", "%d", rank);
    if (has_slurm_tasks(s, base)) {
        env_set(&env, "SLURM_PROCID", "%d", r->rank);
        env_set(&env, "SLURM_LOCALID", "%d", r->local_rank);
        env_set(&env, "SLURM_NODEID", "%d", r->node);
    }
    if (!s->node.no_pmix) {
        env_set(&env, "OMPI_COMM_WORLD_RANK", "%d", r->rank);
        env_set(&env, "OMPI_COMM_WORLD_LOCAL_RANK", "%d", r->local_rank);
        env_set(&env, "OMPI_COMM_WORLD_LOCAL_SIZE", "%d", local_size);
        env_set(&env, "MPI_LOCALRANKID", "%d", r->local_rank); /* as hydra and Intel MPI */
        env_set(&env, "MPI_LOCALNRANKS", "%d", local_size);
        /* mpirun also sets this variable. Waiting ranks then yield the CPU, unless the user has set
         * mpi_yield_when_idle. */
        if (oversubscribed && !env_user_value(base, s->env, "OMPI_MCA_mpi_oversubscribe"))
            env_set(&env, "OMPI_MCA_mpi_oversubscribe", "1");
    }
    if (!env_user_value(base, s->env, "OMP_NUM_THREADS")) {
        env_set(&env, "OMP_NUM_THREADS", "%d", r->cores);
        /* This lets a job inside this one see that drover, not the user, has set
         * OMP_NUM_THREADS. */
        env_set(&env, "DROVER_RANK_CORES", "%d", r->cores);
    }
    if (r->cpus)
        env_set(&env, "DROVER_RANK_CPUS", "%s", r->cpus);
    if (r->gpu >= 0)
        env_set(&env, "DROVER_RANK_GPU", "%d", r->gpu);
    return env;
}
