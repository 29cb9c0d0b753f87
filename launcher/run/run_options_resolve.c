#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/exclude_file.h"
#include "launcher/plan/hostfile.h"
#include "launcher/remote/remote_launcher.h"
#include "launcher/run/run_options_internal.h"

static int unsupported(const char *option, struct err *e)
{
    static const struct {
        const char *names, *instead;
    } known[] = {
        {"xterm|debug|debugger|tv|gtool",
         "start the debugger as the program: gdb -ex run --args …"},
        {"genvnone|envnone|genvexcl|envexcl", "env -i NAME=VALUE … before the whole command"},
        {"gpus-per-proc", "--gpus LIST, and CUDA_VISIBLE_DEVICES in the program"},
        {"membind", "--bind-to numa: memory is bound as the CPUs are"},
        {"with-ft", "--max-restarts N, which restarts the job"},
        {"m|module", "python3 -m MODULE as the program, or: drover torchrun -m MODULE"},
    };
    const char *name = option + strspn(option, "-");
    size_t len = strlen(name);
    err_set(e, -EINVAL, "option '%s' is not supported", option);
    for (size_t i = 0; i < COUNT_OF(known); i++)
        for (const char *at = known[i].names; *at; at += *at == '|') {
            size_t n = strcspn(at, "|");
            if (n == len && memcmp(at, name, len) == 0)
                return err_hint(e, "%s", known[i].instead);
            at += n;
        }
    return e ? e->code : -EINVAL;
}

static int check(struct run_options *o, struct err *e)
{
    if (o->json && !o->dry_run)
        return err_set(e, -EINVAL, "--json needs --dry-run");
    if (o->spec.restart_always && o->spec.max_restarts == 0)
        return err_set(e, -EINVAL, "--restart-always needs --max-restarts N");
    if (strv_len(o->argv) == 0) {
        err_set(e, -EINVAL, "the program is missing");
        return err_hint(e, "%s -np 4 ./program", o->program);
    }
    o->spec.argv = o->argv;
    return feature_check(&o->features, &o->spec, e);
}

static void add_hosts(struct hosts **to, const struct hosts *from)
{
    *to = *to ? *to : xzalloc(sizeof **to);
    for (int i = 0; i < from->count; i++)
        hosts_add(*to, from->at[i].name, from->at[i].slots, from->at[i].max_slots);
}

/* Replaces `some` by those of its hosts that are in the host file. */
static int filter(struct hosts **some, const struct hosts *file, struct err *e)
{
    struct hosts *found = NULL;
    if (!file || !*some)
        return 0;
    if (hostfile_filter(&found, file, *some, e) < 0)
        return -EINVAL;
    hosts_free(*some);
    *some = found;
    return 0;
}

/* Sets the hosts of a job with several programs. The job has the hosts of the host file, or else
 * the hosts of all programs. Each program has the hosts of its -H. */
static int find_program_hosts(struct run_options *o, struct hosts *first, struct hosts *file,
                              struct err *e)
{
    o->own_hosts = first;
    o->hosts = file;
    if (!file && first)
        add_hosts(&o->hosts, first);
    if (filter(&o->own_hosts, file, e) < 0)
        return -EINVAL;
    for (int i = 0; i < o->app_count; i++) {
        struct hosts **own = (struct hosts **)&o->apps[i].hosts;
        if (!file && *own)
            add_hosts(&o->hosts, *own);
        if (filter(own, file, e) < 0)
            return -EINVAL;
        if (*own)
            hostfile_mark_here(*own);
    }
    if (o->own_hosts)
        hostfile_mark_here(o->own_hosts);
    hostfile_mark_here(o->hosts);
    return 0;
}

/* Sets the directories of the programs after ':'. A program without -wdir runs in the directory of
 * -gwdir, or else in the current directory. */
static int set_program_dirs(struct run_options *o, struct err *e)
{
    const char *others = o->gwdir;
    if (!others && o->spec.wdir && o->app_count > 0 && !(others = o->cwd = get_current_dir_name()))
        return err_set(e, -errno, "current directory: %s", strerror(errno));
    o->spec.wdir = o->spec.wdir ? o->spec.wdir : o->gwdir;
    for (int i = 0; i < o->app_count; i++)
        o->apps[i].wdir = o->apps[i].wdir ? o->apps[i].wdir : others;
    return 0;
}

/* --place selects GPUs of this machine only. */
static int check_place(const struct run_options *o, struct err *e)
{
    bool here = true;
    for (int i = 0; o->hosts && i < o->hosts->count; i++)
        here &= o->hosts->at[i].here;
    if (o->labels && !o->place)
        return err_set(e, -EINVAL, "--labels needs --place JOB.yaml");
    if (o->place && o->spec.gpus)
        return err_set(e, -EINVAL, "--place and --gpus exclude each other");
    if (!o->place || here)
        return 0;
    err_set(e, -EINVAL, "--place selects GPUs of this machine, and the job has other hosts");
    return err_hint(e, "--engine local");
}

