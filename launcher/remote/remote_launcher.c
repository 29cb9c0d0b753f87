#include "launcher/remote/remote_launcher.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/plan/env.h"

void remote_launcher_push(char ***argv, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    AUTO(free) char *text = xvasprintf(fmt, args);
    va_end(args);
    for (char *rest = text, *word; (word = strsep(&rest, " \t"));)
        if (*word)
            strv_push(argv, xstrdup(word));
}

static int local_agents_argv(char ***argv, char ***env, const struct remote_launcher_opts *o,
                             struct err *e)
{
    strv_push(argv, xstrdup(o->drover));
    strv_push(argv, xstrdup(REMOTE_AGENT_COMMAND));
    return 0;
}

static const char *const local_agents_node_env[] = {REMOTE_ENV_NODE, NULL};

const struct remote_launcher remote_launcher_local_agents = {.word = "local-agents",
                                                             .hidden = true,
                                                             .node_env = local_agents_node_env,
                                                             .argv = local_agents_argv,
                                                             .per_node = true};

/* agent_spawn_start() starts the agents of such a job. It passes the numbers of their nodes in
 * REMOTE_ENV_NODE. */
const struct remote_launcher remote_launcher_external = {.word = "external", .hidden = true};

#define ENTRY(name) &remote_launcher_##name,
const struct remote_launcher *const remote_launchers[] = {REMOTE_LAUNCHERS(ENTRY) NULL};

const struct remote_launcher *remote_launcher_find(const char *word)
{
    for (const struct remote_launcher *const *l = remote_launchers; *l; l++)
        if (strcmp((*l)->word, word) == 0)
            return *l;
    return NULL;
}

bool remote_launcher_sets(const char *entry)
{
    if (strstr(entry, "_local_tmpdir_base="))
        return false;
    for (const struct remote_launcher *const *l = remote_launchers; *l; l++)
        if (strv_begins((*l)->env_prefixes, entry))
            return true;
    return false;
}

char **remote_launcher_strip_env(char *const *env)
{
    char **rest = NULL;
    for (size_t i = 0; env && env[i]; i++)
        if (!remote_launcher_sets(env[i]))
            strv_push(&rest, xstrdup(env[i]));
    return rest;
}

int remote_launcher_node(char *const *env)
{
    for (const struct remote_launcher *const *l = remote_launchers; *l; l++)
        for (const char *const *name = (*l)->node_env; name && *name; name++) {
            const char *value = env_get(env, *name);
            if (value)
                return atoi(value);
        }
    return -1;
}
