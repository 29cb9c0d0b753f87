#include "serve/serve_command.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/opt.h"

enum { KEYS_MAX = 3 };

static const struct {
    const char *keys[KEYS_MAX]; /* the first one is the verb */
} verbs[] = {
    {{"stop", "now", "finish"}},   {{"pause", "finish"}},           {{"resume"}},
    {{"cancel", "trials", "now"}}, {{"retry", "trials", "failed"}}, {{"add", "trials", "params"}},
};

json_t *serve_command_read(const char *text, size_t len, struct err *e)
{
    AUTO(json) json_t *command = NULL;
    const char *verb = NULL, *names[COUNT_OF(verbs)];
    if (json_parse(&command, text, len, e) < 0 || json_require_str(&verb, command, "verb", e) < 0)
        return NULL;
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        const char *keys[] = {"verb", verbs[i].keys[1], verbs[i].keys[2]};
        size_t n = verbs[i].keys[2] ? 3 : verbs[i].keys[1] ? 2 : 1;
        names[i] = verbs[i].keys[0];
        if (strcmp(verb, names[i]) == 0)
            return json_only_keys(command, keys, n, verb, e) == 0 ? TAKE(command) : NULL;
    }
    const char *near = opt_suggest(verb, names, COUNT_OF(verbs));
    err_set(e, -EINVAL, "unknown verb '%s'", verb);
    if (near)
        err_hint(e, "%s", near);
    return NULL;
}