static bool has_program_hosts(const struct run_options *o)
{
    bool any = false;
    for (int i = 0; i < o->app_count; i++)
        any |= o->apps[i].hosts != NULL;
    return any;
}

/* Sets the hosts of the job: those of --hostfile, of --host, or of both; otherwise those of the
 * allocation in which drover runs. */
static int find_hosts(struct run_options *o, struct err *e)
{
    AUTO(hosts) struct hosts *list = NULL, *file = NULL;
    for (size_t i = 0; i < strv_len(o->host_lists); i++) {
        list = list ? list : xzalloc(sizeof *list);
        if (hostfile_list(list, o->host_lists[i], e) < 0)
            return err_wrap(e, "--host");
    }
    if (strv_len(o->host_files) > 1)
        return err_set(e, -EINVAL, "--hostfile '%s', '%s': a job has one host file",
                       o->host_files[0], o->host_files[1]);
    if (o->host_files && hostfile_read(&file, o->host_files[0], e) < 0)
        return e ? e->code : -EINVAL;
    if (has_program_hosts(o) || (o->app_count > 0 && file && list))
        return find_program_hosts(o, TAKE(list), TAKE(file), e);
    if (file && list && hostfile_filter(&o->hosts, file, list, e) < 0)
        return e ? e->code : -EINVAL;
    if (!o->hosts)
        o->hosts = list ? TAKE(list) : TAKE(file);
    if (!o->hosts && !(o->spec.engine && strcmp(o->spec.engine, PLAN_ENGINE_LOCAL) == 0) &&
        allocation_find(&o->hosts, environ, e) < 0)
        return e ? e->code : -EINVAL;
    if (o->hosts)
        hostfile_mark_here(o->hosts);
    return 0;
}

/* Raises the slots of hydra's hosts, which do not limit the ranks. Each host gets -ppn ranks.
 * Without -ppn the ranks are placed on the hosts in turn. */
static void raise_slots(struct run_options *o)
{
    struct hosts *h = o->hosts;
    assert(h->count > 0); /* no list of hosts is empty */
    int np = o->np;
    for (int i = 0; i < o->app_count; i++)
        np += o->apps[i].ranks;
    int share = np > 0 ? (np + h->count - 1) / h->count : 1;
    if (o->per_node <= 0 && o->spec.map_by == PLAN_MAP_DEFAULT)
        o->spec.map_by = PLAN_MAP_NODE;
    for (int i = 0; i < h->count; i++) {
        int slots = o->per_node > 0 ? o->per_node : share;
        h->at[i].slots = h->at[i].slots < slots ? slots : h->at[i].slots;
    }
}

/* Handles --exclude-file: removes the hosts that it names. */
static int leave_out(struct run_options *o, struct err *e)
{
    struct exclusions x;
    if (exclude_file_read(&x, o->features.spares.exclude_file, time(NULL), e) < 0)
        return err_wrap(e, "--exclude-file");
    int all = o->hosts ? o->hosts->count : 0;
    AUTO(free) bool *kept = xcalloc((size_t)all + 1, sizeof *kept);
    for (int i = 0; i < all; i++) {
        const struct exclusion *found = exclude_file_find(&x, o->hosts->at[i].name);
        kept[i] = !found;
        if (found)
            log_warn("%s is left out: %s (%s)", found->node, found->reason,
                     o->features.spares.exclude_file);
    }
    exclude_file_free(&x);
    if (!o->hosts)
        return 0;
    struct hosts *rest = hosts_select(o->hosts, kept);
    hosts_free(o->hosts);
    o->hosts = rest;
    return rest->count ? 0
                       : err_set(e, -EINVAL, "--exclude-file '%s' leaves out all hosts",
                                 o->features.spares.exclude_file);
}

void run_options_choose_hosts(struct run_options *o, int min, int max)
{
    o->features.spares.nodes_min = min;
    o->features.spares.nodes_max = max;
    if (o->hosts->count > min)
        o->features.spares.candidates = hosts_select(o->hosts, NULL);
    while (o->hosts->count > max)
        free(o->hosts->at[--o->hosts->count].name);
}

/* Handles --spares. `all` is the number of hosts without those of --exclude-file. */
static int use_spares(struct run_options *o, int all, struct err *e)
{
    int needed = all - o->features.spares.count;
    if (all == 0) {
        err_set(e, -EINVAL, "--spares: no hosts are given");
        return err_hint(e, "--hostfile FILE or --host LIST");
    }
    if (o->app_count > 0 || o->rank_file)
        return err_set(e, -EINVAL, "--spares: not with %s",
                       o->rank_file ? "--rankfile, which names the hosts of the ranks"
                                    : "several programs, each of which has its hosts");
    if (needed < 1)
        return err_set(e, -EINVAL, "--spares %d: the job has only %d host%s",
                       o->features.spares.count, all, plural_s(all));
    if (o->hosts->count < needed)
        return err_set(e, -EINVAL,
                       "--spares %d: the job needs %d host%s, and --exclude-file leaves %d",
                       o->features.spares.count, needed, plural_s(needed), o->hosts->count);
    run_options_choose_hosts(o, needed, needed);
    return 0;
}

