#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/opt.h"
#include "launcher/alloc.h"
#include "launcher/cmd_run.h"
#include "launcher/env.h"
#include "launcher/hostfile.h"
#include "launcher/topo.h"

enum { NOT_GIVEN = -1 };

/* ---- values ------------------------------------------------------------------------------------
 */

static void set_variable(struct cmd_run_opts *o, const char *name, const char *value)
{
    strv_push(&o->env, xasprintf("%s=%s", name, value));
}

/* "NAME" of our environment: Open MPI 5's "NCCL_*" is all that begin so. */
static void pass_variable(struct cmd_run_opts *o, const char *name)
{
    size_t len = strlen(name);
    if (len > 0 && name[len - 1] == '*') {
        for (char **v = environ; *v; v++)
            if (strncmp(*v, name, len - 1) == 0)
                strv_push(&o->env, xstrndup(*v, strcspn(*v, "=")));
        return;
    }
    strv_push(&o->env, xstrdup(name));
    if (!getenv(name))
        strv_push(&o->warnings, xasprintf("-x %s: there is no such variable here", name));
}

/* "A=1", "A", "A,B". */
static int on_variable(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    if (!*values[0] || *values[0] == '=')
        return err_set(e, -EINVAL, "'%s' has no name", values[0]);
    if (strchr(values[0], '=')) {
        strv_push(&o->env, xstrdup(values[0]));
        return 0;
    }
    AUTO(free) char *list = xstrdup(values[0]);
    for (char *rest = list, *one; (one = strsep(&rest, ","));)
        if (*one)
            pass_variable(o, one);
    return 0;
}

/* hydra's "-env NAME VALUE". */
static int on_env(void *into, char *const *values, struct err *e)
{
    if (!*values[0] || strchr(values[0], '='))
        return err_set(e, -EINVAL, "'%s' is no variable's name", values[0]);
    set_variable(into, values[0], values[1]);
    return 0;
}

/* Open MPI's parameters are variables to its programs, and words to its mpirun. */
static int on_mca(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    AUTO(free) char *name = xasprintf("OMPI_MCA_%s", values[0]);
    set_variable(o, name, values[1]);
    strv_push(&o->mpirun_args, xstrdup("--mca"));
    strv_push(&o->mpirun_args, xstrdup(values[0]));
    strv_push(&o->mpirun_args, xstrdup(values[1]));
    return 0;
}

/* hydra's network interface, in Open MPI's words. */
static int on_iface(void *into, char *const *values, struct err *e)
{
    char *tcp[] = {(char *)"btl_tcp_if_include", values[0], NULL};
    char *own[] = {(char *)"oob_tcp_if_include", values[0], NULL};
    (void)on_mca(into, tcp, e); /* both always say 0 */
    return on_mca(into, own, e);
}

/* torchrun's: a number, or as many as there are GPUs (cores, where there is none). */
static int on_per_node(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    if (!strcmp(values[0], "gpu") || !strcmp(values[0], "auto") || !strcmp(values[0], "cpu")) {
        o->per_node = 0;
        return 0;
    }
    return opt_int(&o->per_node, "ranks", values[0], 1, 1 << 20, e);
}

static int on_engine(void *into, char *const *values, struct err *e)
{
    static const struct {
        const char *word;
        enum plan_engine engine;
    } engines[] = {
        {"auto", PLAN_ENGINE_AUTO},       {"local", PLAN_ENGINE_LOCAL},
        {"openmpi", PLAN_ENGINE_OPENMPI}, {"slurm", PLAN_ENGINE_SLURM},
        {"fork", PLAN_ENGINE_LOCAL},      {"ssh", PLAN_ENGINE_AUTO}, /* hydra's -launcher */
        {"rsh", PLAN_ENGINE_AUTO},
    };
    struct cmd_run_opts *o = into;
    for (size_t i = 0; i < COUNT_OF(engines); i++)
        if (strcmp(values[0], engines[i].word) == 0) {
            o->spec.engine = engines[i].engine;
            return 0;
        }
    err_set(e, -EINVAL, "'%s' is not known", values[0]);
    return err_hint(e, "local, openmpi, slurm");
}

