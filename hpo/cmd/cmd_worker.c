/* cmd_worker - `drover worker`: runs trials of a sweep on this node. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/clock.h"
#include "common/entropy.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/cmd/node_metrics.h"
#include "hpo/cmd/worker_display.h"
#include "hpo/store/lockfile.h"
#include "hpo/store/sweep_dir.h"
#include "hpo/transport/peer_table.h"
#include "hpo/worker/worker.h"
#include "launcher/doctor/preflight.h"
#include "launcher/io/terminal.h"
#include "launcher/metrics/metrics_address.h"
#include "launcher/metrics/metrics_server.h"
#include "launcher/node/cgroup.h"
#include "launcher/node/limits.h"
#include "launcher/place/placement.h"

enum { LIBRARY_THREADS = 6 }; /* two of ZeroMQ, four of libuv */

enum { DAY_S = 86400 };

struct worker_options {
    int places;
    double patience_s, grace_s, idle_s; /* grace_s < 0: not given */
    const char *cpus, *gpus, *place, *labels, *lock, *left, *key, *wdir, *dir, *id, *metrics;
    bool finish, plain, no_preflight;
};

static const struct opt options[] = {
    OPT_GROUP("Connection"),
    OPT_STR(0, "key", "FILE", "the sweep's worker.key (default: $DROVER_SWEEP_KEY)",
            struct worker_options, key),
    OPT_FLAG(0, "plain", "connect without a key to a sweep with --plain, on loopback",
             struct worker_options, plain),
    OPT_STR(0, "id", "ID", "worker name, new to this sweep (default: generated)",
            struct worker_options, id),
    OPT_DURATION(0, "patience", "DURATION",
                 "keep trials running without a coordinator (default: 60)", struct worker_options,
                 patience_s, 1, DAY_S),
    OPT_GROUP("Resources of this node"),
    OPT_INT(0, "places", "N", "run up to N trials at once (default: as many as fit)",
            struct worker_options, places, 1, WIRE_SLOTS_MAX),
    OPT_STR(0, "cpus", "LIST", "CPUs to use, as 0-3,8 (default: all allowed)",
            struct worker_options, cpus),
    OPT_STR(0, "gpus", "LIST", "GPUs to use, as 0,2 or MIG-41 (default: all visible)",
            struct worker_options, gpus),
    OPT_STR(0, "place", "JOB.yaml", "select and lock GPUs by a job file (see drover place)",
            struct worker_options, place),
    OPT_STR(0, "labels", "FILE", "with --place: file with labels of GPUs", struct worker_options,
            labels),
    OPT_FLAG(0, "no-preflight", "do not check the GPUs of this node first", struct worker_options,
             no_preflight),
    OPT_GROUP("Files"),
    OPT_STR(0, "wdir", "DIR", "working directory of trials (default: that of the sweep)",
            struct worker_options, wdir),
    OPT_STR(0, "dir", "D", "trial files if the sweep's are remote (default: sweeps)",
            struct worker_options, dir),
    OPT_STR(0, "lock", "FILE", "lock FILE while this worker runs", struct worker_options, lock),
    OPT_STR(0, "left", "FILE", "file for results that could not be delivered",
            struct worker_options, left),
    OPT_GROUP("Output"),
    OPT_STR(0, "metrics", "[ADDR:]PORT", "serve /metrics for Prometheus (default: on loopback)",
            struct worker_options, metrics),
    OPT_GROUP("When the worker ends"),
    OPT_DURATION(0, "idle-exit", "DURATION",
                 "exit after this time without a trial (default: never)", struct worker_options,
                 idle_s, 1, DAY_S),
    OPT_DURATION(0, "grace", "DURATION",
                 "on SIGTERM, kill trials after this time (default: the sweep's)",
                 struct worker_options, grace_s, 0, DAY_S),
    OPT_FLAG(0, "finish", "on SIGTERM, let running trials finish", struct worker_options, finish),
    OPT_END,
};

static const char key_variable[] = "DROVER_SWEEP_KEY";

/* HOST-PID-random: unique, and shows the worker's node to people. */
static int make_id(char *id, size_t size, struct err *e)
{
    struct utsname u;
    uint64_t random;
    int rc = uname(&u) < 0 ? -errno : entropy_fill(&random, sizeof random);
    if (rc < 0)
        return err_set(e, rc, "cannot generate a worker id: %s", strerror(-rc));
    AUTO(free) char *host = sweep_dir_slug(u.nodename);
    snprintf(id, size, "%.24s-%d-%016llx", host, (int)getpid(), (unsigned long long)random);
    return 0;
}

