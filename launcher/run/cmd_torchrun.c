/* cmd_torchrun - `drover torchrun` and `drover ft_launcher`: torchrun's command line, and that of
 * NVIDIA's ft_launcher, which adds time limits. If the hosts are known, it starts the
 * ranks of all nodes. Otherwise the user runs one torchrun per node, and each starts the external
 * part of its node. --node-rank or the rendezvous then decides the node's number. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/opt.h"
#include "common/plural.h"
#include "launcher/engine/ft_bridge.h"
#include "launcher/jobs/commands.h"
#include "launcher/plan/allocation.h"
#include "launcher/run/cmd_run.h"
#include "launcher/run/ft_options.h"

enum {
    NOT_GIVEN = -1,
    PORT_STATIC = 29500,  /* torchrun's default of --master-port for several nodes */
    LAST_CALL_MS = 30000, /* torchrun's defaults of --rdzv-conf */
    JOIN_MS = 600000,
    NODES_MAX = 1 << 16
};

struct torchrun {
    struct run_options job;
    const char *nnodes, *nproc, *backend, *conf, *endpoint, *id, *role, *master_addr, *redirects;
    const char *tee, *filter;
    struct rdzv_client_opts rdzv;
    bool is_ft; /* ft_launcher */
    struct ft_options ft;
    const char *restart_policy;
    int node_rank, master_port;
    int nodes_min, nodes_max;
    char *endpoint_host; /* HOST of "HOST:PORT" */
    int endpoint_port;   /* NOT_GIVEN; 0: any */
    bool is_static;      /* --rdzv-backend static: no rendezvous */
    bool standalone, no_python, module, ignored_flag;
};

