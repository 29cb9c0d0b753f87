#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/opt.h"
#include "launcher/node/topo.h"
#include "launcher/remote/remote_launcher.h"
#include "launcher/run/cmd_run.h"

/* ---- values ------------------------------------------------------------------------------------
 */

static void set_variable(struct run_options *o, const char *name, const char *value)
{
    strv_push(&o->env, xasprintf("%s=%s", name, value));
}

/* "NAME" of our environment: Open MPI 5's "NCCL_*" is all that begin so. */
static void pass_variable(struct run_options *o, const char *name)
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
    struct run_options *o = into;
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
    struct run_options *o = into;
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

/* hydra's way of saying what takes the place of ssh. */
static int on_rsh(void *into, char *const *values, struct err *e)
{
    char *agent[] = {(char *)"plm_rsh_agent", values[0], NULL};
    return on_mca(into, agent, e);
}

/* torchrun's: a number, or as many as there are GPUs (cores, where there is none). */
static int on_per_node(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
    if (!strcmp(values[0], "gpu") || !strcmp(values[0], "auto") || !strcmp(values[0], "cpu")) {
        o->per_node = 0;
        return 0;
    }
    return opt_int(&o->per_node, "ranks", values[0], 1, 1 << 20, e);
}

static int on_ppn(void *into, char *const *values, struct err *e)
{
    ((struct run_options *)into)->hydra = true;
    return on_per_node(into, values, e);
}

static int on_hosts(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
    o->hydra = true;
    strv_push(&o->host_lists, xstrdup(values[0]));
    return 0;
}

static int on_engine(void *into, char *const *values, struct err *e)
{
    static const struct {
        const char *word;
        enum plan_engine engine;
    } engines[] = {
        {"auto", PLAN_ENGINE_AUTO},  {"local", PLAN_ENGINE_LOCAL},
        {"fork", PLAN_ENGINE_LOCAL}, {"ssh", PLAN_ENGINE_AUTO}, /* hydra's -launcher */
        {"rsh", PLAN_ENGINE_AUTO},
    };
    const struct remote_launcher *launcher = remote_launcher_find(values[0]);
    struct run_options *o = into;
    for (size_t i = 0; i < COUNT_OF(engines); i++)
        if (strcmp(values[0], engines[i].word) == 0) {
            o->spec.engine = engines[i].engine;
            return 0;
        }
    if (launcher) {
        o->spec.engine = launcher->engine;
        return 0;
    }
    err_set(e, -EINVAL, "'%s' is not known", values[0]);
    return err_hint(e, "local, " REMOTE_LAUNCHER_WORDS);
}

static int on_stdin(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
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
    struct run_options *o = into;
    if (!o->show)
        o->show = hwloc_bitmap_alloc();
    hwloc_bitmap_zero(o->show);
    if (strcmp(values[0], "failed") == 0 || strcmp(values[0], "none") == 0)
        return 0; /* what failed is told with its last lines */
    if (cpu_list_parse(o->show, values[0], NULL) < 0) {
        err_set(e, -EINVAL, "'%s' is no list of ranks", values[0]);
        return err_hint(e, "0,3-5, or failed");
    }
    return 0;
}

static int on_tag(void *into, char *const *values, struct err *e)
{
    static const char *const words[] = {"auto", "none", "host", "rank", "mpirun", "torch"};
    struct run_options *o = into;
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
    ((struct run_options *)into)->style.tag = CONSOLE_TAG_MPIRUN;
    return 0;
}

static int on_prepend_rank(void *into, char *const *values, struct err *e)
{
    ((struct run_options *)into)->style.tag = CONSOLE_TAG_RANK;
    return 0;
}

/* "DIR", and Open MPI 4's "DIR:nojobid,nocopy": our directory never has the job's number. */
static int on_output_dir(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
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
    struct run_options *o = into;
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
    ((struct run_options *)into)->report_bindings = true;
    return 0;
}

/* ---- the options -------------------------------------------------------------------------------
 */

