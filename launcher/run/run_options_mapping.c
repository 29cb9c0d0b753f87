/* The option values that say where ranks run and what starts them there. */
#include "launcher/run/run_options_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/opt.h"
#include "launcher/remote/remote_launcher.h"

/* Names of places, from Open MPI 4 and 5 and from hydra (board, machine, rr, pu). */
static const struct {
    const char *word;
    int map, bind; /* -1: not a value of this option */
} places[] = {
    {"none", -1, PLAN_BIND_NONE},
    {"slot", PLAN_MAP_SLOT, -1},
    {"core", PLAN_MAP_CORE, PLAN_BIND_CORE},
    {"hwthread", PLAN_MAP_HWTHREAD, PLAN_BIND_HWTHREAD},
    {"pu", PLAN_MAP_HWTHREAD, PLAN_BIND_HWTHREAD},
    {"rr", PLAN_MAP_HWTHREAD, PLAN_BIND_HWTHREAD},
    {"l3cache", PLAN_MAP_L3, PLAN_BIND_L3},
    {"l3", PLAN_MAP_L3, PLAN_BIND_L3},
    {"l2cache", PLAN_MAP_L2, PLAN_BIND_L2},
    {"l2", PLAN_MAP_L2, PLAN_BIND_L2},
    {"l1cache", PLAN_MAP_L1, PLAN_BIND_L1},
    {"l1", PLAN_MAP_L1, PLAN_BIND_L1},
    {"numa", PLAN_MAP_NUMA, PLAN_BIND_NUMA},
    {"socket", PLAN_MAP_PACKAGE, PLAN_BIND_PACKAGE},
    {"package", PLAN_MAP_PACKAGE, PLAN_BIND_PACKAGE},
    {"node", PLAN_MAP_NODE, -1},
    {"board", PLAN_MAP_NODE, PLAN_BIND_NONE},
    {"machine", PLAN_MAP_NODE, PLAN_BIND_NONE},
};

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

/* Reads the place that the first `len` bytes of `text` name. */
static int read_place(int *out, const char *text, size_t len, bool bind, struct err *e)
{
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        int value = bind ? places[i].bind : places[i].map;
        if (value >= 0 && is_word(text, len, places[i].word)) {
            *out = value;
            return 0;
        }
    }
    err_set(e, -EINVAL, "unknown place '%.*s'", (int)len, text);
    return err_hint(
        e, bind
               ? "none, core, hwthread, l1cache, l2cache, l3cache, numa, socket"
               : "slot, core, hwthread, l1cache, l2cache, l3cache, numa, socket, node, ppr:N:node");
}

static int read_count(int *out, const char *what, const char *text, size_t len, struct err *e)
{
    AUTO(free) char *number = xstrndup(text, len);
    return opt_int(out, what, number, 1, 1 << 20, e);
}

/* Reads one modifier after a place. The modifiers in `defaults` have no effect, since drover always
 * works as they say. */
static int read_modifier(struct run_options *o, const char *text, size_t len, struct err *e)
{
    static const char *const defaults[] = {"if-supported", "SPAN",      "CORECPUS",
                                           "INHERIT",      "NOINHERIT", "FILL"};
    bool no_oversubscribe = is_word(text, len, "NOOVERSUBSCRIBE");
    if (len > 3 && strncasecmp(text, "PE=", 3) == 0)
        return read_count(&o->spec.cpus_per_rank, "PE", text + 3, len - 3, e);
    if (no_oversubscribe || is_word(text, len, "OVERSUBSCRIBE") ||
        is_word(text, len, "overload-allowed")) {
        o->spec.oversubscribe = !no_oversubscribe;
        return 0;
    }
    if (is_word(text, len, "NOLOCAL")) {
        o->no_local = true;
        return 0;
    }
    if (is_word(text, len, "HWTCPUS")) {
        if (o->spec.map_by == PLAN_MAP_DEFAULT)
            o->spec.map_by = PLAN_MAP_HWTHREAD;
        return 0;
    }
    for (size_t i = 0; i < COUNT_OF(defaults); i++)
        if (is_word(text, len, defaults[i]))
            return 0;
    err_set(e, -EINVAL, "unknown modifier '%.*s'", (int)len, text);
    return err_hint(e, "PE=N, OVERSUBSCRIBE, NOLOCAL, HWTCPUS");
}

