/* cmd_worker - `drover worker`: runs the trials of a sweep's coordinator on this node. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>

#include "common/opt.h"
#include "hpo/cmd.h"
#include "hpo/sweep/lockfile.h"
#include "hpo/sweep/sweepdir.h"
#include "hpo/sweep/wire.h"
#include "hpo/sweep/worker.h"

struct worker_options {
    int places, ranks, patience_s;
    const char *cpus, *gpus, *lock, *left;
};

static const struct opt options[] = {
    OPT_INT(0, "places", "N", "trials at once (default: as many as fit, without sharing)",
            struct worker_options, places),
    OPT_INT(0, "ranks", "N", "ranks of a trial, for the division of the CPUs (default: 1)",
            struct worker_options, ranks),
    OPT_STR(0, "cpus", "LIST", "this node's CPUs to use, as 0-3,8 (default: all allowed)",
            struct worker_options, cpus),
    OPT_STR(0, "gpus", "LIST", "this node's GPUs to use, as 0,2 (default: all)",
            struct worker_options, gpus),
    OPT_STR(0, "lock", "FILE", "a file to hold for as long as this worker lives",
            struct worker_options, lock),
    OPT_STR(0, "left", "FILE", "where to leave what no coordinator was there to hear",
            struct worker_options, left),
    OPT_INT(0, "patience", "S", "seconds that trials run on without a coordinator (default: 60)",
            struct worker_options, patience_s),
    OPT_END,
};

static const char what[] = "Runs trials of a sweep on this node, until the sweep is over.";

/* HOST-PID-random: tells people where it is, and was never used before. */
static int make_id(char *id, size_t size, struct err *e)
{
    struct utsname u;
    uint64_t random;
    if (uname(&u) < 0 || getrandom(&random, sizeof random, 0) != sizeof random)
        return err_set(e, -errno, "an id cannot be made: %s", strerror(errno));
    AUTO(free) char *host = sweepdir_slug(u.nodename);
    snprintf(id, size, "%.24s-%d-%016llx", host, (int)getpid(), (unsigned long long)random);
    return 0;
}

static int read_options(struct worker_options *o, const char **endpoint, int argc, char **argv,
                        struct err *e)
{
    int at = 0, rest = 0, rc = opt_parse(options, o, argc, argv, &at, e);
    if (rc == 0 && at < argc)
        rc = opt_parse(options, o, argc - at, argv + at, &rest, e);
    if (rc != 0)
        return rc;
    if (at >= argc || at + rest < argc) {
        err_set(e, -EINVAL, "give one endpoint");
        return err_hint(e,
                        "sweeps/NAME/endpoint has it: drover worker $(cat sweeps/NAME/endpoint)");
    }
    if (o->places < 0 || o->places > WIRE_PLACES_MAX || o->ranks < 1)
        return err_set(e, -EINVAL, "--places and --ranks are counts from 1");
    if (o->patience_s < 1 || o->patience_s > 86400)
        return err_set(e, -EINVAL, "--patience %d: from a second to a day", o->patience_s);
    *endpoint = argv[at];
    return 0;
}

int cmd_worker(int argc, char **argv)
{
    static const char who[] = "drover worker";
    struct worker_options o = {.ranks = 1, .patience_s = 60};
    struct worker_config c = {0};
    struct err e = {0};
    int rc = read_options(&o, &c.endpoint, argc, argv, &e);
    if (rc == OPT_HELP) {
        opt_help(stdout, who, "[--places N] ENDPOINT", what, options);
        return 0;
    }
    char id[WIRE_WORKER_MAX + 1];
    AUTO(fd) int lock = -1;
    AUTO(guardian) struct guardian *g = NULL;
    if (rc == 0)
        rc = make_id(id, sizeof id, &e);
    if (rc == 0 && o.lock)
        rc = lockfile_take(&lock, o.lock, id, &e);
    if (rc == 0)
        rc = guardian_start(&g, &e); /* before there is a thread */
    if (rc < 0) {
        err_print(&e, who);
        return EXIT_USAGE;
    }
    c.id = id;
    c.left = o.left;
    c.patience_ms = o.patience_s * 1000;
    c.want = (struct share_want){o.cpus, o.gpus, o.places, o.ranks};
    rc = worker_run(&c, g, &e);
    if (rc < 0)
        err_print(&e, who);
    return rc == 0 ? 0 : rc == -ETIMEDOUT ? EXIT_WORK : EXIT_USAGE;
}