static int check_options(const struct worker_options *o, struct err *e)
{
    if (o->id && !peer_table_id_ok(o->id, strlen(o->id)))
        return err_set(e, -EINVAL, "--id '%s': must be 1 to %d printable characters", o->id,
                       WIRE_WORKER_MAX);
    if (o->metrics && metrics_address_parse(&(struct listen_address){0}, o->metrics, e) < 0)
        return err_wrap(e, "--metrics");
    return 0;
}

/* ---- metrics -------------------------------------------------------------------------------- */

/* The metrics of a worker, and of the GPUs that its trials may use. */
enum result { OK, FAILED, STOPPED, RESULTS };

struct worker_metrics {
    struct metrics_server *server; /* NULL: the worker ends */
    struct node_metrics *node;
    const char *id;
    char *sweep;      /* NULL: it has not joined */
    double started_s; /* since 1970 */
    int slots, running;
    int64_t ended[RESULTS];
};

static enum result result_of(const json_t *r)
{
    bool failed = json_integer_value(json_object_get(r, "status")) != 0 ||
                  json_integer_value(json_object_get(r, "signal")) != 0;
    return json_is_true(json_object_get(r, "stopped")) ? STOPPED : failed ? FAILED : OK;
}

static void fill(void *arg, struct metrics_text *t)
{
    static const char *const results[RESULTS] = {"ok", "failed", "stopped"};
    const struct worker_metrics *m = arg;
    const struct {
        enum metrics_name name;
        double value;
    } values[] = {
        {METRICS_WORKER_START_TIME, m->started_s},
        {METRICS_WORKER_SLOTS, m->sweep ? m->slots : (double)NAN},
        {METRICS_WORKER_TRIALS_RUNNING, m->running},
    };
    const struct metrics_label labels[] = {{"worker", m->id}, {"sweep", m->sweep}};
    metrics_text_add(t, METRICS_WORKER_INFO, 1, labels, 2);
    for (size_t i = 0; i < COUNT_OF(values); i++)
        metrics_text_add(t, values[i].name, values[i].value, labels, 1);
    for (int i = 0; i < RESULTS; i++) {
        const struct metrics_label result[] = {{"worker", m->id}, {"result", results[i]}};
        metrics_text_add(t, METRICS_WORKER_TRIALS_ENDED, (double)m->ended[i], result, 2);
    }
    node_metrics_add(m->node, t);
}

/* Call it with each notice of the worker. `m` may be NULL. */
static void worker_metrics_notice(struct worker_metrics *m, const struct worker_notice *n)
{
    if (!m)
        return;
    switch (n->kind) {
    case WORKER_NOTICE_OPENED:
        metrics_server_start(m->server, n->loop, fill, m);
        break;
    case WORKER_NOTICE_WAITING:
        break;
    case WORKER_NOTICE_JOINED:
        free(m->sweep);
        m->sweep = xstrdup(n->sweep ? n->sweep : "");
        m->slots = n->slots;
        break;
    case WORKER_NOTICE_STARTED:
        m->running++;
        break;
    case WORKER_NOTICE_ENDED:
        m->running--;
        m->ended[result_of(n->result)]++;
        break;
    case WORKER_NOTICE_CLOSING:
        metrics_server_close(TAKE(m->server));
        break;
    }
}

static void worker_metrics_close(struct worker_metrics *m)
{
    metrics_server_close(m->server);
    node_metrics_close(m->node);
    free(m->sweep);
    free(m);
}
AUTO_DEFINE(worker_metrics, struct worker_metrics *, worker_metrics_close)

/* Listens; errors are those of metrics_server_open(). `gpus`: the worker's GPUs (NULL: all that are
 * visible). Borrows the worker's id. */
static int worker_metrics_open(struct worker_metrics **out, const char *address, const char *id,
                               const char *gpus, struct err *e)
{
    AUTO(worker_metrics) struct worker_metrics *m = xzalloc(sizeof *m);
    m->id = id;
    m->started_s = (double)clock_ms_of(CLOCK_REALTIME) / 1000;
    int rc = metrics_server_open(&m->server, address, e);
    if (rc == 0)
        rc = node_metrics_open(&m->node, gpus, e);
    if (rc < 0)
        return rc;
    *out = TAKE(m);
    return 0;
}

