/* cmd_machine - `drover machine`: prints the topology of this node for `drover run` on another
 * node. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/opt.h"
#include "launcher/cmd/commands.h"
#include "launcher/node/topo.h"

struct machine_options {
    bool nvlinks;
};

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
    return rc;
}

int cmd_machine(int argc, char **argv)
{
    static const struct opt options[] = {
        OPT_FLAG(0, "nvlinks", "add the NVLinks of the GPUs", struct machine_options, nvlinks),
        OPT_END,
    };
    struct machine_options o = {0};
    struct err e = {0};
    int rest = argc;
    int rc = opt_parse(options, &o, argc, argv, &rest, &e);
    if (rc == OPT_HELP) {
        const struct opt_help help = {
            .program = "drover machine",
            .usage = "[--nvlinks]",
            .summary = "Prints the topology of this node as JSON: hwloc's XML, the GPUs, and which "
                       "of them "
                       "may be used. 'drover run' on another node needs it to place ranks here."};
        opt_print_help(stdout, &help, options);
        return 0;
    }
    if (rc == 0 && rest < argc)
        rc = err_set(&e, -EINVAL, "unexpected argument '%s'", argv[rest]);
    if (rc < 0) {
        err_print(&e, "drover machine");
        return EXIT_STATUS_USAGE;
    }
    if (print_topology(&o, &e) == 0)
        return 0;
    err_print(&e, "drover machine");
    return EXIT_STATUS_FAILED;
}