static int on_stdin(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    if (strcmp(values[0], "none") == 0) {
        o->spec.stdin_null = true;
        return 0;
    }
    if (strcmp(values[0], "all") == 0) {
        err_set(e, -EINVAL, "'all': one rank reads stdin");
        return err_hint(e, "sh -c 'exec ./program <FILE' lets every rank read a file");
    }
    return opt_int(&o->spec.stdin_rank, "rank", values[0], 0, 1 << 20, e);
}

static int on_show(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    if (!o->show)
        o->show = hwloc_bitmap_alloc();
    hwloc_bitmap_zero(o->show);
    if (strcmp(values[0], "failed") == 0 || strcmp(values[0], "none") == 0)
        return 0; /* what failed is told with its last lines */
    if (topo_list_parse(o->show, values[0], NULL) < 0) {
        err_set(e, -EINVAL, "'%s' is no list of ranks", values[0]);
        return err_hint(e, "0,3-5, or failed");
    }
    return 0;
}

static int on_tag(void *into, char *const *values, struct err *e)
{
    static const char *const words[] = {"auto", "none", "host", "rank", "mpirun", "torch"};
    struct cmd_run_opts *o = into;
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strcmp(values[0], words[i]) == 0) {
            o->style.tag = (enum console_tag)i;
            return 0;
        }
    err_set(e, -EINVAL, "'%s' is not known", values[0]);
    return err_hint(e, "host, rank, mpirun, none");
}

static int on_tag_output(void *into, char *const *values, struct err *e)
{
    ((struct cmd_run_opts *)into)->style.tag = CONSOLE_TAG_MPIRUN;
    return 0;
}

static int on_prepend_rank(void *into, char *const *values, struct err *e)
{
    ((struct cmd_run_opts *)into)->style.tag = CONSOLE_TAG_RANK;
    return 0;
}

/* "DIR", and Open MPI 4's "DIR:nojobid,nocopy": our directory never has the job's number. */
static int on_output_dir(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    char *colon = strrchr(values[0], ':');
    bool nocopy = colon && strstr(colon, "nocopy");
    o->spec.output_dir = values[0];
    if (!nocopy && !(colon && strcmp(colon, ":nojobid") == 0))
        return 0;
    *colon = '\0';
    char *none[] = {(char *)"none", NULL};
    return nocopy ? on_show(o, none, e) : 0;
}

/* Open MPI 5's list: "tag,timestamp,merge,dir=D". */
static int on_output(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    for (char *rest = values[0], *one; (one = strsep(&rest, ",:"));) {
        if (strcmp(one, "tag") == 0 || strcmp(one, "tag-detailed") == 0)
            o->style.tag = CONSOLE_TAG_MPIRUN;
        else if (strcmp(one, "rank") == 0)
            o->style.tag = CONSOLE_TAG_RANK;
        else if (strcmp(one, "timestamp") == 0)
            o->style.timestamp = true;
        else if (strcmp(one, "merge-stderr-to-stdout") == 0 || strcmp(one, "merge") == 0)
            o->style.merge = true;
        else if (strncmp(one, "dir=", 4) == 0)
            o->spec.output_dir = one + 4;
        else {
            err_set(e, -EINVAL, "'%s' is not known", one);
            return err_hint(e, "tag, rank, timestamp, merge, dir=DIR");
        }
    }
    return 0;
}

/* What cannot be shown without mpirun's own map ("topo", "map-devel") is shown as the map. */
static int on_display(void *into, char *const *values, struct err *e)
{
    ((struct cmd_run_opts *)into)->report_bindings = true;
    return 0;
}

/* ---- the options -------------------------------------------------------------------------------
 */