#define T struct torchrun
static const struct opt own_rows[] = {
    OPT_ABBREVIATIONS,
    OPT_GROUP("Where ranks run"),
    OPT_STR(0, "nproc-per-node", "N|gpu|cpu|auto", "ranks per node (default: 1)", T, nproc),
    OPT_STR(0, "nnodes", "N|MIN:MAX", "number of nodes (default: 1)", T, nnodes),
    OPT_STRV('H', "host", "LIST", "nodes, all started from here: a,b (only drover)", T,
             job.host_lists),
    OPT_STRV(0, "hostfile", "FILE", "file with one node per line (only drover)", T, job.host_files),
    OPT_FLAG(0, "standalone", "run on one node", T, standalone),
    OPT_FLAG(0, "dry-run", "print the plan and start nothing (only drover)", T, job.dry_run),
    OPT_FLAG(0, "json", "with --dry-run: print the plan as JSON", T, job.json),

    OPT_GROUP("One torchrun per node"),
    OPT_INT(0, "node-rank", "N", "number of this node", T, node_rank, 0, NODES_MAX - 1),
    OPT_STR(0, "master-addr", "ADDRESS", "address of the node with rank 0", T, master_addr),
    OPT_INT(0, "master-port", "PORT",
            "port of rank 0 (default: a free port for one node, else 29500)", T, master_port, 0,
            65535),
    OPT_STR(0, "port-range", "A-B", "where drover listens, and free ports (only drover)", T,
            job.port_range),
    OPT_STR(0, "rdzv-endpoint", "HOST[:PORT]",
            "address of the rendezvous, or of rank 0 if static (default port: 29400)", T, endpoint),
    OPT_STR(0, "rdzv-id", "ID", "name of the job at the rendezvous, TORCHELASTIC_RUN_ID", T, id),
    OPT_STR(0, "rdzv-backend", "c10d|static", "with or without a rendezvous (default: c10d)", T,
            backend),
    OPT_STR(0, "rdzv-conf", "KEY=VALUE,…",
            "join_timeout (default: 600), last_call_timeout (default: 30), is_host", T, conf),

    OPT_GROUP("Program"),
    OPT_FLAG('m', "module", "the script is a Python module", T, module),
    OPT_FLAG(0, "no-python", "the script is a program", T, no_python),
    OPT_STR(0, "role", "NAME", "ROLE_NAME of the ranks", T, role),

    OPT_GROUP("Output"),
    OPT_STR(0, "log-dir", "DIR", "directory of redirected output (default: new, in /tmp)", T,
            job.features.redirect.dir),
    OPT_STR('r', "redirects", "STREAMS",
            "write to files: 1 stdout, 2 stderr, 3 both, or per local rank: 0:1,1:3", T, redirects),
    OPT_STR('t', "tee", "STREAMS", "write to files and to the console", T, tee),
    OPT_STR(0, "local-ranks-filter", "LIST", "local ranks whose output is shown: 0,1", T, filter),
    OPT_STR(0, "baseline", "NAME", "compare the speed with NAME's, or store it (only drover)", T,
            job.features.baseline.name),
    OPT_FLAG(0, "baseline-update", "with --baseline: replace the stored one (only drover)", T,
             job.features.baseline.update),
    OPT_STR(0, "name", "NAME", "name of the run in drover runs (only drover)", T,
            job.features.run_log.name),
    OPT_STR(0, "notify", "URL|COMMAND", "tell it a failure, a hang and the end (only drover)", T,
            job.features.notify),
    OPT_FLAG(0, "no-record", "keep no log of the run for drover runs (only drover)", T,
             job.features.run_log.off),
    OPT_FLAG(0, "no-pty", "make the ranks' stdout a pipe, not a pty (only drover)", T,
             job.spec.node.no_pty),
    OPT_FLAG('v', "verbose", "also log what drover does", T, job.verbose),

    OPT_GROUP("Failures"),
    OPT_STR(0, "exclude-file", "FILE",
            "file with nodes that jobs leave out, and until when (only drover)", T,
            job.features.spares.exclude_file),
    OPT_DURATION(0, "exclude-for", "DURATION",
                 "how long bad nodes are in it (default: 1h; only drover)", T,
                 job.features.spares.exclude_for_s, 1, FEATURE_TIME_MAX_S),
    OPT_FLAG(0, "no-preflight", "do not check the GPUs of the nodes first (only drover)", T,
             job.features.preflight.off),
    OPT_INT(0, "max-restarts", "N", "restart a failed job up to N times (default: 0)", T,
            job.spec.max_restarts, 0, INT_MAX),
    OPT_FLAG(0, "restart-always", "restart also if the failure would come again (only drover)", T,
             job.spec.restart_always),
    OPT_DURATION(0, "grace||shutdown-timeout", "DURATION",
                 "time from SIGTERM to SIGKILL (default: 30; only drover)", T, job.grace_s, 0,
                 FEATURE_TIME_MAX_S),
    OPT_FLAG(0, "stragglers", "name ranks that are slower than the others (only drover)", T,
             job.features.stragglers),
    OPT_FLAG(0, "learn-timeouts", "learn other limits from earlier jobs (only drover)", T,
             job.features.sections.learn),
    OPT_END,
};

static const struct opt other_rows[] = {
    OPT_GROUP("Other"),
    OPT_WORDS(0,
              "monitor-interval|start-method|local-addr|logs-specs|"
              "event-log-handler|numa-binding|signals-to-handle|duplicate-stdout-filters|"
              "duplicate-stderr-filters",
              "X", NULL, T, job.legacy),
    OPT_FLAG(0, "run-path|virtual-local-rank", NULL, T, ignored_flag),
    OPT_END,
};

