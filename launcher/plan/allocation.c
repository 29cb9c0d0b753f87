#include "launcher/plan/allocation.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/opt.h"
#include "launcher/plan/env.h"
#include "launcher/plan/hostfile.h"

enum { DIGITS_MAX = 9 };

/* ---- Slurm's lists of names ----------------------------------------------------------------- */

/* The names so far. The array has room for HOSTS_MAX, so that it does not move for each. */
struct expansion {
    char **names; /* strv */
    size_t count;
};

static int add_name(struct expansion *x, const char *name, struct err *e)
{
    int rc = hosts_check_name(name, e);
    if (rc < 0)
        return rc;
    if (x->count >= HOSTS_MAX)
        return err_set(e, -E2BIG, "more than %d hosts", HOSTS_MAX);
    x->names[x->count++] = xstrdup(name);
    return 0;
}

static int expand(struct expansion *x, const char *prefix, const char *text, size_t len,
                  struct err *e);

/* Expands one item between brackets, "001" or "001-003". For each number, adds the names that
 * consist of `prefix`, the number (as wide as the first one) and the expansion of `rest`, the text
 * after the bracket. */
static int expand_range(struct expansion *x, const char *prefix, const char *range, const char *end,
                        const char *rest, size_t rest_len, struct err *e)
{
    size_t first_len = strspn(range, "0123456789"), last_len = first_len;
    const char *last = range;
    if (range + first_len < end && range[first_len] == '-') {
        last = range + first_len + 1;
        last_len = strspn(last, "0123456789");
    }
    if (first_len == 0 || last_len == 0 || first_len > DIGITS_MAX || last_len > DIGITS_MAX ||
        last + last_len != end)
        return err_set(e, -EINVAL, "invalid number range '%.*s'", (int)(end - range), range);
    long from = strtol(range, NULL, 10), to = strtol(last, NULL, 10);
    if (to < from)
        return err_set(e, -EINVAL, "invalid number range '%.*s': it is descending",
                       (int)(end - range), range);
    for (long n = from; n <= to; n++) {
        AUTO(free) char *name = xasprintf("%s%0*ld", prefix, (int)first_len, n);
        int rc = expand(x, name, rest, rest_len, e);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Expands one name with any number of brackets ("r[1-2]n[01-04]"). Each resulting name is `prefix`,
 * the text before the first bracket, one number of the bracket, and the expansion of the rest. */
static int expand(struct expansion *x, const char *prefix, const char *text, size_t len,
                  struct err *e)
{
    const char *open = memchr(text, '[', len), *end = text + len;
    AUTO(free)
    char *stem = xasprintf("%s%.*s", prefix, (int)(open ? open - text : (long)len), text);
    if (memchr(text, ']', open ? (size_t)(open - text) : len))
        return err_set(e, -EINVAL, "']' without '['");
    if (!open)
        return add_name(x, stem, e);
    if (strlen(stem) > HOSTS_NAME_MAX) /* this also limits the depth of the recursion */
        return hosts_check_name(stem, e);
    const char *close = memchr(open, ']', (size_t)(end - open));
    if (!close)
        return err_set(e, -EINVAL, "'[' without ']'");
    for (const char *p = open + 1;; p++) {
        const char *comma = memchr(p, ',', (size_t)(close - p)), *stop = comma ? comma : close;
        int rc = expand_range(x, stem, p, stop, close + 1, (size_t)(end - close - 1), e);
        if (rc < 0)
            return rc;
        p = stop;
        if (stop == close)
            return 0;
    }
}

int allocation_nodelist(char ***out, const char *list, struct err *e)
{
    AUTO(strv) char **names = xcalloc(HOSTS_MAX + 1, sizeof *names);
    struct expansion x = {.names = names};
    for (const char *p = list;; p++) {
        size_t len = 0;
        for (int depth = 0; p[len] && (p[len] != ',' || depth > 0); len++)
            depth += (p[len] == '[') - (p[len] == ']');
        int rc = expand(&x, "", p, len, e);
        if (rc < 0)
            return rc;
        p += len;
        if (!*p)
            break;
    }
    *out = TAKE(names);
    return 0;
}

/* Reads Slurm's "2(x3),1": one number per node, for `count` nodes. */
static int read_counts(int *into, int count, const char *text, struct err *e)
{
    int n = 0;
    const char *p = text;
    while (*p && n < count) {
        char *end;
        long value = strtol(p, &end, 10), times = 1;
        if (end == p || value < 0 || value > HOSTS_SLOTS_MAX)
            break;
        if (strncmp(end, "(x", 2) == 0) {
            p = end + 2;
            times = strtol(p, &end, 10);
            if (end == p || times < 1 || *end++ != ')')
                break;
        }
        for (; times > 0 && n < count; times--)
            into[n++] = (int)value;
        p = end + (*end == ',' && end[1]);
        if (p == end)
            break;
    }
    if (n == count && !*p)
        return 0;
    return err_set(e, -EINVAL, "'%s' is not a list of %d numbers (such as 2(x3),1)", text, count);
}

static int int_from_env(char *const *env, const char *name)
{
    const char *value = env_get(env, name);
    int n = 0;
    return value && opt_int(&n, name, value, 0, INT_MAX, NULL) == 0 ? n : 0;
}

/* ---- Slurm ---------------------------------------------------------------------------------- */

static const char *nodelist_of(char *const *env, const char **name)
{
    static const char *const names[] = {"SLURM_JOB_NODELIST", "SLURM_NODELIST"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *list = env_get(env, *name = names[i]);
        if (list && *list)
            return list;
    }
    return NULL;
}

/* Reads one number per node from a variable. Returns 0 if it is not set, else 1. */
static int read_node_counts(int *into, int count, char *const *env, const char *name, struct err *e)
{
    const char *value = env_get(env, name);
    if (!value)
        return 0;
    return read_counts(into, count, value, e) < 0 ? err_wrap(e, "%s", name) : 1;
}

/* Sets the slots of each node. Usually these are its tasks. But one task per node is meant to be a
 * launcher such as torchrun, as torchrun's guides say. So a node gets one slot per GPU if the user
 * requests one task per node, or no tasks. */
static int slurm_slots(int *slots, int count, char *const *env, struct err *e)
{
    bool tasks_requested = env_get(env, "SLURM_NTASKS") || env_get(env, "SLURM_NTASKS_PER_NODE");
    int gpus = int_from_env(env, "SLURM_GPUS_ON_NODE"), slots_max = 0;
    int nodes = int_from_env(env, "SLURM_NNODES"); /* a step's, inside of one: so are its tasks */
    int rc = nodes == 0 || nodes == count
                 ? read_node_counts(slots, count, env, "SLURM_TASKS_PER_NODE", e)
                 : 0;
    if (rc < 0)
        return rc;
    for (int i = 0; i < count; i++) {
        if (rc == 0)
            slots[i] = int_from_env(env, "SLURM_NTASKS_PER_NODE");
        slots_max = slots[i] > slots_max ? slots[i] : slots_max;
    }
    if (gpus > 0 && (slots_max <= 1 || !tasks_requested)) {
        for (int i = 0; i < count; i++)
            slots[i] = gpus;
        return 0;
    }
    if (slots_max > 0)
        return 0;
    rc = read_node_counts(slots, count, env, "SLURM_JOB_CPUS_PER_NODE", e);
    int cpus_per_task = int_from_env(env, "SLURM_CPUS_PER_TASK");
    for (int i = 0; rc > 0 && cpus_per_task > 1 && i < count; i++)
        slots[i] = slots[i] > cpus_per_task ? slots[i] / cpus_per_task : 1;
    return rc < 0 ? rc : 0;
}

int allocation_slurm(struct hosts **out, char *const *env, struct err *e)
{
    const char *name, *list = nodelist_of(env, &name);
    if (!list)
        return 0;
    AUTO(strv) char **names = NULL;
    if (allocation_nodelist(&names, list, e) < 0)
        return err_wrap(e, "%s '%s'", name, list);
    int count = (int)strv_len(names);
    AUTO(free) int *slots = xcalloc((size_t)count, sizeof *slots);
    int rc = slurm_slots(slots, count, env, e);
    if (rc < 0)
        return rc;
    AUTO(hosts) struct hosts *h = xzalloc(sizeof *h);
    for (int i = 0; i < count && rc == 0; i++)
        rc = hosts_try_add(h, names[i], slots[i], 0, e);
    if (rc < 0)
        return err_wrap(e, "%s '%s'", name, list);
    *out = TAKE(h);
    return 1;
}

bool allocation_slurm_has(char *const *env, const struct hosts *h)
{
    AUTO(hosts) struct hosts *allocated = NULL;
    if (allocation_slurm(&allocated, env, NULL) <= 0)
        return false;
    for (int i = 0; i < h->count; i++)
        if (!h->at[i].here && !hosts_find(allocated, h->at[i].name))
            return false;
    return true;
}

/* ---- other batch systems -------------------------------------------------------------------- */

int allocation_lsf(struct hosts **out, const char *value, struct err *e)
{
    AUTO(free) char *text = xstrdup(value);
    AUTO(hosts) struct hosts *h = xzalloc(sizeof *h);
    char *save = NULL;
    for (char *name = strtok_r(text, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        const char *slots = strtok_r(NULL, " ", &save);
        int n = 0;
        if (!slots || opt_int(&n, name, slots, 1, HOSTS_SLOTS_MAX, e) < 0)
            return err_set(e, -EINVAL, "'%s': no number of slots after host '%s'", value, name);
        int rc = hosts_try_add(h, name, n, 0, e);
        if (rc < 0)
            return rc;
    }
    if (h->count == 0)
        return err_set(e, -EINVAL, "no host is listed");
    *out = TAKE(h);
    return 0;
}

/* Adds the host of one line: a name, followed by a number of slots if `with_slots`. */
static int add_line(struct hosts *h, char *line, bool with_slots, struct err *e)
{
    char *save = NULL, *name = strtok_r(line, " \t\r", &save);
    const char *slots = name && with_slots ? strtok_r(NULL, " \t\r", &save) : NULL;
    int n = 1;
    if (!name)
        return 0;
    if (with_slots && (!slots || opt_int(&n, name, slots, 1, HOSTS_SLOTS_MAX, e) < 0))
        return err_set(e, -EINVAL, "host '%s': no number of slots", name);
    return hosts_try_add(h, name, n, 0, e);
}

int allocation_lines(struct hosts **out, const char *what, const char *text, bool with_slots,
                     struct err *e)
{
    AUTO(hosts) struct hosts *h = xzalloc(sizeof *h);
    AUTO(free) char *copy = xstrdup(text);
    int n = 1;
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")); n++)
        if (add_line(h, line, with_slots, e) < 0)
            return err_wrap(e, "%s:%d", what, n);
    if (h->count == 0)
        return err_set(e, -EINVAL, "'%s': no host is listed", what);
    *out = TAKE(h);
    return 0;
}

/* ---- the environment ------------------------------------------------------------------------ */

static const struct {
    const char *variable; /* names a file, unless its value is the list */
    enum { VALUE, NAMES, NAMES_AND_SLOTS, HOST_FILE } form;
} sources[] = {
    {"PBS_NODEFILE", NAMES},
    {"LSB_DJOB_HOSTFILE", NAMES},
    {"LSB_MCPU_HOSTS", VALUE},
    {"PE_HOSTFILE", NAMES_AND_SLOTS},
    {"OMPI_MCA_orte_default_hostfile", HOST_FILE},
    {"PRTE_MCA_prte_default_hostfile", HOST_FILE},
    {"HYDRA_HOST_FILE", HOST_FILE},
    {"I_MPI_HYDRA_HOST_FILE", HOST_FILE},
};

int allocation_find(struct hosts **out, char *const *env, struct err *e)
{
    int rc = allocation_slurm(out, env, e);
    for (size_t i = 0; rc == 0 && i < COUNT_OF(sources); i++) {
        const char *value = env_get(env, sources[i].variable);
        AUTO(free) char *text = NULL;
        if (!value || !*value)
            continue;
        if (sources[i].form == VALUE)
            rc = allocation_lsf(out, value, e);
        else if ((rc = hostfile_text(&text, value, e)) == 0)
            rc = sources[i].form == HOST_FILE
                     ? hostfile_parse(out, value, text, e)
                     : allocation_lines(out, value, text, sources[i].form == NAMES_AND_SLOTS, e);
        return rc < 0 ? err_wrap(e, "%s", sources[i].variable) : 1;
    }
    return rc;
}
