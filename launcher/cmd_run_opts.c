#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/opt.h"
#include "launcher/cmd_run.h"

enum { NOT_GIVEN = -1 };

/* ---- values ------------------------------------------------------------------------------------
 */

static const struct {
    const char *word;
    int map, bind; /* -1: not for this */
} places[] = {
    {"none", -1, PLAN_BIND_NONE},
    {"slot", PLAN_MAP_SLOT, -1},
    {"core", PLAN_MAP_CORE, PLAN_BIND_CORE},
    {"hwthread", PLAN_MAP_HWTHREAD, PLAN_BIND_HWTHREAD},
    {"l3cache", PLAN_MAP_L3, PLAN_BIND_L3},
    {"l3", PLAN_MAP_L3, PLAN_BIND_L3},
    {"numa", PLAN_MAP_NUMA, PLAN_BIND_NUMA},
    {"socket", PLAN_MAP_PACKAGE, PLAN_BIND_PACKAGE},
    {"package", PLAN_MAP_PACKAGE, PLAN_BIND_PACKAGE},
    {"node", PLAN_MAP_NODE, -1},
};

/* The place that the first `len` letters of `text` name. */
static int read_place(int *out, const char *text, size_t len, bool bind, struct err *e)
{
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        int value = bind ? places[i].bind : places[i].map;
        if (value >= 0 && strlen(places[i].word) == len && !memcmp(places[i].word, text, len)) {
            *out = value;
            return 0;
        }
    }
    err_set(e, -EINVAL, "'%.*s' is not known", (int)len, text);
    return err_hint(e, bind ? "none, core, hwthread, l3cache, numa, socket"
                            : "slot, core, hwthread, l3cache, numa, socket, node");
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

/* What may follow the place: ":PE=2:OVERSUBSCRIBE", apart by ':' or ','. */
static int read_modifiers(struct cmd_run_opts *o, const char *text, struct err *e)
{
    while (*text) {
        text++;
        size_t len = strcspn(text, ":,");
        if (strncasecmp(text, "PE=", 3) == 0) {
            AUTO(free) char *number = xstrndup(text + 3, len - 3);
            if (opt_int(&o->spec.cpus_per_rank, "PE", number, 1, 65536, e) < 0)
                return e->code;
        } else if (is_word(text, len, "OVERSUBSCRIBE") || is_word(text, len, "overload-allowed")) {
            o->spec.oversubscribe = true;
        } else if (!is_word(text, len, "NOOVERSUBSCRIBE") && !is_word(text, len, "if-supported")) {
            err_set(e, -EINVAL, "'%.*s' is not known", (int)len, text);
            return err_hint(e, "PE=N, OVERSUBSCRIBE");
        }
        text += len;
    }
    return 0;
}

/* "numa", "numa:PE=2", "ppr:4:node". */
static int on_map_by(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    const char *text = values[0];
    int map = PLAN_MAP_DEFAULT;
    if (strncmp(text, "ppr:", 4) == 0) {
        text += 4;
        size_t digits = strcspn(text, ":");
        AUTO(free) char *number = xstrndup(text, digits);
        if (opt_int(&o->per_node, "ppr", number, 1, 1 << 20, e) < 0)
            return e->code;
        text += digits + (text[digits] == ':');
        if (!is_word(text, strcspn(text, ":,"), "node"))
            return err_set(e, -EINVAL, "'%s': of ppr, only ppr:N:node is known", values[0]);
        return read_modifiers(o, text + 4, e);
    }
    size_t len = strcspn(text, ":");
    if (len > 0 && read_place(&map, text, len, false, e) < 0)
        return e->code;
    o->spec.map_by = (enum plan_map)map;
    return read_modifiers(o, text + len, e);
}

static int on_bind_to(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    int bind = PLAN_BIND_DEFAULT;
    size_t len = strcspn(values[0], ":");
    if (read_place(&bind, values[0], len, true, e) < 0)
        return e->code;
    o->spec.bind_to = (enum plan_bind)bind;
    return read_modifiers(o, values[0] + len, e);
}

static int on_variable(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    if (!*values[0] || *values[0] == '=')
        return err_set(e, -EINVAL, "'%s' has no name", values[0]);
    strv_push(&o->env, xstrdup(values[0]));
    return 0;
}