/* Reads the modifiers after a place, such as ":PE=2:OVERSUBSCRIBE", separated by ':' or ','. In
 * hydra's "core:2" the number counts cores. */
static int read_modifiers(struct run_options *o, const char *text, struct err *e)
{
    while (*text) {
        text++;
        size_t len = strcspn(text, ":,");
        int rc = len > 0 && strspn(text, "0123456789") >= len
                     ? read_count(&o->spec.cpus_per_rank, "CPUs per rank", text, len, e)
                     : read_modifier(o, text, len, e);
        if (rc < 0)
            return rc;
        text += len;
    }
    return 0;
}

/* Reads a value of --ppr: "4:node:PE=2" or "4:socket". */
static int read_ppr(struct run_options *o, const char *text, struct err *e)
{
    int n = 0, of = 0;
    size_t digits = strcspn(text, ":");
    if (read_count(&n, "ppr", text, digits, e) < 0)
        return e->code;
    const char *place = text + digits + (text[digits] == ':');
    size_t len = strcspn(place, ":,");
    if (is_word(place, len, "slot") || read_place(&of, place, len, false, NULL) < 0) {
        err_set(e, -EINVAL, "'ppr:%s': the object is missing or unknown", text);
        return err_hint(e, "ppr:%d:node, or hwthread, core, l3cache, numa, socket", n);
    }
    o->spec.ppr = n;
    o->spec.ppr_of = (enum plan_map)of;
    o->spec.map_by = PLAN_MAP_PPR;
    return read_modifiers(o, place + len, e);
}

static int unsupported(const char *text, struct err *e)
{
    err_set(e, -EINVAL, "'%s' is not supported: drover maps by topology and host files", text);
    return err_hint(e, "slot, node, numa, socket, core, or ppr:N:node with --hostfile");
}

int run_options_mapping_map_by(void *opts, char *const *values, struct err *e)
{
    struct run_options *o = opts;
    const char *text = values[0];
    int map = (int)o->spec.map_by;
    if (strncasecmp(text, "ppr:", 4) == 0)
        return read_ppr(o, text + 4, e);
    size_t len = strcspn(text, ":");
    static const char rankfile[] = "rankfile:file="; /* Open MPI 5 */
    if (strncasecmp(text, rankfile, sizeof rankfile - 1) == 0) {
        o->rank_file = text + sizeof rankfile - 1;
        return 0;
    }
    if (is_word(text, len, "dist") || is_word(text, len, "seq") || is_word(text, len, "rankfile") ||
        is_word(text, len, "pe-list"))
        return unsupported(text, e);
    if (len > 0 && read_place(&map, text, len, false, e) < 0)
        return e->code;
    o->spec.map_by = (enum plan_map)map;
    return read_modifiers(o, text + len, e);
}

/* Reads hydra's "0+2,1+4": the CPUs of the first rank of a node, then of the second rank, and so
 * on. */
static int read_user_binding(struct run_options *o, const char *text, struct err *e)
{
    AUTO(free) char *copy = xstrdup(text);
    strv_free(TAKE(o->bind_slots));
    for (char *rest = copy, *one; (one = strsep(&rest, ","));) {
        if (!*one || strspn(one, "0123456789+-") != strlen(one)) {
            err_set(e, -EINVAL, "'user:%s': not a list of CPUs", text);
            return err_hint(e, "user:0+2,1+3 for CPUs 0 and 2, and 1 and 3");
        }
        for (char *plus; (plus = strchr(one, '+'));)
            *plus = ',';
        strv_push(&o->bind_slots, xasprintf("p%s", one));
    }
    return 0;
}