/* Handles --nolocal: removes this host from the hosts of the job. */
static int drop_this_host(struct run_options *o, struct err *e)
{
    int kept = 0;
    for (int i = 0; o->hosts && i < o->hosts->count; i++) {
        if (o->hosts->at[i].here)
            free(o->hosts->at[i].name);
        else
            o->hosts->at[kept++] = o->hosts->at[i];
    }
    if (o->hosts)
        o->hosts->count = kept;
    if (kept > 0)
        return 0;
    err_set(e, -EINVAL, "--nolocal: this is the only host");
    return err_hint(e, "--hostfile FILE or --host LIST");
}

/* Reads the rank file. If no hosts are given, the job has the hosts of the rank file. */
static int use_rankfile(struct run_options *o, struct err *e)
{
    if (hostfile_read_ranks(&o->rankfile, o->rank_file, o->hosts, e) < 0)
        return e ? e->code : -EINVAL;
    if (!o->hosts) {
        o->hosts = TAKE(o->rankfile->hosts);
        hostfile_mark_here(o->hosts);
    }
    o->spec.locations = o->rankfile->locations;
    o->spec.location_count = o->rankfile->count;
    return 0;
}

/* ---- parameters of Open MPI's launcher ------------------------------------------------------ */

/* Adds the options that mean the same as parameter `i`. A value that drover does not know is an
 * error if it is on the command line. In other sources it may be meant for another program, so it
 * gives only a warning. */
static int add_param(struct run_options *o, const struct mca_params *p, size_t i, bool has_hosts,
                     struct err *e)
{
    const struct mca_param *m = &p->at[i];
    bool ignored = false;
    struct err unknown = {0};
    struct run_options probe;
    AUTO(strv) char **own = mca_params_options(p, i, &ignored), **words = NULL;
    strv_push(&words, xstrdup(o->program));
    strv_add(&words, own);
    int rc = run_options_probe(&probe, (int)strv_len(words), words, &unknown);
    bool is_used = rc == 0 && !(has_hosts && (probe.host_lists || probe.host_files));
    run_options_free(&probe);
    AUTO(free)
    char *name = m->source ? xasprintf("%s=%s (%s)", m->name, m->value, m->source)
                           : xasprintf("--mca %s %s", m->name, m->value);
    if (rc < 0 && !m->source) {
        err_set(e, -EINVAL, "%s: %s", name, unknown.text);
        return err_hint(e, "%s", unknown.hint);
    }
    if (rc < 0 || ignored)
        strv_push(&o->warnings,
                  xasprintf("%s is ignored: %s", name,
                            rc < 0 ? unknown.text : "drover has no option that does this"));
    if (is_used)
        strv_add(&o->words, own);
    return 0;
}

/* Returns the command line with the words of its --tune files before its options, or NULL if a file
 * cannot be read. */
static char **with_tune_files(int argc, char *const *argv, struct err *e)
{
    struct run_options probe;
    struct err later; /* an error is reported when the line is parsed */
    AUTO(strv) char **words = NULL;
    int rc = 0;
    strv_push(&words, xstrdup(argv[0]));
    (void)run_options_probe(&probe, argc, argv, &later);
    for (size_t i = 0; rc == 0 && i < strv_len(probe.tune_files); i++)
        rc = run_mpmd_read_file(&words, probe.tune_files[i], NULL, e);
    run_options_free(&probe);
    if (rc < 0)
        err_wrap(e, "--tune");
    for (int i = 1; i < argc; i++)
        strv_push(&words, xstrdup(argv[i]));
    return rc < 0 ? NULL : TAKE(words);
}

int run_options_add_params(struct run_options *o, int argc, char *const *argv, struct err *e)
{
    struct run_options probe;
    struct err later;
    AUTO(mca_params) struct mca_params p = {0};
    AUTO(strv) char **line = with_tune_files(argc, argv, e);
    if (!line)
        return e ? e->code : -EINVAL;
    (void)run_options_probe(&probe, (int)strv_len(line), line, &later);
    bool has_hosts = probe.host_lists || probe.host_files;
    mca_params_read(&p, environ);
    for (size_t i = 0; i < probe.mca.count; i++)
        mca_params_set(&p, probe.mca.at[i].name, probe.mca.at[i].value, NULL);
    run_options_free(&probe);
    strv_push(&o->words, xstrdup(line[0]));
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p.count; i++)
        rc = add_param(o, &p, i, has_hosts, e);
    strv_add(&o->words, line + 1);
    return rc;
}