#define T struct cmd_run_opts
static const struct opt options[] = {
    OPT_INT('n', "np|c", "N", "number of ranks (one a GPU; without GPUs one a core)", T, np),
    OPT_CALL('N', "npernode|ppn|perhost|nproc-per-node", "N", "so many ranks on each node",
             on_per_node),
    OPT_STRV('H', "host|hosts", "LIST", "nodes and their slots: a:4,b:4", T, host_lists),
    OPT_STRV('f', "hostfile|machinefile|machine|default-hostfile", "FILE",
             "nodes and their slots, one a line", T, host_files),
    OPT_CALL(0, "engine|launcher|bootstrap", "NAME", "who starts ranks: local, openmpi, slurm",
             on_engine),
    OPT_CALL('x', "x|genvlist|envlist", "NAME[=VALUE]", "pass a variable to the ranks, or set it",
             on_variable),
    OPT_STR(0, "wdir|wd|gwdir", "DIR", "the ranks' directory", T, spec.wdir),
    OPT_STR(0, "path", "DIR", "where the program is looked for first", T, path),
    OPT_CALL(0, "map-by", "PLACE[:PE=N]",
             "slot, core, hwthread, l3cache, numa, socket, node, ppr:N:node", cmd_run_where_map),
    OPT_CALL(0, "rank-by", "PLACE", "how ranks are numbered: slot, node", cmd_run_where_rank),
    OPT_CALL(0, "bind-to", "PLACE", "none, core, hwthread, l3cache, numa, socket",
             cmd_run_where_bind),
    OPT_INT(0, "cpus-per-proc|cpus-per-rank", "N", "CPUs for each rank", T, spec.cpus_per_rank),
    OPT_STR(0, "cpus", "LIST", "the job's part of the CPUs (0-3,8)", T, spec.cpus),
    OPT_STR(0, "gpus", "LIST", "the job's part of the GPUs (0,2; '' for none)", T, spec.gpus),
    OPT_FLAG(0, "oversubscribe", "more ranks than slots, CPUs or GPUs are fine", T,
             spec.oversubscribe),
    OPT_FLAG(0, "report-bindings|display-map|print-rank-map|display-devel-map",
             "print who runs where, then run", T, report_bindings),
    OPT_FLAG(0, "dry-run|do-not-launch", "print the plan, start nothing", T, dry_run),
    OPT_FLAG(0, "json", "with --dry-run: as JSON", T, json),
    OPT_CALL(0, "show", "RANKS", "whose lines are shown: 0,3-5, or failed", on_show),
    OPT_CALL(0, "tag", "FORM", "what marks a line: host, rank, mpirun, none", on_tag),
    OPT_CALL(0, "tag-output", NULL, "as mpirun marks it: [1,RANK]<stdout>:", on_tag_output),
    OPT_CALL('l', "prepend-rank", NULL, "as hydra marks it: [RANK]", on_prepend_rank),
    OPT_FLAG(0, "timestamp-output", "mark each line with the time", T, style.timestamp),
    OPT_FLAG(0, "merge-stderr-to-stdout", "both on stdout", T, style.merge),
    OPT_CALL(0, "output-filename|output-directory", "DIR",
             "keep the output in DIR/rank.N/stdout and stderr too", on_output_dir),
    OPT_CALL(0, "stdin", "RANK", "which rank reads stdin (0), or none", on_stdin),
    OPT_DOUBLE(0, "grace", "SECONDS", "from SIGTERM to SIGKILL (30)", T, grace_s),
    OPT_DOUBLE(0, "timeout", "SECONDS", "end the job after that time, with status 124", T,
               timeout_s),
    OPT_DOUBLE(0, "start-timeout", "SECONDS", "until every node has come (60)", T, start_timeout_s),
    OPT_DOUBLE(0, "hang-timeout", "SECONDS", "end a job that has done nothing for so long", T,
               hang_timeout_s),
    OPT_INT(0, "max-restarts", "N", "start a job that failed again, so often", T, max_restarts),
    OPT_STR(0, "events", "FILE", "what happens, a line of JSON an event", T, events_file),
    OPT_INT(0, "master-port", "PORT", "MASTER_PORT (a free one)", T, spec.master_port),
    OPT_FLAG(0, "no-hold-port", "do not keep MASTER_PORT bound meanwhile", T, spec.no_hold_port),
    OPT_FLAG(0, "no-pmix", "no PMIx server: the program is not MPI", T, spec.no_pmix),
    OPT_CALL(0, "mca|gmca", "KEY VALUE", "set a parameter of Open MPI", on_mca),
    OPT_FLAG('q', "quiet", "no report of a failure", T, quiet),
    OPT_FLAG('v', "verbose", "say more", T, verbose),

    /* Understood, not shown. Open MPI's other names and lists */
    OPT_FLAG(0, "allow-run-as-root|nooversubscribe|genvall|envall", NULL, T, as_root),
    OPT_CALL(0, "output", "LIST", NULL, on_output),
    OPT_CALL(0, "display", "LIST", NULL, on_display),
    OPT_CALL(0, "ppr", "N:PLACE", NULL, cmd_run_where_ppr),
    OPT_CALL(0, "npersocket", "N", NULL, cmd_run_where_per_socket),
    OPT_WORDS(0,
              "byslot|bycore|bynode|rr|bind-to-none|bind-to-core|bind-to-socket|"
              "use-hwthread-cpus|nolocal|pernode",
              NULL, NULL, T, old),
    /* hydra's and Intel MPI's */
    OPT_CALL(0, "env|genv", "NAME VALUE", NULL, on_env),
    OPT_CALL(0, "iface", "NAME", NULL, on_iface),
    /* What mpirun alone has a use for */
    OPT_WORDS(0, "prefix|tune|am|launch-agent|personality", "X", NULL, T, mpirun_only),
    OPT_WORDS(0, "pmixmca|prtemca", "K V", NULL, T, mpirun_only),
    OPT_WORDS(0, "noprefix|leave-session-attached|debug-daemons|do-not-resolve", NULL, NULL, T,
              mpirun_only),
    /* What nothing here has a use for */
    OPT_WORDS(
        's',
        "preload-binary|continuous|d|debug-devel|debug-daemons-file|disable-recovery|"
        "display-allocation|display-devel-allocation|display-diffable-map|display-topo|"
        "dvm|enable-instant-on-support|enable-recovery|fwd-mpirun-port|get-stack-traces|"
        "index-argv-by-rank|novm|output-proctable|report-child-jobs-separately|"
        "report-state-on-timeout|set-cwd-to-session-dir|show-progress|tv|use-regexp|xml|"
        "disable-auto-cleanup|disable-hostname-propagation|localhost-only|nolocal-exec|"
        "order-nodes|skip-launch-node|print-all-exitcodes|ordered-output|info-all",
        NULL, NULL, T, ignored),
    OPT_WORDS(0,
              "max-vm-size|report-events|report-pid|report-uri|ompi-server|hnp|xml-file|"
              "preload-files|cf|cartofile|runtime-options|rmk|demux|topolib|ranks-per-proc|"
              "bootstrap-exec|launcher-exec|prepend-pattern|outfile-pattern|errfile-pattern|"
              "usize|tmpdir|localhost|branch-count|pmi-port|disable-x",
              "X", NULL, T, ignored),
    /* What would change the job, and is not done */
    OPT_WORDS(0, "rf|rankfile|cpu-set|cpu-list|xterm|debugger|configfile|genvexcl|envexcl", "X",
              NULL, T, refused),
    OPT_WORDS(0, "debug|genvnone|envnone|with-ft|enable-debugger", NULL, NULL, T, refused),
    OPT_END,
};
#undef T