/* The further options of ft_launcher, as of nvidia-resiliency-ext 0.4.1. */
static const struct opt ft_rows[] = {
    OPT_GROUP("Time limits of RankMonitorClient (seconds; null: none)"),
    OPT_STR(0, "ft-cfg-path||fault-tol-cfg-path", "FILE", "YAML file with the key fault_tolerance",
            T, ft.config_path),
    OPT_STR(0, "ft-rank-section-timeouts||ft-param-rank-section-timeouts", "NAME:S,…",
            "longest times in sections", T, ft.value[FT_SECTION_TIMEOUTS]),
    OPT_STR(0, "ft-rank-out-of-section-timeout||ft-param-rank-out-of-section-timeout", "S",
            "longest time in no section (default: null)", T, ft.value[FT_OUT_OF_SECTION_TIMEOUT]),
    OPT_STR(0, "ft-rank-heartbeat-timeout||ft-param-rank-heartbeat-timeout", "S",
            "longest time between heartbeats (default: 2700)", T, ft.value[FT_HEARTBEAT_TIMEOUT]),
    OPT_STR(0, "ft-initial-rank-heartbeat-timeout||ft-param-initial-rank-heartbeat-timeout", "S",
            "longest time until the first heartbeat (default: 3600)", T,
            ft.value[FT_INITIAL_HEARTBEAT_TIMEOUT]),
    OPT_STR(0, "ft-safety-factor||ft-param-safety-factor", "X",
            "a limit that a client learns is the longest time multiplied by X (default: 5)", T,
            ft.value[FT_SAFETY_FACTOR]),
    OPT_STR(0, "ft-workload-check-interval||ft-param-workload-check-interval", "S", NULL, T,
            ft.value[FT_WORKLOAD_CHECK_INTERVAL]),
    OPT_STR(0, "ft-restart-policy||restart-policy", "any-failed|min-healthy", NULL, T,
            restart_policy),
    OPT_DURATION(0, "workers-stop-timeout", "S", NULL, T, job.grace_s, 0, FEATURE_TIME_MAX_S),
    /* Ignored, without effect */
    OPT_WORDS(0,
              "term-timeout|ft-node-health-check-interval|ft-param-node-health-check-interval|"
              "ft-rank-termination-signal|ft-param-rank-termination-signal|"
              "ft-log-level|ft-param-log-level|"
              "ft-restart-check-interval|ft-param-restart-check-interval|"
              "ft-enable-nic-monitor|ft-param-enable-nic-monitor|"
              "ft-pci-topo-file|ft-param-pci-topo-file|"
              "ft-link-down-path-template|ft-param-link-down-path-template",
              "X", NULL, T, job.legacy),
    OPT_FLAG(0, "ignore-missing-fault-tol-cfg", NULL, T, ignored_flag),
    OPT_END,
};
#undef T

static const struct opt options[] = {OPT_PART(own_rows, 0), OPT_PART(other_rows, 0), OPT_END};
static const struct opt ft_options[] = {OPT_PART(own_rows, 0), OPT_PART(ft_rows, 0),
                                        OPT_PART(other_rows, 0), OPT_END};

/* ---- values --------------------------------------------------------------------------------- */

/* Puts options from PET_* variables before the options of the command line, which win. torchrun
 * reads each option from a variable PET_NAME, too (torch.distributed.argparse_util); kubeflow's
 * operators set such variables. */
static char **add_env_options(int argc, char **argv, bool is_ft)
{
    static const char *const names[] = {
        "ft-cfg-path", /* only ft_launcher has it */
        "nnodes",       "nproc-per-node", "node-rank", "master-addr", "master-port",
        "rdzv-backend", "rdzv-endpoint",  "rdzv-id",   "rdzv-conf",   "shutdown-timeout",
        "max-restarts", "log-dir",        "redirects", "tee",         "monitor-interval",
        "role",         "standalone",     "module",    "no-python" /* these have no value */
    };
    char **words = NULL;
    strv_push(&words, xstrdup(argv[0]));
    for (size_t i = is_ft ? 0 : 1; i < COUNT_OF(names); i++) {
        AUTO(free) char *name = xasprintf("PET_%s", names[i]);
        for (char *c = name; *c; c++)
            *c = (char)(*c == '-' ? '_' : toupper((unsigned char)*c));
        const char *value = getenv(name);
        if (value && *value && i < COUNT_OF(names) - 3)
            strv_push(&words, xasprintf("--%s=%s", names[i], value));
        else if (value && *value && strcmp(value, "0") != 0)
            strv_push(&words, xasprintf("--%s", names[i]));
    }
    for (int i = 1; i < argc; i++)
        strv_push(&words, xstrdup(argv[i]));
    return words;
}

