/* cmd_worker - `drover worker`: runs the trials of a sweep's coordinator on this node. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>

#include "hpo/cmd/hpo_commands.h"
#include "hpo/store/lockfile.h"
#include "hpo/store/sweep_dir.h"
#include "hpo/transport/peer_table.h"
#include "hpo/worker/worker.h"
#include "launcher/node/cgroup.h"

struct worker_options {
    int places, patience_s, grace_s, idle_s;
    const char *cpus, *gpus, *lock, *left, *key, *wdir, *dir, *id;
    bool finish, plain;
};

static const struct opt options[] = {
    OPT_STR(0, "key", "FILE", "the sweep's worker.key (default: what DROVER_SWEEP_KEY holds)",
            struct worker_options, key),
    OPT_FLAG(0, "plain", "without keys, to a coordinator on loopback that wants none",
             struct worker_options, plain),
    OPT_INT(0, "places", "N", "trials at once, at most (default: as many as fit, without sharing)",
            struct worker_options, places),
    OPT_STR(0, "cpus", "LIST", "this node's CPUs to use, as 0-3,8 (default: all allowed)",
            struct worker_options, cpus),
    OPT_STR(0, "gpus", "LIST",
            "this node's GPUs to use, as 0,2 or GPU-5c8b,MIG-41 (default: all that are visible)",
            struct worker_options, gpus),
    OPT_STR(0, "wdir", "DIR", "where trials run (default: where the sweep was started)",
            struct worker_options, wdir),
    OPT_STR(0, "dir", "D",
            "trials' files, where the sweep's directory is not on this node (default: sweeps)",
            struct worker_options, dir),
    OPT_INT(0, "grace", "S", "on SIGTERM: until trials are killed (default: the sweep's grace)",
            struct worker_options, grace_s),
    OPT_FLAG(0, "finish", "on SIGTERM: let what runs come to its end", struct worker_options,
             finish),
    OPT_INT(0, "idle-exit", "S", "end after S seconds without a trial (default: never)",
            struct worker_options, idle_s),
    OPT_INT(0, "patience", "S", "seconds that trials run on without a coordinator (default: 60)",
            struct worker_options, patience_s),
    OPT_STR(0, "lock", "FILE", "a file to hold for as long as this worker lives",
            struct worker_options, lock),
    OPT_STR(0, "id", "ID", "what to be called, if never used before (default: made up)",
            struct worker_options, id),
    OPT_STR(0, "left", "FILE", "where to leave what no coordinator was there to hear",
            struct worker_options, left),
    OPT_END,
};

static const char what[] =
    "Runs trials of a sweep on this node, until the sweep is over. Workers may come and go at any "
    "time.";
static const char key_variable[] = "DROVER_SWEEP_KEY";

/* HOST-PID-random: tells people where it is, and was never used before. */
static int make_id(char *id, size_t size, struct err *e)
{
    struct utsname u;
    uint64_t random;
    if (uname(&u) < 0 || getrandom(&random, sizeof random, 0) != sizeof random)
        return err_set(e, -errno, "an id cannot be made: %s", strerror(errno));
    AUTO(free) char *host = sweep_dir_slug(u.nodename);
    snprintf(id, size, "%.24s-%d-%016llx", host, (int)getpid(), (unsigned long long)random);
    return 0;
}

/* `*endpoint`: a strv of it, or NULL. */
static int read_options(struct worker_options *o, char ***endpoint, int argc, char **argv,
                        struct err *e)
{
    int rc = hpo_commands_words(endpoint, 1, options, o, argc, argv, e);
    if (rc != 0)
        return rc;
    if (o->places < 0 || o->places > WIRE_SLOTS_MAX)
        return err_set(e, -EINVAL, "--places is a count from 1");
    if (o->patience_s < 1 || o->patience_s > 86400)
        return err_set(e, -EINVAL, "--patience %d: from a second to a day", o->patience_s);
    if (o->id && !peer_table_id_ok(o->id, strlen(o->id)))
        return err_set(e, -EINVAL, "--id '%s': up to %d printable characters", o->id,
                       WIRE_WORKER_MAX);
    if (o->grace_s < 0 || o->idle_s < 0 || o->grace_s > 86400 || o->idle_s > 86400)
        return err_set(e, -EINVAL, "--grace and --idle-exit are seconds, up to a day");
    return 0;
}