/* Open MPI's parameters are variables to its programs. */
static int on_mca(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    strv_push(&o->env, xasprintf("OMPI_MCA_%s=%s", values[0], values[1]));
    return 0;
}

static bool is_this_host(const char *name)
{
    char own[256] = "";
    (void)gethostname(own, sizeof own - 1); /* empty then: no match */
    return !strcmp(name, "localhost") || !strcmp(name, "127.0.0.1") || !strcmp(name, own);
}

/* "localhost:4": the slots of this machine. */
static int on_host(void *into, char *const *values, struct err *e)
{
    struct cmd_run_opts *o = into;
    AUTO(free) char *list = xstrdup(values[0]);
    for (char *rest = list, *one; (one = strsep(&rest, ","));) {
        char *slots = strchr(one, ':');
        if (slots)
            *slots++ = '\0';
        int n = 1;
        if (slots && opt_int(&n, one, slots, 1, 1 << 20, e) < 0)
            return e->code;
        if (!is_this_host(one)) {
            err_set(e, -EINVAL, "'%s' is another machine, and all ranks are started on this one",
                    one);
            return err_hint(e, "start it there, or use -H localhost:N");
        }
        o->hosts_slots += n;
    }
    return 0;
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

/* ---- the options -------------------------------------------------------------------------------
 */

#define T struct cmd_run_opts
static const struct opt options[] = {
    OPT_INT('n', "np|c", "N", "number of ranks (one a GPU; without GPUs one a core)", T, np),
    OPT_CALL('N', "npernode|nproc-per-node|nproc_per_node", "N", "the same for one machine",
             on_per_node),
    OPT_CALL('x', "x", "NAME[=VALUE]", "pass a variable to the ranks, or set it", on_variable),
    OPT_STR(0, "wdir|wd", "DIR", "the ranks' directory", T, spec.wdir),
    OPT_CALL(0, "map-by", "PLACE[:PE=N]", "slot, core, hwthread, l3cache, numa, socket, node",
             on_map_by),
    OPT_CALL(0, "bind-to", "PLACE", "none, core, hwthread, l3cache, numa, socket", on_bind_to),
    OPT_STR(0, "cpus", "LIST", "the job's part of the CPUs (0-3,8)", T, spec.cpus),
    OPT_STR(0, "gpus", "LIST", "the job's part of the GPUs (0,2; '' for none)", T, spec.gpus),
    OPT_FLAG(0, "oversubscribe", "more ranks than CPUs or GPUs are fine", T, spec.oversubscribe),
    OPT_CALL('H', "host", "HOST[:N]", "only this machine: localhost:4 is 4 ranks", on_host),
    OPT_FLAG(0, "report-bindings|display-map", "print who runs where, then run", T,
             report_bindings),
    OPT_FLAG(0, "dry-run", "print the plan, start nothing", T, dry_run),
    OPT_FLAG(0, "json", "with --dry-run: as JSON", T, json),
    OPT_FLAG(0, "tag-output", "mark each line with its rank", T, style.tag),
    OPT_FLAG(0, "timestamp-output", "mark each line with the time", T, style.timestamp),
    OPT_FLAG(0, "merge-stderr-to-stdout", "both on stdout", T, style.merge),
    OPT_STR(0, "output-filename", "DIR", "keep the output in DIR/rank.N/stdout and stderr too", T,
            spec.output_dir),
    OPT_DOUBLE(0, "grace", "SECONDS", "from SIGTERM to SIGKILL (30)", T, grace_s),
    OPT_DOUBLE(0, "timeout", "SECONDS", "end the job after that time, with status 124", T,
               timeout_s),
    OPT_DOUBLE(0, "hang-timeout", "SECONDS", "end a job that stands still so long, say where", T,
               hang_timeout_s),
    OPT_INT(0, "max-restarts|max_restarts", "N", "start a failed job again, N times at most", T,
            spec.max_restarts),
    OPT_STR(0, "events", "FILE", "append what happens, as lines of JSON", T, events),
    OPT_INT(0, "master-port|master_port", "PORT", "MASTER_PORT (a free one)", T, spec.master_port),
    OPT_FLAG(0, "no-hold-port", "do not keep MASTER_PORT bound meanwhile", T, spec.no_hold_port),
    OPT_FLAG(0, "no-pmix", "no PMIx server: the program is not MPI", T, spec.no_pmix),
    OPT_CALL(0, "mca|gmca", "KEY VALUE", "set a parameter of Open MPI", on_mca),
    OPT_FLAG('q', "quiet", "no report of a failure", T, quiet),
    OPT_FLAG('v', "verbose", "say more", T, verbose),
    OPT_FLAG(0, "allow-run-as-root", NULL, T, as_root),
    OPT_END,
};
#undef T

/* ---- the whole ---------------------------------------------------------------------------------
 */

static bool is_python(const char *program)
{
    size_t len = strlen(program);
    return len > 3 && strcmp(program + len - 3, ".py") == 0;
}

static int decide_ranks(struct cmd_run_opts *o, struct err *e)
{
    if (o->np >= 0 && o->per_node > 0 && o->np != o->per_node)
        return err_set(e, -EINVAL, "%d ranks, but %d a node, and there is one node", o->np,
                       o->per_node);
    o->spec.ranks = o->np >= 0 ? o->np : o->per_node >= 0 ? o->per_node : o->hosts_slots;
    if (o->np == 0) {
        err_set(e, -EINVAL, "-np 0: no rank would be started");
        return err_hint(e, "leave -np out for one rank a GPU, or a core where there is none");
    }
    if (o->hosts_slots > 0 && o->spec.ranks > o->hosts_slots && !o->spec.oversubscribe) {
        err_set(e, -EINVAL, "%d ranks, but --host gives %d slot%s", o->spec.ranks, o->hosts_slots,
                o->hosts_slots == 1 ? "" : "s");
        return err_hint(e, "-H localhost:%d, or --oversubscribe", o->spec.ranks);
    }
    return 0;
}

static int check(struct cmd_run_opts *o, struct err *e)
{
    if (o->np < -1)
        return err_set(e, -EINVAL, "-np %d: at least 1 rank is needed", o->np);
    if (o->spec.max_restarts < 0)
        return err_set(e, -EINVAL, "--max-restarts %d: 0 or more", o->spec.max_restarts);
    if ((o->grace_s < 0 && o->grace_s != NOT_GIVEN) || o->timeout_s < 0 || o->grace_s > 1e6 ||
        o->timeout_s > 1e9 || o->hang_timeout_s < 0 || o->hang_timeout_s > 1e9)
        return err_set(e, -EINVAL, "a time is negative or too long");
    if (o->json && !o->dry_run)
        return err_set(e, -EINVAL, "--json goes with --dry-run");
    if (strv_len(o->argv) == 0) {
        err_set(e, -EINVAL, "there is no program to run");
        return err_hint(e, "drover run -np 4 ./program");
    }
    return decide_ranks(o, e);
}

int cmd_run_parse(struct cmd_run_opts *o, int argc, char **argv, struct err *e)
{
    *o = (struct cmd_run_opts){.np = -1, .per_node = -1, .grace_s = NOT_GIVEN};
    int rest = argc;
    int rc = opt_parse(options, o, argc, argv, &rest, e);
    if (rc == OPT_HELP)
        opt_help(stdout, "drover run", "[options] [--] program [arguments]",
                 "Starts a job of N ranks on this machine, each bound to its CPUs and its GPU's "
                 "memory, and\nwaits for its end. A program that ends in .py is run with python3.",
                 options);
    if (rc != 0)
        return rc;
    if (rest < argc && is_python(argv[rest])) { /* as torchrun does; -u: lines come as printed */
        strv_push(&o->argv, xstrdup("python3"));
        strv_push(&o->argv, xstrdup("-u"));
    }
    for (int i = rest; i < argc; i++)
        strv_push(&o->argv, xstrdup(argv[i]));
    rc = check(o, e);
    o->spec.argv = o->argv;
    o->spec.env = o->env;
    if (o->grace_s >= 0) /* a spec's 0 means "as usual" */
        o->spec.grace_ms = o->grace_s * 1000 < 1 ? 1 : (int)(o->grace_s * 1000);
    return rc;
}

void cmd_run_opts_free(struct cmd_run_opts *o)
{
    strv_free(o->argv);
    strv_free(o->env);
}