static int read_nodes(struct torchrun *t, struct err *e)
{
    const char *text = t->nnodes && !t->standalone ? t->nnodes : "1";
    const char *colon = strchr(text, ':');
    AUTO(free) char *min = xstrndup(text, strcspn(text, ":"));
    if (opt_int(&t->nodes_min, "--nnodes", min, 1, NODES_MAX, e) < 0 ||
        opt_int(&t->nodes_max, "--nnodes", colon ? colon + 1 : text, 1, NODES_MAX, e) < 0)
        return -EINVAL;
    if (t->nodes_min > t->nodes_max)
        return err_set(e, -EINVAL, "--nnodes %s: minimum exceeds maximum", text);
    return 0;
}

static int read_ranks(struct torchrun *t, struct err *e)
{
    const char *text = t->nproc ? t->nproc : "1"; /* torchrun's own default */
    int rc = run_options_per_node(&t->job, text, e);
    return rc < 0 ? err_wrap(e, "--nproc-per-node") : 0;
}

/* Reads --rdzv-endpoint: "host:29400", "host" or "[fe80::1]:29400". */
static int read_endpoint(struct torchrun *t, struct err *e)
{
    const char *text = t->endpoint ? t->endpoint : "";
    size_t open = *text == '[', len = open ? strcspn(text, "]") : strcspn(text, ":");
    const char *end = text + len + (open && text[len]);
    t->endpoint_port = NOT_GIVEN;
    if (len > open)
        t->endpoint_host = xstrndup(text + open, len - open);
    if (*end && *end != ':')
        return err_set(e, -EINVAL, "--rdzv-endpoint '%s': not HOST:PORT", text);
    return *end ? opt_int(&t->endpoint_port, "--rdzv-endpoint", end + 1, 0, 65535, e) : 0;
}

static int read_backend(struct torchrun *t, struct err *e)
{
    const char *name = t->backend ? t->backend : "c10d";
    t->is_static = strcmp(name, "static") == 0;
    if (t->is_static || strcmp(name, "c10d") == 0)
        return 0;
    err_set(e, -EINVAL, "--rdzv-backend '%s' is not supported", name);
    return err_hint(e, "--rdzv-backend c10d --rdzv-endpoint NODE:PORT");
}

static int read_conf_pair(struct torchrun *t, const char *key, const char *value, struct err *e)
{
    int seconds = 0;
    if (!value)
        return err_set(e, -EINVAL, "not KEY=VALUE");
    bool join = strcmp(key, "join_timeout") == 0 || strcmp(key, "timeout") == 0;
    if (strcmp(key, "is_host") == 0)
        t->rdzv.is_host = *value && strchr("1tTyY", *value);
    else if (join || strcmp(key, "last_call_timeout") == 0) {
        if (opt_int(&seconds, "seconds", value, 0, 1 << 20, e) < 0)
            return -EINVAL;
        *(join ? &t->rdzv.join_ms : &t->rdzv.last_call_ms) = (int64_t)seconds * 1000;
    }
    return 0;
}

/* Reads --rdzv-conf, such as "join_timeout=600,last_call_timeout=30,is_host=1". Other keys of
 * torchrun have no effect. */