/* ---- endpoint and key ----------------------------------------------------------------------- */

struct credentials {
    struct curve_keys keys;
    bool has_keys;
    char *endpoint; /* from the key file; NULL: none */
};
static inline void auto_credentials(struct credentials *in)
{
    free(in->endpoint);
}

/* Reads the key, if one is given, and removes it from the environment that trials inherit. */
static int read_key(struct credentials *out, const struct worker_options *o, struct err *e)
{
    const char *text = getenv(key_variable);
    int rc = 0;
    if (o->key)
        rc = curve_keys_read(&out->keys, &out->endpoint, o->key, e);
    else if (text && !o->plain)
        rc = curve_keys_parse(&out->keys, &out->endpoint, text, key_variable, e);
    out->has_keys = rc == 0 && out->endpoint;
    unsetenv(key_variable);
    return rc;
}

static int no_key(const char *endpoint, struct err *e)
{
    if (curve_keys_here(endpoint)) {
        err_set(e, -EACCES, "coordinator '%s': no key given", endpoint);
        return err_hint(e, "--key sweeps/NAME/worker.key; or --plain, if the sweep was started "
                           "with --plain");
    }
    err_set(e, -EACCES, "coordinator '%s': on another machine, which requires a key", endpoint);
    return err_hint(e, "--key FILE: a copy of the sweep's worker.key, or its line in %s",
                    key_variable);
}

/* Sets the endpoint and the keys of `c`, which borrows from `in`. */
static int set_endpoint(struct worker_opts *c, const char *endpoint, const struct credentials *in,
                        bool plain, struct err *e)
{
    c->client.endpoint = endpoint ? endpoint : in->endpoint;
    if (!c->client.endpoint) {
        err_set(e, -EINVAL, "no endpoint and no key given");
        return err_hint(e, "drover worker $(cat sweeps/NAME/endpoint) on the sweep's machine; "
                           "drover worker --key worker.key elsewhere");
    }
    if (strncmp(c->client.endpoint, "ipc://", 6) == 0)
        return 0;
    if (plain && !curve_keys_here(c->client.endpoint))
        return err_set(e, -EINVAL, "--plain: '%s' is not a loopback address", c->client.endpoint);
    if (!plain && !in->has_keys)
        return no_key(c->client.endpoint, e);
    c->client.keys = c->paths.keys = plain ? NULL : &in->keys;
    return 0;
}

static int check_node(const struct worker_opts *c, const struct topo *t, struct err *e)
{
    AUTO(doctor_report) struct doctor_report r = {0};
    const struct preflight_job job = {.gpus = c->slice.gpus ? c->slice.gpus : c->slice.visible};
    int rc = preflight_check_here(&r, t, &job, e);
    return rc < 0 ? rc : preflight_judge(&r, NULL, e);
}

/* Selects the GPUs of --place, and starts the guardian, which keeps their locks until no trial is
 * left. Both must happen before any thread starts. */
static int start_guardian(struct guardian **g, struct placement **placed,
                          const struct worker_options *o, struct err *e)
{
    if (o->place && o->gpus)
        return err_set(e, -EINVAL, "--place and --gpus exclude each other");
    if (o->labels && !o->place)
        return err_set(e, -EINVAL, "--labels needs --place JOB.yaml");
    const struct placement_opts place = {.file = o->place, .labels_file = o->labels};
    int rc = o->place ? placement_open(placed, &place, e) : 0;
    if (rc < 0)
        return rc;
    const struct gpu_locks locks = *placed ? (*placed)->locks : (struct gpu_locks){0};
    return guardian_start_keeping(g, locks.fds, locks.count, e);
}

/* What follows the worker's notices. */
struct observers {
    struct worker_display *display;
    struct worker_metrics *metrics; /* NULL: no --metrics */
    const char *lock;               /* of a worker that the coordinator has started; NULL */
    int lock_fd;
};

static void on_notice(void *arg, const struct worker_notice *n)
{
    const struct observers *all = arg;
    worker_display_notice(all->display, n);
    worker_metrics_notice(all->metrics, n);
}

