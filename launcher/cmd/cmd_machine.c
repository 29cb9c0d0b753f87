/* cmd_machine - `drover machine`: what this machine is, for `drover run` on another one. */
#include <errno.h>
#include <stdio.h>

#include "common/opt.h"
#include "launcher/cmd/commands.h"
#include "launcher/node/topo.h"

static int tell(struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    AUTO(free) char *machine = NULL;
    size_t len = 0;
    int rc = topo_load(&t, e);
    if (rc == 0)
        rc = topo_export(&machine, &len, t, e);
    if (rc == 0)
        fwrite(machine, 1, len, stdout); /* main() looks whether it could be written */
    return rc;
}

int cmd_machine(int argc, char **argv)
{
    static const struct opt options[] = {OPT_END};
    struct err e = {0};
    int rest = argc;
    int rc = opt_parse(options, NULL, argc, argv, &rest, &e);
    if (rc == OPT_HELP) {
        opt_help(
            stdout, "drover machine", "",
            "Prints this machine as JSON: its topology (hwloc's XML), its GPUs, and what of it "
            "may\nbe used here. `drover run` places ranks on another machine by it.",
            options);
        return 0;
    }
    if (rc == 0 && rest < argc)
        rc = err_set(&e, -EINVAL, "'%s' is not known", argv[rest]);
    if (rc < 0) {
        err_print(&e, "drover machine");
        return EXIT_STATUS_USAGE;
    }
    if (tell(&e) == 0)
        return 0;
    err_print(&e, "drover machine");
    return EXIT_STATUS_FAILED;
}
