#include "launcher/run/run_options_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/opt.h"
#include "launcher/remote/remote_launcher.h"

/* ---- values --------------------------------------------------------------------------------- */

static void set_variable(struct run_options *o, const char *name, const char *value)
{
    strv_push(&o->env, xasprintf("%s=%s", name, value));
}

/* Passes the variable "NAME" of drover's environment; "NCCL_*", as in Open MPI 5, passes every
 * variable that begins with "NCCL_". */
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
        strv_push(&o->warnings, xasprintf("-x %s: the variable is not set", name));
}

/* Handles -x: "A=1", "A" or "A,B". */
static int on_variable(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
    if (!*values[0] || *values[0] == '=')
        return err_set(e, -EINVAL, "'%s': the variable's name is missing", values[0]);
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

static int on_env(void *into, char *const *values, struct err *e)
{
    return run_mpmd_read_env(&((struct run_options *)into)->env, values, e);
}

/* Handles --mca. A parameter becomes a variable for the programs. If drover does not apply the
 * parameter itself, it also becomes an option of the real mpirun. */
static int on_mca(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
    AUTO(free) char *name = xasprintf("OMPI_MCA_%s", values[0]);
    set_variable(o, name, values[1]);
    mca_params_set(&o->mca, values[0], values[1], NULL);
    if (mca_params_is_launchers(values[0]))
        return 0;
    strv_push(&o->mpirun_args, xstrdup("--mca"));
    strv_push(&o->mpirun_args, xstrdup(values[0]));
    strv_push(&o->mpirun_args, xstrdup(values[1]));
    return 0;
}

/* Handles an option of Open MPI 5 that sets how its programs buffer their output: 0 not, 1 by line,
 * 2 fully. */
static int on_stream_buffering(void *into, char *const *values, struct err *e)
{
    int mode = 0;
    if (opt_int(&mode, "buffering", values[0], 0, 2, e) < 0)
        return -EINVAL;
    set_variable(into, "OMPI_MCA_ompi_stream_buffering", values[0]);
    return 0;
}

/* Handles --prtemca: a parameter of PRRTE, the launcher of Open MPI 5. */
static int on_prte_mca(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
    mca_params_set(&o->mca, values[0], values[1], NULL);
    if (mca_params_is_launchers(values[0]))
        return 0;
    bool for_ssh = strncmp(values[0], "plm_", 4) == 0; /* the engine ssh applies some of these */
    char ***words = for_ssh ? &o->mpirun_args : &o->mpirun_only;
    strv_push(words, xstrdup("--prtemca"));
    strv_push(words, xstrdup(values[0]));
    strv_push(words, xstrdup(values[1]));
    return 0;
}

/* Handles an option that names parameter files. Like mpirun, only passes the names to the MPI
 * library. */
static int on_param_files(void *into, char *const *values, struct err *e)
{
    return on_mca(into, (char *[]){(char *)"mca_base_param_file_prefix", values[0], NULL}, e);
}

static int on_tune_files(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
    AUTO(free) char *list = xstrdup(values[0]);
    for (char *rest = list, *one; (one = strsep(&rest, ","));)
        strv_push(&o->tune_files, xstrdup(one));
    return 0;
}

static int on_no_oversubscribe(void *into, char *const *values, struct err *e)
{
    ((struct run_options *)into)->spec.oversubscribe = false;
    return 0;
}

/* Handles hydra's option for the network interface: sets the parameters of Open MPI with the same
 * meaning. */
static int on_iface(void *into, char *const *values, struct err *e)
{
    char *tcp[] = {(char *)"btl_tcp_if_include", values[0], NULL};
    char *own[] = {(char *)"oob_tcp_if_include", values[0], NULL};
    (void)on_mca(into, tcp, e); /* on_mca() cannot fail */
    return on_mca(into, own, e);
}

/* Handles hydra's option for the program that replaces ssh. */
static int on_rsh(void *into, char *const *values, struct err *e)
{
    return on_mca(into, (char *[]){(char *)"plm_rsh_agent", values[0], NULL}, e);
}

static int on_ssh_args(void *into, char *const *values, struct err *e)
{
    return on_mca(into, (char *[]){(char *)"plm_rsh_args", values[0], NULL}, e);
}

int run_options_per_node(struct run_options *o, const char *text, struct err *e)
{
    bool cpu = strcmp(text, "cpu") == 0, gpu = strcmp(text, "gpu") == 0;
    if (cpu || gpu || strcmp(text, "auto") == 0) {
        o->per_node = 0;
        o->spec.gpus = cpu ? "" : o->spec.gpus;
        o->spec.needs_gpus = gpu;
        return 0;
    }
    int rc = opt_int(&o->per_node, "ranks per node", text, 1, RUN_OPTIONS_RANKS_MAX, e);
    return rc < 0 ? err_hint(e, "a number, gpu, cpu, auto") : 0;
}

static int on_per_node(void *into, char *const *values, struct err *e)
{
    return run_options_per_node(into, values[0], e);
}

static int on_ppn(void *into, char *const *values, struct err *e)
{
    ((struct run_options *)into)->hydra_hosts = true;
    return on_per_node(into, values, e);
}

static int on_hosts(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
    o->hydra_hosts = true;
    strv_push(&o->host_lists, xstrdup(values[0]));
    return 0;
}

static int on_stdin(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
    o->spec.stdin_null = strcmp(values[0], "none") == 0;
    o->spec.stdin_all = strcmp(values[0], "all") == 0;
    if (o->spec.stdin_null || o->spec.stdin_all)
        return 0;
    return opt_int(&o->spec.node.stdin_rank, "rank", values[0], 0, RUN_OPTIONS_RANKS_MAX, e);
}

/* Handles hydra's "-s all". Open MPI's -s has no value and means --preload-binary. */
static int on_s(void *into, char *const *values, struct err *e)
{
    const char *value = values[0] ? values[0] : "";
    bool ranks = *value && strspn(value, "0123456789,-") == strlen(value);
    if (!ranks && strcmp(value, "all") != 0 && strcmp(value, "none") != 0) {
        strv_push(&((struct run_options *)into)->ignored, xstrdup("-s"));
        return 0;
    }
    int rc = on_stdin(into, values, e);
    return rc < 0 ? rc : 1;
}

static int on_show(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
    if (!o->show)
        o->show = hwloc_bitmap_alloc();
    hwloc_bitmap_zero(o->show);
    o->spec.shown_rank = 0;
    if (strcmp(values[0], "failed") == 0 || strcmp(values[0], "none") == 0)
        return 0; /* a failure report shows the last lines of the failed rank */
    if (cpu_list_parse(o->show, values[0], NULL) < 0) {
        err_set(e, -EINVAL, "'%s' is not a list of ranks", values[0]);
        return err_hint(e, "0,3-5, or failed");
    }
    int last = hwloc_bitmap_last(o->show); /* < 0: a range such as "3-" has no last rank */
    o->spec.shown_rank = last > 0 ? last : 0;
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
    err_set(e, -EINVAL, "unknown tag '%s'", values[0]);
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

/* Handles the output directory: "DIR", or "DIR:nojobid,nocopy" as in Open MPI 4. The job id is
 * never part of the directory's name. */
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

/* Handles a list as in Open MPI 5: "tag,timestamp,merge,dir=D". */
static int on_output(void *into, char *const *values, struct err *e)
{
    struct run_options *o = into;
    for (char *rest = values[0], *one; (one = strsep(&rest, ",:"));) {
        if (!*one || strcmp(one, "raw") == 0)
            /* Without tags there is nothing to do for "raw": prompts are always shown. */
            continue;
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
            err_set(e, -EINVAL, "unknown output form '%s'", one);
            return err_hint(e, "tag, rank, timestamp, merge, raw, dir=DIR");
        }
    }
    return 0;
}

/* Handles --display. Shows the bindings also for reports that only the real mpirun has ("topo",
 * "map-devel"). */
static int on_display(void *into, char *const *values, struct err *e)
{
    ((struct run_options *)into)->report_bindings = true;
    return 0;
}

/* ---- the options ---------------------------------------------------------------------------- */

#define T struct run_options
#define FEATURE(x) OPT_PART(feature_##x.options, offsetof(T, features))
static const struct opt options[] = {
    OPT_GROUP("Where ranks run"),
    OPT_INT('n', "np||n|c", "N", "number of ranks (default: one per GPU, or one per core)", T, np,
            1, RUN_OPTIONS_RANKS_MAX),
    OPT_CALL('N', "npernode|nproc-per-node||N", "N", "ranks per node", on_per_node),
    OPT_STRV('H', "host", "LIST", "comma-separated nodes and their slots: a:4,b:4", T, host_lists),
    OPT_STRV('f', "hostfile||machinefile|machine|default-hostfile", "FILE",
             "file with one node and its slots per line", T, host_files),
    OPT_CALL(0, "engine", "local|" REMOTE_LAUNCHER_WORDS("|"),
             "how ranks are started (default: as the nodes need it)", run_options_mapping_engine),
    OPT_CALL(0, "ssh-args", "ARGS", "arguments for ssh: '-p 2222 -i KEY'", on_ssh_args),
    OPT_CALL(0, "map-by", "PLACE[:PE=N]",
             "place ranks by slot, core, hwthread, l3cache, numa, socket, node, or ppr:N:node",
             run_options_mapping_map_by),
    OPT_STR(0, "rankfile||rf", "FILE", "file with the host and the CPUs of each rank", T,
            rank_file),
    OPT_CALL(0, "rank-by", "slot|node", "number ranks by this (default: as mapped)",
             run_options_mapping_rank_by),
    OPT_FLAG(0, "oversubscribe", "allow more ranks than slots, CPUs or GPUs", T,
             spec.oversubscribe),
    OPT_FLAG(0, "dry-run||do-not-launch", "print the plan and start nothing", T, dry_run),
    OPT_FLAG(0, "json", "with --dry-run: print the plan as JSON", T, json),

    OPT_GROUP("CPUs and GPUs"),
    OPT_CALL(0, "bind-to", "none|core|hwthread|l3cache|numa|socket",
             "bind each rank to one of these (default: a share of the cores)",
             run_options_mapping_bind_to),
    OPT_INT(0, "cpus-per-rank||cpus-per-proc", "N", "CPUs per rank", T, spec.cpus_per_rank, 1,
            RUN_OPTIONS_RANKS_MAX),
    OPT_STR(0, "cpus||cpu-set|cpu-list", "LIST", "CPUs that the job may use: 0-3,8", T, spec.cpus),
    OPT_STR(0, "gpus", "LIST", "GPUs that the job may use: 0,2 ('' for none)", T, spec.gpus),
    OPT_STR(0, "place", "JOB.yaml", "select and lock GPUs by a job file (see drover place)", T,
            place),
    OPT_STR(0, "labels", "FILE", "with --place: file with labels of GPUs", T, labels),
    OPT_FLAG(0, "report-bindings||display-map|print-rank-map|display-devel-map",
             "print where each rank runs, then run the job", T, report_bindings),

    OPT_GROUP("Program and environment"),
    OPT_CALL('x', "||x|genvlist|envlist", "NAME[=VALUE]", "pass a variable to the ranks, or set it",
             on_variable),
    OPT_STR(0, "wdir||wd", "DIR", "working directory of the ranks", T, spec.wdir),
    OPT_STR(0, "gwdir", "DIR", NULL, T, gwdir),
    OPT_STR(0, "path", "DIR", "directory searched first for the program", T, path),
    OPT_CALL(0, "stdin", "RANK", "rank that reads stdin, all or none (default: 0)", on_stdin),
    OPT_STR(0, "app||configfile", "FILE", "file with one program and its options per line", T,
            app_file),

    OPT_GROUP("Output"),
    OPT_CALL(0, "show", "RANKS", "ranks whose output is shown: 0,3-5, or failed", on_show),
    OPT_CALL(0, "tag", "host|rank|mpirun|none", "tag before each line", on_tag),
    OPT_CALL(0, "tag-output", NULL, "tag lines as mpirun does: [1,RANK]<stdout>:", on_tag_output),
    OPT_CALL('l', "prepend-rank", NULL, "tag lines as hydra does: [RANK]", on_prepend_rank),
    OPT_FLAG(0, "timestamp-output", "tag lines with the time", T, style.timestamp),
    OPT_FLAG(0, "merge-stderr-to-stdout", "write the ranks' stderr to stdout", T, style.merge),
    OPT_CALL(0, "output-filename||output-directory", "DIR",
             "also write the output to DIR/rank.N/stdout and stderr", on_output_dir),
    OPT_STR(0, "outfile-pattern", "PATTERN", "write stdout to files, as hydra: %r rank, %h host", T,
            spec.output_files[0]),
    OPT_STR(0, "errfile-pattern", "PATTERN", "the same for stderr", T, spec.output_files[1]),
    FEATURE(metrics),
    FEATURE(events),
    FEATURE(report),
    FEATURE(run_log),
    FEATURE(baseline),
    OPT_FLAG(0, "no-pty", "make the ranks' stdout a pipe, not a pty", T, spec.node.no_pty),
    OPT_FLAG('q', "quiet", "do not report a failure", T, quiet),
    OPT_FLAG('v', "verbose", "also log what drover does", T, verbose),

    OPT_GROUP("Failures and time limits"),
    FEATURE(spares),
    FEATURE(preflight),
    OPT_INT(0, "max-restarts", "N", "restart a failed job up to N times (default: 0)", T,
            spec.max_restarts, 0, INT_MAX),
    OPT_FLAG(0, "restart-always", "restart also if the cause of the failure would come again", T,
             spec.restart_always),
    OPT_FLAG(0, "keep-going||disable-auto-cleanup",
             "let the others run if a rank exits with a status other than 0", T, spec.keeps_going),
    FEATURE(budget),
    FEATURE(hang),
    FEATURE(idle),
    FEATURE(finite),
    FEATURE(notify),
    OPT_DURATION(0, "start-timeout", "DURATION", "time for all nodes to connect (default: 60)", T,
                 start_timeout_s, 0, FEATURE_TIME_MAX_S),
    OPT_DURATION(0, "lost-after", "DURATION", "silence after which a node is lost (default: 15)", T,
                 lost_after_s, 1, FEATURE_TIME_MAX_S),
    OPT_DURATION(0, "grace", "DURATION", "time from SIGTERM to SIGKILL (default: 30)", T, grace_s,
                 0, FEATURE_TIME_MAX_S),

    OPT_GROUP("Sections and stragglers"),
    FEATURE(sections),
    FEATURE(stragglers),

    OPT_GROUP("Communication"),
    OPT_INT(0, "master-port", "PORT", "MASTER_PORT (default: a free port)", T,
            spec.node.master_port, 0, 65535),
    OPT_STR(0, "port-range", "A-B", "ports where drover listens, and MASTER_PORT", T, port_range),
    OPT_FLAG(0, "no-hold-port", "do not reserve MASTER_PORT while the job runs", T,
             spec.node.no_hold_port),
    OPT_INT(0, "tree-radix", "N",
            "with more nodes than N, agents form a tree with N per agent (default: 32)", T,
            spec.node.tree_radix, 1, RUN_OPTIONS_RANKS_MAX),
    OPT_FLAG(0, "no-pmix", "do not serve PMIx, since the program does not use MPI", T,
             spec.node.no_pmix),
    OPT_CALL(0, "mca||gmca", "KEY VALUE", "set a parameter of Open MPI", on_mca),

    OPT_GROUP("Other"),
    OPT_FLAG(0, "help-all", "show all options", T, help_all),
    /* Not shown: other names and lists of Open MPI */
    OPT_FLAG(0, "allow-run-as-root|genvall|envall", NULL, T, as_root),
    OPT_CALL(0, "nooversubscribe", NULL, NULL, on_no_oversubscribe),
    OPT_CALL(0, "output", "LIST", NULL, on_output),
    OPT_CALL(0, "stream-buffering", "0-2", NULL, on_stream_buffering),
    OPT_CALL(0, "display", "LIST", NULL, on_display),
    OPT_CALL(0, "ppr", "N:PLACE", NULL, run_options_mapping_ppr),
    OPT_CALL(0, "prtemca", "KEY VALUE", NULL, on_prte_mca),
    OPT_CALL(0, "am", "FILE", NULL, on_param_files),
    OPT_CALL(0, "tune", "FILE", NULL, on_tune_files),
    OPT_CALL(0, "npersocket", "N", NULL, run_options_mapping_per_socket),
    OPT_WORDS(0,
              "byslot|bycore|bynode|rr|bind-to-none|bind-to-core|bind-to-socket|"
              "use-hwthread-cpus|nolocal|pernode",
              NULL, NULL, T, legacy),
    /* Options of hydra and Intel MPI */
    OPT_CALL(0, "ppn|perhost", "N", NULL, on_ppn),
    OPT_CALL(0, "hosts", "LIST", NULL, on_hosts),
    OPT_CALL_SOME(0, "env|genv", "NAME VALUE", NULL, on_env),
    OPT_CALL(0, "iface", "NAME", NULL, on_iface),
    OPT_CALL(0, "launcher|bootstrap", "NAME", NULL, run_options_mapping_launcher),
    OPT_CALL(0, "launcher-exec|bootstrap-exec", "PATH", NULL, on_rsh),
    /* Options that only the real mpirun uses */
    OPT_WORDS(0, "prefix|launch-agent|personality", "X", NULL, T, mpirun_only),
    OPT_WORDS(0, "pmixmca", "K V", NULL, T, mpirun_only),
    OPT_WORDS(0, "noprefix|leave-session-attached|debug-daemons|do-not-resolve", NULL, NULL, T,
              mpirun_only),
    /* Ignored, without effect */
    OPT_CALL_SOME('s', NULL, "RANK", NULL, on_s),
    OPT_WORDS(0,
              "preload-binary|continuous|debug-devel|disable-recovery|enable-recovery|"
              "display-allocation|display-devel-allocation|display-diffable-map|display-topo|dvm|"
              "enable-instant-on-support|fwd-mpirun-port|get-stack-traces|index-argv-by-rank|novm|"
              "output-proctable|report-child-jobs-separately|report-state-on-timeout|"
              "set-cwd-to-session-dir|show-progress|use-regexp|xml|"
              "disable-hostname-propagation|order-nodes|skip-launch-node|print-all-exitcodes|"
              "ordered-output|cleanup|silent-abort|enable-x|disable-x",
              NULL, NULL, T, ignored),
    OPT_WORDS(0,
              "max-vm-size|report-events|report-pid|report-uri|ompi-server|hnp|xml-file|"
              "preload-files|cf|cartofile|runtime-options|rmk|demux|topolib|localhost|usize|"
              "tmpdir|branch-count|pmi-port|nameserver|prepend-pattern",
              "X", NULL, T, ignored),
    /* Not supported, although they would change the job */
    OPT_WORDS(0,
              "xterm|debugger|genvexcl|envexcl|gtool|"
              "membind|gpus-per-proc",
              "X", NULL, T, refused),
    OPT_WORDS(0, "debug|tv|genvnone|envnone|with-ft", NULL, NULL, T, refused),
    OPT_WORDS('m', "module", "MODULE", NULL, T, refused),
    OPT_END,
};
#undef FEATURE
#undef T

/* ---- command line --------------------------------------------------------------------------- */

void run_options_init(struct run_options *o, const char *program)
{
    *o = (struct run_options){.program = program,
                              .np = RUN_OPTIONS_NOT_GIVEN,
                              .per_node = RUN_OPTIONS_NOT_GIVEN,
                              .grace_s = RUN_OPTIONS_NOT_GIVEN,
                              .features.budget.start_when_pause_max_s = 60,
                              .features.spares.exclude_for_s = 3600};
}

/* Shown by --help. --help-all shows all. */
static const char usual_options[] =
    "np npernode host hostfile engine bind-to gpus place dry-run x wdir app show tag "
    "output-filename quiet max-restarts timeout hang-timeout stop-on-nan metrics report help-all";

static void print_help(const char *program, bool all)
{
    const struct opt_help help = {
        .program = program,
        .usage = "[options] [--] PROGRAM [arguments]",
        .summary =
            "Starts a job of N ranks on this node, or on the nodes of a host file or an "
            "allocation, binds each rank to its CPUs and the memory of its GPU, and waits for the "
            "job to end. The exit status is that of the first rank that failed.\n\nOther names "
            "that mpirun and mpiexec have for these options are accepted, too. A program whose "
            "name ends in .py runs with python3.",
        .examples = "drover run -np 4 ./train\n"
                    "drover run -H a:8,b:8 --max-restarts 3 python3 train.py --epochs 10\n"
                    "drover run -np 1 ./head : -np 3 ./worker",
        .usual = all ? NULL : usual_options,
    };
    opt_print_help(stdout, &help, options);
}

static int parse(struct run_options *o, int argc, char **argv, struct err *e)
{
    int first = run_mpmd_first(argc, argv), rest = first;
    int rc = opt_parse(options, o, first, argv, &rest, e);
    if (rc == OPT_HELP || (rc == 0 && o->help_all)) {
        print_help(o->program, o->help_all);
        return OPT_HELP;
    }
    if (rc != 0)
        return rc;
    run_mpmd_program(&o->argv, first - rest, argv + rest);
    return first < argc ? run_mpmd_parse(o, argc - first, argv + first, e) : 0;
}

/* Handles --app FILE: reads the words of the file as if they were the command line. */
static int parse_app_file(struct run_options *o, struct err *e)
{
    char ***words = &o->app_words; /* options point to them */
    if (strv_len(o->argv) > 0)
        return err_set(e, -EINVAL, "--app '%s': the command line names a program, too",
                       o->app_file);
    strv_push(words, xstrdup(o->program));
    if (run_mpmd_read_file(words, o->app_file, ":", e) < 0 ||
        parse(o, (int)strv_len(*words), *words, e) != 0)
        return err_wrap(e, "--app '%s'", o->app_file);
    return 0;
}

int run_options_probe(struct run_options *probe, int argc, char *const *words, struct err *e)
{
    AUTO(strv) char **copy = NULL; /* some options cut their values */
    for (int i = 0; i < argc; i++)
        strv_push(&copy, xstrdup(words[i]));
    int rest = argc;
    run_options_init(probe, copy[0]);
    return opt_parse(options, probe, run_mpmd_first(argc, copy), copy, &rest, e);
}

int run_options_parse(struct run_options *o, const char *program, int argc, char **argv,
                      struct err *e)
{
    run_options_init(o, program);
    int rc = run_options_add_params(o, argc, argv, e);
    if (rc == 0)
        rc = parse(o, (int)strv_len(o->words), o->words, e);
    if (rc == 0 && o->app_file)
        rc = parse_app_file(o, e);
    return rc == 0 ? run_options_resolve(o, e) : rc;
}

void run_options_free(struct run_options *o)
{
    char **all[] = {o->argv,      o->env,        o->mpirun_args, o->mpirun_only, o->ignored,
                    o->refused,   o->warnings,   o->legacy,      o->host_lists,  o->host_files,
                    o->app_words, o->bind_slots, o->words,       o->tune_files};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        strv_free(all[i]);
    mca_params_free(&o->mca);
    run_mpmd_free(o);
    hosts_free(o->hosts);
    hosts_free(o->own_hosts);
    hosts_free(o->features.spares.candidates);
    hostfile_free_ranks(o->rankfile);
    free(o->cwd);
    section_limits_free(&o->features.sections.limits);
    free(o->features.sections.learnt);
    free(o->ft_config);
    hwloc_bitmap_free(o->show);
    feature_redirect_map_free(&o->features.redirect.redirects);
    feature_redirect_map_free(&o->features.redirect.tee);
}