/* The lock is a file of the sweep's directory. */
static bool is_removed(void *arg)
{
    const struct observers *all = arg;
    return lockfile_is_gone(all->lock_fd, all->lock);
}

/* After a failure, `*status` is the exit status; unchanged: that of a wrong command line. */
static int work(const struct worker_options *o, const char *endpoint, int *status, struct err *e)
{
    char id[WIRE_WORKER_MAX + 1];
    struct worker_opts c = {
        .leftovers = o->left,
        .patience_ms = (int)(o->patience_s * 1000),
        .grace_ms = o->grace_s < 0      ? 0
                    : o->grace_s < 1e-3 ? 1
                                        : (int)(o->grace_s * 1000),
        .idle_ms = (int)(o->idle_s * 1000),
        .finish = o->finish,
        .slice = {.cpus = o->cpus,
                  .gpus = o->gpus,
                  .visible = getenv("CUDA_VISIBLE_DEVICES"),
                  .slots = o->places,
                  .memory_bytes = cgroup_memory("")},
        .check_node = o->no_preflight ? NULL : check_node,
        .notice = on_notice,
        .paths = {.wdir = o->wdir, .dir = o->dir},
    };
    AUTO(credentials) struct credentials in = {0};
    AUTO(fd) int lock = -1;
    AUTO(placement) struct placement *placed = NULL; /* its locks outlast the guardian */
    AUTO(guardian) struct guardian *g = NULL;
    AUTO(worker_display) struct worker_display *display = NULL;
    AUTO(worker_metrics) struct worker_metrics *metrics = NULL;
    int rc = read_key(&in, o, e);
    if (rc == 0)
        rc = set_endpoint(&c, endpoint, &in, o->plain, e);
    if (rc == 0 && !o->id)
        rc = make_id(id, sizeof id, e);
    else if (o->id)
        snprintf(id, sizeof id, "%s", o->id);
    if (rc == 0 && o->lock)
        rc = lockfile_acquire(&lock, o->lock, id, e);
    if (rc == 0 && (rc = start_guardian(&g, &placed, o, e)) == -EBUSY)
        *status = EXIT_STATUS_FAILED; /* the GPUs did not become free */
    if (placed) {
        c.slice.gpus = placed->gpus;
        if (c.slice.slots > placed->choice.count) /* trials share GPUs only if they need parts */
            c.slice.slots = 0;
    }
    if (rc == 0)
        rc = limits_require_threads(LIBRARY_THREADS, "the worker", e);
    if (rc < 0)
        return rc;
    c.client.id = id;
    *status = EXIT_STATUS_FAILED;
    if (o->metrics && (rc = worker_metrics_open(&metrics, o->metrics, id, c.slice.gpus, e)) < 0)
        return rc;
    if (metrics)
        fprintf(stderr, "drover worker: metrics at %s\n", metrics_server_url(metrics->server));
    display =
        worker_display_open(c.client.endpoint, o->patience_s, terminal_coloured(STDERR_FILENO));
    c.arg = &(struct observers){display, metrics, o->lock, lock};
    c.is_removed = o->lock ? is_removed : NULL;
    while ((rc = worker_run(&c, g, e)) == -ESTALE && !o->lock) {
        fprintf(stderr, "drover worker: %s; its trials are stopped, and this worker joins anew\n",
                e->text);
        *e = (struct err){0};
    }
    if (rc == -ESTALE) /* the coordinator that has the place now starts its own worker */
        *status = 0;
    else if (rc != -ETIMEDOUT)
        *status = EXIT_STATUS_USAGE;
    return rc;
}

static int run(char **words, void *into, struct err *e)
{
    int status = EXIT_STATUS_USAGE, rc = check_options(into, e);
    if (rc == 0)
        rc = work(into, words ? words[0] : NULL, &status, e);
    return rc < 0 ? status : 0;
}

int cmd_worker(int argc, char **argv)
{
    static const struct command command = {
        .help = {"drover worker", "[options] ENDPOINT | [options] --key FILE",
                 "Runs trials of a sweep on this node until the sweep ends. Workers may join and "
                 "leave at any time.",
                 "drover worker --key worker.key\n"
                 "drover worker $(cat sweeps/digits/endpoint)"},
        .options = options,
        .words_max = 1,
        .run = run};
    struct worker_options o = {.patience_s = 60, .grace_s = -1, .dir = "sweeps"};
    return command_run(&command, &o, argc, argv);
}
