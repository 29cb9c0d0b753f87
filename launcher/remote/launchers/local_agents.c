#include "common/mem.h"
#include "launcher/remote/remote_launcher.h"

static int local_agents_argv(char ***argv, char ***env, const struct remote_launcher_opts *o,
                             struct err *e)
{
    strv_push(argv, xstrdup(o->drover_rank));
    return 0;
}

static const char *const rank_env[] = {REMOTE_ENV_RANK, NULL};

const struct remote_launcher remote_launcher_local_agents = {.word = "local-agents",
                                                             .hidden = true,
                                                             .rank_env = rank_env,
                                                             .argv = local_agents_argv,
                                                             .per_rank = true};