/* ---- the spec ------------------------------------------------------------------------------- */

/* Explains what --cpus or --gpus selects if its value is a single number from 1 on, which the user
 * may mean as a count. */
static void explain_index(struct run_options *o, const char *option, const char *list,
                          const char *unit)
{
    if (!list || !*list || *list == '0' || strspn(list, "0123456789") != strlen(list))
        return;
    strv_push(&o->warnings,
              xasprintf("%s %s selects one %s, that with the index %s: it is a list, not a count",
                        option, list, unit, list));
}

/* Options that only mpirun can use select mpirun, even if it is not installed. */
static void choose_engine(struct run_options *o)
{
    if (o->hydra_ssh && !o->spec.engine && !plan_spec_is_local(&o->spec))
        o->spec.engine = "ssh";
    if (strv_len(o->mpirun_only) > 0)
        o->spec.remote_engine = "openmpi";
    launch_context_choose_engine(&o->spec, environ);
}

int run_options_resolve(struct run_options *o, struct err *e)
{
    if (o->refused)
        return unsupported(o->refused[0], e);
    for (size_t i = 0; i < strv_len(o->legacy); i++)
        if (run_options_mapping_legacy(o, o->legacy[i], e) < 0)
            return err_wrap(e, "option '%s'", o->legacy[i]);
    if (o->port_range && host_port_read_range(&o->spec.node.ports, o->port_range, e) < 0)
        return err_wrap(e, "--port-range");
    if (o->rdzv)
        o->rdzv->ports = o->spec.node.ports;
    if (set_program_dirs(o, e) < 0 || check(o, e) < 0 || find_hosts(o, e) < 0 ||
        check_place(o, e) < 0 || (o->no_local && drop_this_host(o, e) < 0))
        return e ? e->code : -EINVAL;
    int all = o->hosts ? o->hosts->count : 0;
    if ((o->features.spares.exclude_file && leave_out(o, e) < 0) ||
        (o->features.spares.count && use_spares(o, all, e) < 0))
        return e ? e->code : -EINVAL;
    if (o->rank_file && use_rankfile(o, e) < 0)
        return e ? e->code : -EINVAL;
    if (o->hydra_hosts && o->hosts)
        raise_slots(o);
    if (o->path)
        run_mpmd_prepend_path(&o->env, o->env, o->path);
    strv_add(&o->mpirun_args, o->mpirun_only);
    explain_index(o, "--gpus", o->spec.gpus, "GPU");
    explain_index(o, "--cpus", o->spec.cpus, "CPU");
    o->spec.env = o->env;
    o->spec.engine_args = o->mpirun_args;
    o->spec.hosts = o->hosts;
    o->spec.own_hosts = o->own_hosts;
    o->spec.bind_slots = o->bind_slots;
    o->spec.ranks = o->np > 0 ? o->np : 0;
    for (int i = 0; i < o->app_count; i++)
        o->spec.ranks += o->apps[i].ranks;
    o->spec.apps = o->apps;
    o->spec.app_count = o->app_count;
    o->spec.per_node = o->per_node > 0 ? o->per_node : 0;
    choose_engine(o);
    o->spec.start_timeout_ms = (int)(o->start_timeout_s * 1000);
    o->spec.lost_after_ms = (int)(o->lost_after_s * 1000);
    if (o->grace_s >= 0) /* in a spec, 0 means the default */
        o->spec.grace_ms = o->grace_s * 1000 < 1 ? 1 : (int)(o->grace_s * 1000);
    return 0;
}

struct placement_opts run_options_placement(const struct run_options *o)
{
    return (struct placement_opts){
        .file = o->place, .labels_file = o->labels, .argv = o->argv, .wdir = o->spec.wdir};
}

struct feature_run run_options_features(struct run_options *o)
{
    return (struct feature_run){.program = o->program,
                                .spec = &o->spec,
                                .set = &o->features,
                                .quiet = o->quiet,
                                .dry_run = o->dry_run};
}

void run_options_log_ignored(const struct run_options *o, const char *engine)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; i < strv_len(o->warnings); i++)
        log_warn("%s", o->warnings[i]);
    for (size_t i = 0; i < strv_len(o->ignored); i++)
        strbuf_printf(&b, " %s", o->ignored[i]);
    const struct remote_launcher *launcher = remote_launcher_find(engine);
    for (size_t i = 0; !(launcher && launcher->takes_args) && i < strv_len(o->mpirun_only); i++)
        strbuf_printf(&b, " %s", o->mpirun_only[i]);
    if (b.len > 0)
        log_warn("ignored, no effect with this engine:%s", strbuf_str(&b));
}
