#include "hpo/cmd/sweep_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/strbuf.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/store/sweep_dir.h"
#include "launcher/limits/job_clock.h"
#include "launcher/metrics/metrics_address.h"
#include "launcher/place/place_job.h"

static int set_seed(void *into, char *const *values, struct err *e)
{
    struct sweep_options *o = into;
    char *end;
    if (o->has_seed)
        return err_set(e, -EINVAL, "it is given twice");
    errno = 0;
    o->seed = strtoull(values[0], &end, 10);
    o->has_seed = true;
    if (errno || *end || values[0][0] == '-' || !*values[0])
        return err_set(e, -EINVAL, "'%s' is not a number from 0 to 2^64 - 1", values[0]);
    return 0;
}

const struct opt sweep_options_rows[] = {
    OPT_GROUP("The sweep"),
    OPT_STR(0, "name", "NAME", "sweep name (default: `name` in FILE, or its file name)",
            struct sweep_options, name),
    OPT_STR(0, "dir", "D", "directory of all sweeps (default: sweeps)", struct sweep_options, root),
    OPT_FLAG(0, "resume", "continue a stored sweep; without FILE, as it is stored",
             struct sweep_options, resume),
    OPT_FLAG(0, "restart", "archive the stored sweep as NAME.1 and start anew",
             struct sweep_options, restart),
    OPT_STRV(0, "prior", "NAME", "learn from this sweep or directory first; repeatable",
             struct sweep_options, prior),
    OPT_CALL(0, "seed", "N", "seed of the search (default: `seed` in FILE, or 0)", set_seed),
    OPT_GROUP("Where trials run"),
    OPT_INT(0, "parallel", "K", "run up to K trials at once (default: as many as fit)",
            struct sweep_options, parallel, 1, INT_MAX),
    OPT_INT(0, "here", "N", "run up to N of them here (default: as many as fit)",
            struct sweep_options, local_slots, 0, INT_MAX),
    OPT_WORDS(0, "place", "JOB.yaml", "select and lock each worker's GPUs by a job file",
              struct sweep_options, worker_args),
    OPT_WORDS(0, "labels", "FILE", "with --place: file with labels of GPUs", struct sweep_options,
              worker_args),
    OPT_WORDS('f', "hostfile|machinefile", "FILE", "start workers on these nodes, one per line",
              struct sweep_options, host_options),
    OPT_WORDS('H', "host", "LIST", "start workers on these nodes and slots: a:4,b:4",
              struct sweep_options, host_options),
    OPT_WORDS(0, "engine", "openmpi|slurm|ssh", "how these workers are started",
              struct sweep_options, host_options),
    OPT_WORDS(0, "ssh-args", "ARGS", "arguments for ssh: '-p 2222 -i KEY'", struct sweep_options,
              host_options),
    OPT_WORDS(0, "mca", "KEY VALUE", "MCA parameter for mpirun", struct sweep_options,
              host_options),
    OPT_WORDS(0, "exclude-file", "FILE", "file with nodes that get no worker, and until when",
              struct sweep_options, host_options),
    OPT_FLAG(0, "no-preflight", "do not check the GPUs of the nodes first", struct sweep_options,
             no_preflight),
    OPT_GROUP("Workers of other machines"),
    OPT_STR(0, "listen", "[ADDRESS][:PORT]", "accept workers that have the sweep's worker.key",
            struct sweep_options, listen),
    OPT_FLAG(0, "plain", "accept workers without a key; on loopback only", struct sweep_options,
             plain),
    OPT_GROUP("When the sweep stops"),
    OPT_STR(0, "deadline", "TIME", "stop the sweep at this time: 18:00, or 8h from now",
            struct sweep_options, limits.deadline_text),
    OPT_STR(0, "budget", "AMOUNT", "stop the sweep after 12gpuh, or 30.00 with --price",
            struct sweep_options, limits.budget_text),
    OPT_DOUBLE(0, "price", "AMOUNT", "price of one GPU hour, in any currency", struct sweep_options,
               limits.price, 1e-6, 1e6),
    OPT_GROUP("Output"),
    OPT_FLAG(0, "dry-run", "print the first commands and run nothing", struct sweep_options,
             dry_run),
    OPT_FLAG(0, "json", "print all trials as JSON, not as a table", struct sweep_options, json),
    OPT_FLAG(0, "serve", "show the sweep in a browser while it runs, and print the address",
             struct sweep_options, serve),
    OPT_STR(0, "metrics", "[ADDR:]PORT", "serve /metrics for Prometheus (default: on loopback)",
            struct sweep_options, metrics),
    OPT_FLAG('q', "quiet", "print no progress", struct sweep_options, quiet),
    OPT_END,
};

/* Reads the job file of --place, so that a wrong one is an error before a worker starts. */
static int check_place(const struct sweep_options *o, struct err *e)
{
    AUTO(place_job) struct place_job *j = NULL;
    const char *file = NULL;
    for (size_t i = 0; i + 1 < strv_len(o->worker_args); i += 2) /* an option and its value */
        if (strcmp(o->worker_args[i] + strspn(o->worker_args[i], "-"), "place") == 0)
            file = o->worker_args[i + 1];
    if (o->worker_args && !file)
        return err_set(e, -EINVAL, "--labels needs --place JOB.yaml");
    return file ? place_job_read(&j, file, e) : 0;
}

int sweep_options_parse(struct sweep_options *o, int argc, char **argv, struct err *e)
{
    *o = (struct sweep_options){.root = "sweeps", .local_slots = -1};
    const struct command command = {.options = sweep_options_rows, .words_max = 1};
    int rc = command_parse(&o->words, &command, o, argc, argv, e);
    if (rc != 0)
        return rc;
    const char *word = o->words ? o->words[0] : NULL;
    bool resumes = strcmp(argv[0], "resume") == 0; /* `sweep resume NAME` */
    o->file = resumes ? NULL : word;
    o->name = resumes && word ? word : o->name;
    o->resume |= resumes;
    if (!o->file && !(o->resume && o->name)) {
        err_set(e, -EINVAL, resumes ? "no sweep name given" : "no sweep file given");
        return err_hint(e, "drover sweep FILE, or drover sweep resume NAME");
    }
    if (o->metrics && metrics_address_parse(&(struct listen_address){0}, o->metrics, e) < 0)
        return err_wrap(e, "--metrics");
    if (job_clock_read_limits(&o->limits, e) < 0)
        return e->code;
    if (o->limits.price > 0 && !o->limits.budget_text) {
        err_set(e, -EINVAL, "--price has no effect without --budget");
        return err_hint(e, "--budget 30.00");
    }
    if (o->restart && (o->resume || !o->file))
        return err_set(e, -EINVAL, "--restart and --resume exclude each other");
    if (o->name && !sweep_dir_name_ok(o->name)) {
        err_set(e, -EINVAL, "%s'%s' is not a valid sweep name", resumes ? "" : "--name: ", o->name);
        return err_hint(e,
                        "up to %d letters, digits, '.', '_' and '-'; it starts with a letter, a "
                        "digit or '_'",
                        SWEEP_DIR_NAME_MAX);
    }
    return check_place(o, e);
}

void sweep_options_free(struct sweep_options *o)
{
    strv_free(o->prior);
    strv_free(o->worker_args);
    strv_free(o->words);
    strv_free(o->host_options);
}