static int read_conf(struct torchrun *t, struct err *e)
{
    t->rdzv.last_call_ms = LAST_CALL_MS;
    t->rdzv.join_ms = JOIN_MS;
    t->rdzv.is_host = NOT_GIVEN;
    AUTO(free) char *all = xstrdup(t->conf ? t->conf : "");
    for (char *rest = all, *value; (value = strsep(&rest, ","));) {
        const char *key = strsep(&value, "=");
        if ((value || *key || rest) && read_conf_pair(t, key, value, e) < 0)
            return err_wrap(e, "--rdzv-conf '%s%s%s'", key, value ? "=" : "", value ? value : "");
    }
    return 0;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Returns the number of this node, from --node-rank or from a Slurm step with one task per node.
 * Returns -1 if the number is unknown. */
static int node_rank(const struct torchrun *t, bool *step_of_all)
{
    const char *nodes = getenv("SLURM_STEP_NUM_NODES"), *tasks = getenv("SLURM_STEP_NUM_TASKS");
    const char *node = getenv("SLURM_NODEID");
    *step_of_all =
        nodes && tasks && node && strcmp(nodes, tasks) == 0 && atoi(nodes) == t->nodes_max;
    return t->node_rank >= 0 || !*step_of_all ? t->node_rank : atoi(node);
}

static int use_external_part(struct torchrun *t, int node, struct err *e)
{
    struct launch_spec *s = &t->job.spec;
    const char *addr = t->master_addr ? t->master_addr : t->endpoint_host;
    if (t->nodes_min != t->nodes_max) {
        err_set(e, -EINVAL, "--nnodes %s: --node-rank needs a fixed number of nodes", t->nnodes);
        return err_hint(e, "--nnodes %d, or all nodes from one command with --hostfile FILE",
                        t->nodes_max);
    }
    if (node >= t->nodes_max)
        return err_set(e, -EINVAL, "--node-rank %d: out of range (0 to %d)", node,
                       t->nodes_max - 1);
    if (!addr) {
        err_set(e, -EINVAL, "%d node%s, but the address of rank 0 is missing", t->nodes_max,
                plural_s(t->nodes_max));
        return err_hint(e, "--master-addr HOST, or --rdzv-endpoint HOST:PORT");
    }
    if (t->job.per_node == 0) {
        err_set(e, -EINVAL, "--nproc-per-node %s: the other nodes need a number", t->nproc);
        return err_hint(e, "a number, the same on every node");
    }
    s->external_part =
        (struct launch_external_part){.nodes = t->nodes_max, .node = node, .master_addr = addr};
    s->node.no_pmix = true;
    s->engine = PLAN_ENGINE_LOCAL;
    s->node.master_port = t->endpoint_port > 0 ? t->endpoint_port : PORT_STATIC;
    return 0;
}

/* Lets this process start the ranks of all nodes. The job runs on the first nodes of the host list
 * that are healthy. */
static int use_hosts(struct torchrun *t, struct err *e)
{
    struct hosts *h = t->job.hosts;
    if (!h || h->count < t->nodes_min) {
        int have = h ? h->count : 1;
        err_set(e, -EINVAL, "--nnodes %s, but %d node%s known", t->nnodes, have,
                have == 1 ? " is" : "s are");
        return err_hint(e, "--node-rank and --master-addr on each node, or once with --hostfile");
    }
    run_options_choose_hosts(&t->job, t->nodes_min, t->nodes_max);
    return 0;
}

/* Returns the number of nodes in the allocation, or 0 if there is no allocation. Errors in the
 * allocation are reported when it is used. */
static int nodes_allocated(void)
{
    AUTO(hosts) struct hosts *h = NULL;
    return allocation_find(&h, environ, NULL) > 0 ? h->count : 0;
}

/* Lets the nodes join a rendezvous, which assigns the ranks of each node. */
static void use_rendezvous(struct torchrun *t)
{
    struct launch_spec *s = &t->job.spec;
    t->rdzv.host = t->endpoint_host;
    t->rdzv.port = t->endpoint_port == NOT_GIVEN ? RDZV_CLIENT_DEFAULT_PORT : t->endpoint_port;
    t->rdzv.id = t->id ? t->id : "none"; /* torchrun's own default */
    t->rdzv.nodes_min = t->nodes_min;
    t->rdzv.nodes_max = t->nodes_max;
    t->job.rdzv = &t->rdzv;
    s->node.no_pmix = true;
    s->engine = PLAN_ENGINE_LOCAL;
}

static int choose_nodes(struct torchrun *t, struct err *e)
{
    bool step = false;
    int node = t->nodes_max > 1 ? node_rank(t, &step) : 0;
    bool hosts_given = t->job.host_lists || t->job.host_files;
    /* torchrun, too, reads --node-rank only with the static backend. */
    bool rendezvous = t->endpoint_host && !t->is_static && (t->node_rank < 0 || t->backend);
    if (hosts_given)
        return 0;
    bool allocated = t->nodes_max > 1 && !step && nodes_allocated() >= t->nodes_min;
    if (rendezvous && t->nodes_max > 1 && !allocated)
        use_rendezvous(t);
    else if (node >= 0 && t->nodes_max > 1)
        return use_external_part(t, node, e);
    else if (t->nodes_min == 1 && !allocated)
        t->nodes_max = 1; /* there is no address at which other nodes could join */
    if (t->nodes_max == 1)
        t->job.spec.engine = PLAN_ENGINE_LOCAL;
    return 0;
}

/* ---- the job -------------------------------------------------------------------------------- */

/* Sets the program of the job. Drops a "--" directly after the script or module, as torchrun does.
 * `ended` is true if a "--" has ended the options before the script. */
static int set_program(struct torchrun *t, int argc, char **words, bool ended, struct err *e)
{
    char ***argv = &t->job.argv;
    const char *python = getenv("PYTHON_EXEC");
    if (argc == 0) {
        err_set(e, -EINVAL, "the script is missing");
        return err_hint(e, "%s --nproc-per-node 2 train.py", t->job.program);
    }
    if (t->module && t->no_python)
        return err_set(e, -EINVAL, "--module and --no-python exclude each other");
    if (!t->no_python) {
        strv_push(argv, xstrdup(python && *python ? python : "python3"));
        strv_push(argv, xstrdup("-u"));
        if (t->module)
            strv_push(argv, xstrdup("-m"));
    }
    for (int i = 0; i < argc; i++)
        if (i != 1 || ended || strcmp(words[i], "--") != 0)
            strv_push(argv, xstrdup(words[i]));
    return 0;
}

static int set_output(struct torchrun *t, struct err *e)
{
    struct run_options *o = &t->job;
    if (t->redirects &&
        feature_redirect_parse(&o->features.redirect.redirects, t->redirects, e) < 0)
        return err_wrap(e, "--redirects");
    if (t->tee && feature_redirect_parse(&o->features.redirect.tee, t->tee, e) < 0)
        return err_wrap(e, "--tee");
    o->features.redirect.run_id = t->id;
    o->style.role = t->role;
    o->style.tag = t->tee ? CONSOLE_TAG_TORCH : CONSOLE_TAG_NONE;
    if (!t->filter)
        return 0;
    AUTO(bitmap) hwloc_bitmap_t local = hwloc_bitmap_alloc();
    if (cpu_list_parse(local, t->filter, e) < 0)
        return err_wrap(e, "--local-ranks-filter");
    o->show = hwloc_bitmap_alloc();
    unsigned i;
    hwloc_bitmap_foreach_begin (i, local) {
        for (int n = 0; n < (o->per_node > 0 ? t->nodes_max : 1); n++)
            hwloc_bitmap_set(o->show, i + (unsigned)(n * o->per_node));
    }
    hwloc_bitmap_foreach_end();
    return 0;
}

/* Sets what ft_launcher adds: time limits, and sockets for the ranks' clients. */
static int use_ft(struct torchrun *t, struct err *e)
{
    struct run_options *o = &t->job;
    const char *policy = t->restart_policy ? t->restart_policy : "any-failed";
    if (strcmp(policy, "any-failed") != 0 && strcmp(policy, "min-healthy") != 0) {
        err_set(e, -EINVAL, "--ft-restart-policy '%s' is unknown", policy);
        return err_hint(e, "any-failed");
    }
    if (strcmp(policy, "min-healthy") == 0)
        strv_push(&o->warnings,
                  xstrdup("--ft-restart-policy min-healthy: drover restarts the job if "
                          "any rank fails, as any-failed does"));
    AUTO(strbuf) struct strbuf learnt = {0};
    struct feature_settings *set = &o->features;
    t->ft.learn_argv = set->sections.learn ? o->argv : NULL;
    t->ft.learn_wdir = o->spec.wdir;
    int rc =
        ft_options_read(&o->ft_config, &set->sections.limits, &t->ft, &o->warnings, &learnt, e);
    if (learnt.len)
        set->sections.learnt = strbuf_take(&learnt);
    o->spec.node.ft_config = o->ft_config;
    set->sections.from_connect = true;
    return rc;
}

static int parse(struct torchrun *t, int argc, char **words, struct err *e)
{
    struct launch_spec *s = &t->job.spec;
    int rest = argc;
    int rc = opt_parse(t->is_ft ? ft_options : options, t, argc, words, &rest, e);
    if (rc != 0)
        return rc;
    if (read_nodes(t, e) < 0 || read_ranks(t, e) < 0 || read_endpoint(t, e) < 0 ||
        read_backend(t, e) < 0 || read_conf(t, e) < 0 || choose_nodes(t, e) < 0 ||
        set_program(t, argc - rest, words + rest, strcmp(words[rest - 1], "--") == 0, e) < 0 ||
        set_output(t, e) < 0)
        return -EINVAL;
    if (t->master_port)
        s->node.master_port = t->master_port;
    s->oversubscribe = true; /* torchrun starts any number of ranks */
    if (t->role)
        strv_push(&t->job.env, xasprintf("ROLE_NAME=%s", t->role));
    if (t->id)
        strv_push(&t->job.env, xasprintf("TORCHELASTIC_RUN_ID=%s", t->id));
    strv_free(TAKE(t->job.legacy)); /* accepted, without effect */
    if (t->is_ft && (rc = use_ft(t, e)) < 0)
        return rc;
    rc = run_options_resolve(&t->job, e);
    if (rc == 0 && t->nodes_max > 1 && s->external_part.nodes == 0 && !t->job.rdzv)
        rc = use_hosts(t, e);
    return rc == 0 && t->is_ft && !t->job.dry_run ? ft_bridge_check(e) : rc;
}

static void print_help(const char *program, bool is_ft)
{
    const struct opt_help help = {
        .program = program,
        .usage = "[options] SCRIPT [arguments]",
        .summary = "Starts a Python script as torchrun does: the ranks of this node, those of all "
                   "nodes of --hostfile, --host or an allocation, or, with one torchrun per node, "
                   "this node's part of the job.",
        .examples = "drover torchrun --nproc-per-node 4 train.py\n"
                    "drover torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint c01 train.py",
    };
    opt_print_help(stdout, &help, is_ft ? ft_options : options);
}

int cmd_torchrun(int argc, char **argv)
{
    bool is_ft = strcmp(argv[0], "ft_launcher") == 0;
    struct torchrun t = {.node_rank = NOT_GIVEN, .is_ft = is_ft};
    struct err e = {0};
    run_options_init(&t.job, log_program());
    AUTO(strv) char **words = add_env_options(argc, argv, is_ft);
    int rc = parse(&t, (int)strv_len(words), words, &e);
    if (rc == OPT_HELP)
        print_help(t.job.program, is_ft);
    int status = cmd_run_job(&t.job, rc, &e);
    run_options_free(&t.job);
    free(t.endpoint_host);
    return status;
}
