#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "common/strbuf.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/env.h"
#include "launcher/plan/hostfile.h"
#include "launcher/remote/remote_launcher.h"
#include "launcher/run/run_options_mapping.h"

enum { TIME_MAX_S = 1000000 };

static int unsupported(const char *option, struct err *e)
{
    static const struct {
        const char *names, *instead;
    } known[] = {
        {"rf|rankfile", "--map-by, --rank-by and --hostfile place the ranks"},
        {"cpu-set|cpu-list", "--cpus LIST, with the CPU numbers of the system"},
        {"xterm|debug|debugger|tv|gtool",
         "start the debugger as the program: gdb -ex run --args …"},
        {"configfile", "--app FILE, with one program and its options per line"},
        {"genvnone|envnone|genvexcl|envexcl", "env -i NAME=VALUE … before the whole command"},
        {"outfile-pattern|errfile-pattern", "--output-filename DIR"},
        {"gpus-per-proc", "--gpus LIST, and CUDA_VISIBLE_DEVICES in the program"},
        {"membind", "--bind-to numa: memory is bound as the CPUs are"},
        {"with-ft", "--max-restarts N, which restarts the job"},
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

static int check_times(const struct run_options *o, struct err *e)
{
    const struct {
        const char *option;
        double seconds;
    } times[] = {{"--grace", o->grace_s == RUN_OPTIONS_NOT_GIVEN ? 0 : o->grace_s},
                 {"--timeout", o->timeout_s},
                 {"--start-timeout", o->start_timeout_s},
                 {"--lost-after", o->lost_after_s},
                 {"--hang-timeout", o->hang_timeout_s}};
    for (size_t i = 0; i < COUNT_OF(times); i++)
        if (times[i].seconds < 0 || times[i].seconds > TIME_MAX_S)
            return err_set(e, -EINVAL, "%s %g: out of range (0 to %d s)", times[i].option,
                           times[i].seconds, TIME_MAX_S);
    if (o->lost_after_s > 0 && o->lost_after_s < 1) /* a busy node may be silent for less */
        return err_set(e, -EINVAL, "--lost-after %g: minimum is 1 s", o->lost_after_s);
    return 0;
}

static int check(struct run_options *o, struct err *e)
{
    if (o->np == 0) {
        err_set(e, -EINVAL, "-np 0: the minimum is 1 rank");
        return err_hint(e, "omit -np for one rank per GPU, or per core without GPUs");
    }
    if (o->np < RUN_OPTIONS_NOT_GIVEN)
        return err_set(e, -EINVAL, "-np %d: the minimum is 1 rank", o->np);
    if (o->max_restarts < 0)
        return err_set(e, -EINVAL, "--max-restarts %d: the minimum is 0", o->max_restarts);
    if (o->json && !o->dry_run)
        return err_set(e, -EINVAL, "--json needs --dry-run");
    if (strv_len(o->argv) == 0) {
        err_set(e, -EINVAL, "the program is missing");
        return err_hint(e, "%s -np 4 ./program", o->program);
    }
    return check_times(o, e);
}

/* The hosts of --hostfile, of --host, or of both; else those of the allocation that drover is in.
 */
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
    if (file && list && hostfile_filter(&o->hosts, file, list, e) < 0)
        return e ? e->code : -EINVAL;
    if (!o->hosts)
        o->hosts = list ? TAKE(list) : TAKE(file);
    if (!o->hosts && !(o->spec.engine && strcmp(o->spec.engine, PLAN_ENGINE_LOCAL) == 0) &&
        allocation_find(&o->hosts, NULL, environ, e) < 0)
        return e ? e->code : -EINVAL;
    if (o->hosts)
        hostfile_mark_here(o->hosts);
    return 0;
}

/* hydra's hosts have no limit of slots: each gets -ppn ranks, or else an equal number, in turn. */
static void raise_slots(struct run_options *o)
{
    struct hosts *h = o->hosts;
    assert(h->count > 0); /* no list of hosts is empty */
    int share = o->np > 0 ? (o->np + h->count - 1) / h->count : 1;
    if (o->per_node <= 0 && o->spec.map_by == PLAN_MAP_DEFAULT)
        o->spec.map_by = PLAN_MAP_NODE;
    for (int i = 0; i < h->count; i++) {
        int slots = o->per_node > 0 ? o->per_node : share;
        h->at[i].slots = h->at[i].slots < slots ? slots : h->at[i].slots;
    }
}

/* --nolocal: keeps the other hosts. */
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

int run_options_resolve(struct run_options *o, struct err *e)
{
    if (o->refused)
        return unsupported(o->refused[0], e);
    for (size_t i = 0; i < strv_len(o->legacy); i++)
        if (run_options_mapping_legacy(o, o->legacy[i], e) < 0)
            return err_wrap(e, "option '%s'", o->legacy[i]);
    if (check(o, e) < 0 || find_hosts(o, e) < 0 || (o->no_local && drop_this_host(o, e) < 0))
        return e ? e->code : -EINVAL;
    if (o->hydra_hosts && o->hosts)
        raise_slots(o);
    if (o->path) {
        const char *path = env_user_value(environ, o->env, "PATH");
        strv_push(&o->env, xasprintf("PATH=%s%s%s", o->path, path ? ":" : "", path ? path : ""));
    }
    for (size_t i = 0; i < strv_len(o->mpirun_only); i++)
        strv_push(&o->mpirun_args, xstrdup(o->mpirun_only[i]));
    o->spec.argv = o->argv;
    o->spec.env = o->env;
    o->spec.engine_args = o->mpirun_args;
    o->spec.hosts = o->hosts;
    o->spec.ranks = o->np > 0 ? o->np : 0;
    for (int i = 0; i < o->app_count; i++)
        o->spec.ranks += o->apps[i].ranks;
    o->spec.apps = o->apps;
    o->spec.app_count = o->app_count;
    o->spec.per_node = o->per_node > 0 ? o->per_node : 0;
    o->spec.max_restarts = o->max_restarts;
    o->spec.start_timeout_ms = (int)(o->start_timeout_s * 1000);
    o->spec.lost_after_ms = (int)(o->lost_after_s * 1000);
    if (o->grace_s >= 0) /* in a spec, 0 means the default */
        o->spec.grace_ms = o->grace_s * 1000 < 1 ? 1 : (int)(o->grace_s * 1000);
    return 0;
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
