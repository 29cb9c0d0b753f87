/* cmd_sweep_rm - `drover sweep rm`: removes a sweep with all its files. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "hpo/cmd/hpo_commands.h"
#include "hpo/store/sweep_archive.h"
#include "hpo/store/sweep_dir.h"

struct rm_options {
    const char *root;
    bool yes;
};

static const struct opt options[] = {
    OPT_STR(0, "dir", "D", "directory of all sweeps (default: sweeps)", struct rm_options, root),
    OPT_FLAG('y', "yes", "remove it without asking", struct rm_options, yes),
    OPT_END,
};

/* Asks on the terminal. */
static bool agreed(const struct sweep_archive *a)
{
    char line[16] = "";
    fprintf(stderr, "remove the sweep '%s' with all files in %s? [y/N] ", a->name, a->path);
    return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
}

static int run(char **words, void *into, struct err *e)
{
    const struct rm_options *o = into;
    const char *name = words[0];
    AUTO(sweep_archive) struct sweep_archive *a = NULL;
    int rc = sweep_archive_lock(&a, o->root, name, e);
    if (rc < 0)
        return rc;
    if (!o->yes && !isatty(STDIN_FILENO)) {
        err_set(e, -EINVAL,
                "sweep '%s' is not removed: stdin is not a terminal, so the command "
                "cannot ask",
                name);
        AUTO(free) char *again = sweep_dir_command("drover sweep rm --yes", o->root, name);
        return err_hint(e, "%s", again);
    }
    if (!o->yes && !agreed(a)) {
        printf("%s is not removed\n", name);
        return 0;
    }
    rc = sweep_archive_remove(a, e);
    if (rc == 0)
        printf("%s is removed\n", name);
    return rc;
}

int cmd_sweep_rm(int argc, char **argv)
{
    static const struct command command = {
        .help = {"drover sweep rm", "NAME [--yes]",
                 "Removes a sweep with all its files: what is stored, its trials' output and "
                 "their checkpoints. No process may work on the sweep.",
                 "drover sweep rm digits\ndrover sweep rm digits.1 --yes"},
        .options = options,
        HPO_COMMAND_SWEEP(1),
        .run = run};
    struct rm_options o = {.root = "sweeps"};
    return command_run(&command, &o, argc, argv);
}