#define T struct run_options
static const struct opt options[] = {
    OPT_INT('n', "np|c", "N", "number of ranks (one a GPU; without GPUs one a core)", T, np),
    OPT_CALL('N', "npernode|nproc-per-node", "N", "so many ranks on each node", on_per_node),
    OPT_STRV('H', "host", "LIST", "nodes and their slots: a:4,b:4", T, host_lists),
    OPT_STRV('f', "hostfile|machinefile|machine|default-hostfile", "FILE",
             "nodes and their slots, one a line", T, host_files),
    OPT_CALL(0, "engine|launcher|bootstrap", "NAME",
             "how ranks are started: local, " REMOTE_LAUNCHER_WORDS, on_engine),
    OPT_CALL('x', "x|genvlist|envlist", "NAME[=VALUE]", "pass a variable to the ranks, or set it",
             on_variable),
    OPT_STR(0, "wdir|wd|gwdir", "DIR", "the ranks' directory", T, spec.wdir),
    OPT_STR(0, "path", "DIR", "where the program is looked for first", T, path),
    OPT_CALL(0, "map-by", "PLACE[:PE=N]",
             "slot, core, hwthread, l3cache, numa, socket, node, ppr:N:node",
             run_options_mapping_map_by),
    OPT_CALL(0, "rank-by", "PLACE", "how ranks are numbered: slot, node",
             run_options_mapping_rank_by),
    OPT_CALL(0, "bind-to", "PLACE", "none, core, hwthread, l3cache, numa, socket",
             run_options_mapping_bind_to),
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
    OPT_DOUBLE(0, "lost-after", "SECONDS", "how long a node may be silent (15)", T, lost_after_s),
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
    OPT_STR(0, "app", "FILE", NULL, T, app_file),
    OPT_CALL(0, "ppr", "N:PLACE", NULL, run_options_mapping_ppr),
    OPT_CALL(0, "npersocket", "N", NULL, run_options_mapping_per_socket),
    OPT_WORDS(0,
              "byslot|bycore|bynode|rr|bind-to-none|bind-to-core|bind-to-socket|"
              "use-hwthread-cpus|nolocal|pernode",
              NULL, NULL, T, old),
    /* hydra's and Intel MPI's */
    OPT_CALL(0, "ppn|perhost", "N", NULL, on_ppn),
    OPT_CALL(0, "hosts", "LIST", NULL, on_hosts),
    OPT_CALL(0, "env|genv", "NAME VALUE", NULL, on_env),
    OPT_CALL(0, "iface", "NAME", NULL, on_iface),
    OPT_CALL(0, "launcher-exec|bootstrap-exec", "PATH", NULL, on_rsh),
    /* What mpirun alone has a use for */
    OPT_WORDS(0, "prefix|tune|am|launch-agent|personality", "X", NULL, T, mpirun_only),
    OPT_WORDS(0, "pmixmca|prtemca", "K V", NULL, T, mpirun_only),
    OPT_WORDS(0, "noprefix|leave-session-attached|debug-daemons|do-not-resolve", NULL, NULL, T,
              mpirun_only),
    /* What nothing here has a use for */
    OPT_WORDS('s',
              "preload-binary|continuous|debug-devel|disable-recovery|enable-recovery|"
              "display-allocation|display-devel-allocation|display-diffable-map|display-topo|dvm|"
              "enable-instant-on-support|fwd-mpirun-port|get-stack-traces|index-argv-by-rank|novm|"
              "output-proctable|report-child-jobs-separately|report-state-on-timeout|"
              "set-cwd-to-session-dir|show-progress|use-regexp|xml|disable-auto-cleanup|"
              "disable-hostname-propagation|order-nodes|skip-launch-node|print-all-exitcodes|"
              "ordered-output|cleanup|silent-abort|enable-x|disable-x",
              NULL, NULL, T, ignored),
    OPT_WORDS(0,
              "max-vm-size|report-events|report-pid|report-uri|ompi-server|hnp|xml-file|"
              "preload-files|cf|cartofile|runtime-options|rmk|demux|topolib|localhost|usize|"
              "tmpdir|branch-count|pmi-port|nameserver|prepend-pattern",
              "X", NULL, T, ignored),
    /* What would change the job, and is not done */
    OPT_WORDS(0,
              "rf|rankfile|cpu-set|cpu-list|xterm|debugger|configfile|genvexcl|envexcl|gtool|"
              "membind|outfile-pattern|errfile-pattern|gpus-per-proc",
              "X", NULL, T, refused),
    OPT_WORDS(0, "debug|tv|genvnone|envnone|with-ft", NULL, NULL, T, refused),
    OPT_END,
};
#undef T

/* ---- the whole ---------------------------------------------------------------------------------
 */

void run_options_init(struct run_options *o, const char *who)
{
    *o = (struct run_options){.who = who,
                              .np = RUN_OPTIONS_NOT_GIVEN,
                              .per_node = RUN_OPTIONS_NOT_GIVEN,
                              .grace_s = RUN_OPTIONS_NOT_GIVEN};
}

static int parse(struct run_options *o, int argc, char **argv, struct err *e)
{
    int first = run_mpmd_first(argc, argv), rest = first;
    int rc = opt_parse(options, o, first, argv, &rest, e);
    if (rc == OPT_HELP)
        opt_help(stdout, o->who, "[options] [--] program [arguments]",
                 "Starts a job of N ranks, on this machine or on the nodes of a host file or an "
                 "allocation, each\nbound to its CPUs and its GPU's memory, and waits for its "
                 "end. Other names that mpirun and\nmpiexec have for these options are "
                 "understood too. A program that ends in .py is run with\npython3.",
                 options);
    if (rc != 0)
        return rc;
    run_mpmd_program(&o->argv, first - rest, argv + rest);
    return first < argc ? run_mpmd_parse(o, argc - first, argv + first, e) : 0;
}

/* --app FILE: its words as if they stood on the command line. */
static int parse_app_file(struct run_options *o, struct err *e)
{
    char ***words = &o->app_words; /* options keep pointers to them */
    if (strv_len(o->argv) > 0)
        return err_set(e, -EINVAL,
                       "--app '%s': it names the programs, and so does the command line",
                       o->app_file);
    strv_push(words, xstrdup(o->who));
    if (run_mpmd_read_file(words, o->app_file, e) < 0 ||
        parse(o, (int)strv_len(*words), *words, e) != 0)
        return err_wrap(e, "--app '%s'", o->app_file);
    return 0;
}

int run_options_parse(struct run_options *o, const char *who, int argc, char **argv, struct err *e)
{
    run_options_init(o, who);
    int rc = parse(o, argc, argv, e);
    if (rc == 0 && o->app_file)
        rc = parse_app_file(o, e);
    return rc == 0 ? run_options_resolve(o, e) : rc;
}

void run_options_free(struct run_options *o)
{
    char **all[] = {o->argv,     o->env, o->mpirun_args, o->mpirun_only, o->ignored,  o->refused,
                    o->warnings, o->old, o->host_lists,  o->host_files,  o->app_words};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        strv_free(all[i]);
    run_mpmd_free(o);
    hosts_free(o->hosts);
    hwloc_bitmap_free(o->show);
    redirect_map_free(&o->redirect.redirects);
    redirect_map_free(&o->redirect.tee);
}
