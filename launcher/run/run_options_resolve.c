#include <errno.h>
#include <string.h>

#include "launcher/plan/allocation.h"
#include "launcher/plan/env.h"
#include "launcher/plan/hostfile.h"
#include "launcher/run/cmd_run.h"

static int refuse(const char *option, struct err *e)
{
    static const struct {
        const char *names, *instead;
    } known[] = {
        {"rf|rankfile", "--map-by, --rank-by and a --hostfile say who runs where"},
        {"cpu-set|cpu-list", "--cpus takes a list of the system's CPU numbers"},
        {"xterm|debug|debugger|tv|gtool",
         "start the debugger as the program: gdb -ex run --args …"},
        {"configfile", "--app FILE, a program and its options a line"},
        {"genvnone|envnone|genvexcl|envexcl", "env -i NAME=VALUE … before the whole command"},
        {"outfile-pattern|errfile-pattern", "--output-filename DIR"},
        {"gpus-per-proc", "--gpus LIST, and CUDA_VISIBLE_DEVICES in the program"},
        {"membind", "memory is bound as the CPUs are: --bind-to numa"},
        {"with-ft", "--max-restarts N starts the job again"},
    };
    const char *name = option + strspn(option, "-");
    size_t len = strlen(name);
    err_set(e, -EINVAL, "option '%s' is not taken", option);
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
    const double times[] = {o->grace_s == RUN_OPTIONS_NOT_GIVEN ? 0 : o->grace_s, o->timeout_s,
                            o->start_timeout_s, o->lost_after_s, o->hang_timeout_s};
    for (size_t i = 0; i < COUNT_OF(times); i++)
        if (times[i] < 0 || times[i] > 1e6)
            return err_set(e, -EINVAL, "a time is negative or too long");
    if (o->lost_after_s > 0 && o->lost_after_s < 1) /* a busy machine is silent as long */
        return err_set(e, -EINVAL, "--lost-after %g: 1 or more", o->lost_after_s);
    return 0;
}

static int check(struct run_options *o, struct err *e)
{
    if (o->np == 0) {
        err_set(e, -EINVAL, "-np 0: no rank would be started");
        return err_hint(e, "leave -np out for one rank a GPU, or a core where there is none");
    }
    if (o->np < RUN_OPTIONS_NOT_GIVEN)
        return err_set(e, -EINVAL, "-np %d: at least 1 rank is needed", o->np);
    if (o->max_restarts < 0)
        return err_set(e, -EINVAL, "--max-restarts %d: 0 or more", o->max_restarts);
    if (o->json && !o->dry_run)
        return err_set(e, -EINVAL, "--json goes with --dry-run");
    if (strv_len(o->argv) == 0) {
        err_set(e, -EINVAL, "there is no program to run");
        return err_hint(e, "%s -np 4 ./program", o->who);
    }
    return check_times(o, e);
}

/* Those of --hostfile, of --host, or of the file that --host names; else the allocation that we
 * are in. */
static int find_hosts(struct run_options *o, struct err *e)
{
    AUTO(hosts) struct hosts *listed = NULL, *filed = NULL;
    for (size_t i = 0; i < strv_len(o->host_lists); i++) {
        listed = listed ? listed : xzalloc(sizeof *listed);
        if (hostfile_list(listed, o->host_lists[i], e) < 0)
            return err_wrap(e, "--host");
    }
    if (strv_len(o->host_files) > 1)
        return err_set(e, -EINVAL, "'%s', '%s': one host file a job", o->host_files[0],
                       o->host_files[1]);
    if (o->host_files && hostfile_read(&filed, o->host_files[0], e) < 0)
        return e ? e->code : -EINVAL;
    if (filed && listed && hostfile_filter(&o->hosts, filed, listed, e) < 0)
        return e ? e->code : -EINVAL;
    if (!o->hosts)
        o->hosts = listed ? TAKE(listed) : TAKE(filed);
    if (!o->hosts && o->spec.engine != PLAN_ENGINE_LOCAL &&
        allocation_find(&o->hosts, NULL, environ, e) < 0)
        return e ? e->code : -EINVAL;
    if (o->hosts)
        hostfile_mark_here(o->hosts);
    return 0;
}

/* hydra's hosts have no limit: each takes -ppn ranks, or, without that, its even share in turn. */
static void lift_slots(struct run_options *o)
{
    struct hosts *h = o->hosts;
    int share = o->np > 0 ? (o->np + h->count - 1) / h->count : 1;
    if (o->per_node <= 0 && o->spec.map_by == PLAN_MAP_DEFAULT)
        o->spec.map_by = PLAN_MAP_NODE;
    for (int i = 0; i < h->count; i++) {
        int least = o->per_node > 0 ? o->per_node : share;
        h->at[i].slots = h->at[i].slots < least ? least : h->at[i].slots;
    }
}

/* --nolocal: the other hosts. */
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
    err_set(e, -EINVAL, "--nolocal: there is no other host than this one");
    return err_hint(e, "--hostfile FILE or --host LIST");
}

int run_options_resolve(struct run_options *o, struct err *e)
{
    if (o->refused)
        return refuse(o->refused[0], e);
    for (size_t i = 0; i < strv_len(o->old); i++)
        if (run_options_mapping_legacy(o, o->old[i], e) < 0)
            return err_wrap(e, "option '%s'", o->old[i]);
    if (check(o, e) < 0 || find_hosts(o, e) < 0 || (o->no_local && drop_this_host(o, e) < 0))
        return e ? e->code : -EINVAL;
    if (o->hydra && o->hosts)
        lift_slots(o);
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
    if (o->grace_s >= 0) /* a spec's 0 means "as usual" */
        o->spec.grace_ms = o->grace_s * 1000 < 1 ? 1 : (int)(o->grace_s * 1000);
    return 0;
}