int run_options_mapping_bind_to(void *opts, char *const *values, struct err *e)
{
    struct run_options *o = opts;
    int bind = PLAN_BIND_DEFAULT;
    size_t len = strcspn(values[0], ":");
    if (is_word(values[0], len, "user") && values[0][len])
        return read_user_binding(o, values[0] + len + 1, e);
    if (read_place(&bind, values[0], len, true, e) < 0)
        return e->code;
    o->spec.bind_to = (enum plan_bind)bind;
    return read_modifiers(o, values[0] + len, e);
}

int run_options_mapping_rank_by(void *opts, char *const *values, struct err *e)
{
    struct run_options *o = opts;
    int by = PLAN_MAP_DEFAULT;
    size_t len = strcspn(values[0], ":");
    /* Open MPI 5: "fill" is node by node; "span" treats all nodes as one */
    if (is_word(values[0], len, "fill"))
        by = PLAN_MAP_SLOT;
    else if (!is_word(values[0], len, "span") && read_place(&by, values[0], len, false, e) < 0)
        return e->code;
    o->spec.rank_by = (enum plan_map)by;
    return read_modifiers(o, values[0] + len, e);
}

int run_options_mapping_ppr(void *opts, char *const *values, struct err *e)
{
    return read_ppr(opts, values[0], e);
}

int run_options_mapping_per_socket(void *opts, char *const *values, struct err *e)
{
    AUTO(free) char *text = xasprintf("%s:socket", values[0]);
    return read_ppr(opts, text, e);
}

int run_options_mapping_legacy(struct run_options *o, const char *option, struct err *e)
{
    static const struct {
        const char *name;
        int (*read)(void *opts, char *const *values, struct err *e);
        const char *value;
    } means[] = {
        {"byslot", run_options_mapping_map_by, "slot"},
        {"bycore", run_options_mapping_map_by, "core"},
        {"bynode", run_options_mapping_map_by, "node"},
        {"rr", run_options_mapping_map_by, "node"},
        {"bind-to-none", run_options_mapping_bind_to, "none"},
        {"bind-to-core", run_options_mapping_bind_to, "core"},
        {"bind-to-socket", run_options_mapping_bind_to, "socket"},
        {"use-hwthread-cpus", run_options_mapping_map_by, ":HWTCPUS"},
        {"nolocal", run_options_mapping_map_by, ":NOLOCAL"},
    };
    option += strspn(option, "-");
    if (strcmp(option, "pernode") == 0)
        o->per_node = 1;
    for (size_t i = 0; i < COUNT_OF(means); i++)
        if (strcmp(option, means[i].name) == 0) {
            char *values[] = {(char *)means[i].value, NULL};
            return means[i].read(o, values, e);
        }
    return 0;
}

/* ---- what starts ranks ---------------------------------------------------------------------- */

int run_options_mapping_engine(void *opts, char *const *values, struct err *e)
{
    const struct remote_launcher *launcher = remote_launcher_find(values[0]);
    struct run_options *o = opts;
    bool local = strcmp(values[0], PLAN_ENGINE_LOCAL) == 0;
    if (!local && strcmp(values[0], "auto") != 0 && (!launcher || launcher->hidden)) {
        err_set(e, -EINVAL, "unknown engine '%s'", values[0]);
        return err_hint(e, "local, " REMOTE_LAUNCHER_WORDS(", "));
    }
    o->spec.engine = local ? PLAN_ENGINE_LOCAL : launcher ? launcher->word : NULL;
    return 0;
}

int run_options_mapping_launcher(void *opts, char *const *values, struct err *e)
{
    char *local[] = {(char *)PLAN_ENGINE_LOCAL, NULL};
    struct run_options *o = opts;
    o->hydra_ssh = strcmp(values[0], "ssh") == 0;
    if (o->hydra_ssh || strcmp(values[0], "rsh") == 0)
        return 0;
    return run_options_mapping_engine(o, strcmp(values[0], "fork") == 0 ? local : values, e);
}
