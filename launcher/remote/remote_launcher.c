#include "launcher/remote/remote_launcher.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/plan/env.h"

#define ENTRY(name) &remote_launcher_##name,
const struct remote_launcher *const remote_launchers[] = {REMOTE_LAUNCHERS(ENTRY) NULL};

const struct remote_launcher *remote_launcher_find(const char *word)
{
    for (const struct remote_launcher *const *l = remote_launchers; *l; l++)
        if (strcmp((*l)->word, word) == 0)
            return *l;
    return NULL;
}

static bool has_prefix(const char *entry, const char *const *prefixes)
{
    for (; prefixes && *prefixes; prefixes++)
        if (strncmp(entry, *prefixes, strlen(*prefixes)) == 0)
            return true;
    return false;
}

bool remote_launcher_sets(const char *entry)
{
    if (strstr(entry, "_local_tmpdir_base="))
        return false;
    for (const struct remote_launcher *const *l = remote_launchers; *l; l++)
        if (has_prefix(entry, (*l)->env_prefixes))
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
