#include "launcher/remote/remote_launcher.h"

static int direct_argv(char ***argv, char ***env, const struct remote_launcher_opts *j,
                       struct err *e)
{
    strv_push(argv, xstrdup(j->drover_rank));
    return 0;
}

const struct remote_launcher remote_launcher_local = {.argv = direct_argv, .each = true};
const struct remote_launcher remote_launcher_external = {.argv = NULL};
