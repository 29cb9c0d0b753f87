/* cmd_machine - `drover machine`: prints the topology and the findings of this node. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/command.h"
#include "launcher/doctor/preflight.h"
#include "launcher/jobs/commands.h"
#include "launcher/node/topo.h"

struct machine_options {
    bool nvlinks, preflight;
    int ranks;
    const char *gpus;
};

static const struct opt options[] = {
    OPT_FLAG(0, "nvlinks", "add the NVLinks of the GPUs", struct machine_options, nvlinks),
    OPT_FLAG(0, "preflight", "add the checks before a job", struct machine_options, preflight),
    OPT_INT(0, "ranks", "N", "ranks of the job on this node", struct machine_options, ranks, 1,
            INT_MAX),
    OPT_STR(0, "gpus", "LIST", "GPUs that the job may use", struct machine_options, gpus),
    OPT_END,
};

/* The second line of the output, if there is anything to check. */
static int print_checks(const struct machine_options *o, const struct topo *t, struct err *e)
{
    AUTO(doctor_report) struct doctor_report r = {0};
    AUTO(strbuf) struct strbuf b = {0};
    const struct preflight_job job = {.ranks = o->ranks, .gpus = o->gpus};
    int rc = preflight_check_here(&r, t, &job, e);
    preflight_export(&b, &r);
    if (b.len)
        printf("\n%s", strbuf_str(&b));
    return rc;
}

static int print_topology(const struct machine_options *o, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    AUTO(free) char *text = NULL;
    size_t len = 0;
    int rc = topo_load(&t, e);
    if (rc == 0 && o->nvlinks)
        rc = topo_add_nvlinks(t, e);
    if (rc == 0)
        rc = topo_export(&text, &len, t, e);
    if (rc == 0)
        fwrite(text, 1, len, stdout); /* main() checks for a write error */
    if (rc == 0 && o->preflight)
        rc = print_checks(o, t, e);
    return rc;
}

static int run(char **no_words, void *into, struct err *e)
{
    return print_topology(into, e) < 0 ? EXIT_STATUS_FAILED : 0;
}

int cmd_machine(int argc, char **argv)
{
    static const struct command command = {
        .help = {.program = "drover machine",
                 .usage = "[options]",
                 .summary =
                     "Prints the topology of this node: the GPUs, and which CPUs may be used, as "
                     "JSON; after a tab, hwloc's XML. 'drover run' on another node needs it to "
                     "place ranks here."},
        .options = options,
        .run = run};
    struct machine_options o = {0};
    return command_run(&command, &o, argc, argv);
}
