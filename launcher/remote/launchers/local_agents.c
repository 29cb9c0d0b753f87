#include "common/mem.h"
#include "launcher/remote/remote_launcher.h"

static int local_agents_argv(char ***argv, char ***env, const struct remote_launcher_opts *o,
                             struct err *e)
{
    strv_push(argv, xstrdup(o->drover));
    strv_push(argv, xstrdup(REMOTE_AGENT_COMMAND));
    return 0;
}

static const char *const node_env[] = {REMOTE_ENV_NODE, NULL};

const struct remote_launcher remote_launcher_local_agents = {.word = "local-agents",
                                                             .hidden = true,
                                                             .node_env = node_env,
                                                             .argv = local_agents_argv,
                                                             .per_node = true};