/* ---- where to, and with what key ------------------------------------------------------------ */

struct entry {
    struct curve_keys keys;
    bool has_keys;
    char *endpoint; /* as the key has it; NULL: none */
};
static inline void auto_entry(struct entry *in)
{
    free(in->endpoint);
}

/* What is given as a key, if anything is. Trials shall not find it in their environment. */
static int read_key(struct entry *out, const struct worker_options *o, struct err *e)
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
        err_set(e, -EACCES, "'%s': a key is missing", endpoint);
        return err_hint(e, "--key sweeps/NAME/worker.key; or --plain, where the sweep was started "
                           "with --plain too");
    }
    err_set(e, -EACCES, "'%s': no coordinator on another machine without a key", endpoint);
    return err_hint(e, "--key FILE: a copy of the sweep's worker.key, or its line in %s",
                    key_variable);
}

/* Settles c->client but for the id. Borrows from `in`. */
static int find_way(struct worker_opts *c, const char *endpoint, const struct entry *in, bool plain,
                    struct err *e)
{
    c->client.endpoint = endpoint ? endpoint : in->endpoint;
    if (!c->client.endpoint) {
        err_set(e, -EINVAL, "no endpoint and no key given");
        return err_hint(e, "on the sweep's machine: drover worker $(cat sweeps/NAME/endpoint); "
                           "elsewhere: drover worker --key worker.key");
    }
    if (strncmp(c->client.endpoint, "ipc://", 6) == 0)
        return 0;
    if (plain && !curve_keys_here(c->client.endpoint))
        return err_set(e, -EINVAL, "--plain: '%s' is not on loopback", c->client.endpoint);
    if (!plain && !in->has_keys)
        return no_key(c->client.endpoint, e);
    c->client.keys = c->paths.keys = plain ? NULL : &in->keys;
    return 0;
}

static int work(const struct worker_options *o, const char *endpoint, struct err *e)
{
    char id[WIRE_WORKER_MAX + 1];
    struct worker_opts c = {
        .leftovers = o->left,
        .patience_ms = o->patience_s * 1000,
        .grace_ms = o->grace_s * 1000,
        .idle_ms = o->idle_s * 1000,
        .finish = o->finish,
        .slice = {.cpus = o->cpus,
                  .gpus = o->gpus,
                  .visible = getenv("CUDA_VISIBLE_DEVICES"),
                  .slots = o->places,
                  .memory_bytes = cgroup_memory("")},
        .paths = {.wdir = o->wdir, .dir = o->dir},
    };
    AUTO(entry) struct entry in = {0};
    AUTO(fd) int lock = -1;
    AUTO(guardian) struct guardian *g = NULL;
    int rc = read_key(&in, o, e);
    if (rc == 0)
        rc = find_way(&c, endpoint, &in, o->plain, e);
    if (rc == 0 && !o->id)
        rc = make_id(id, sizeof id, e);
    else if (o->id)
        snprintf(id, sizeof id, "%s", o->id);
    if (rc == 0 && o->lock)
        rc = lockfile_take(&lock, o->lock, id, e);
    if (rc == 0)
        rc = guardian_start(&g, e); /* before there is a thread */
    if (rc < 0)
        return rc;
    c.client.id = id;
    return worker_run(&c, g, e);
}

int cmd_worker(int argc, char **argv)
{
    static const char who[] = "drover worker";
    struct worker_options o = {.patience_s = 60, .dir = "sweeps"};
    AUTO(strv) char **endpoint = NULL;
    struct err e = {0};
    int rc = read_options(&o, &endpoint, argc, argv, &e);
    if (rc == OPT_HELP) {
        opt_help(stdout, who, "ENDPOINT | --key FILE", what, options);
        return 0;
    }
    if (rc == 0)
        rc = work(&o, endpoint ? endpoint[0] : NULL, &e);
    if (rc < 0)
        err_print(&e, who);
    return rc == 0 ? 0 : rc == -ETIMEDOUT ? EXIT_WORK : EXIT_USAGE;
}
