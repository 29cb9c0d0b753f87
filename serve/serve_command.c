#include "serve/serve_command.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/opt.h"
#include "hpo/space/param_text.h"

enum { KEYS_MAX = 4 };

/* In a command "add", "words" is one set of parameters as `drover sweep add --param` takes it. It
 * becomes "params". */
static json_t *read_words(json_t *command, struct err *e)
{
    AUTO(strv) char **words = NULL;
    json_t *list = json_object_get(command, "words"), *word, *set = NULL;
    size_t i;
    json_array_foreach (list, i, word)
        strv_push(&words, xstrdup(json_is_string(word) ? json_string_value(word) : ""));
    if (param_text_set(&set, words, e) < 0)
        return NULL;
    json_object_del(command, "words");
    json_object_set_new(command, "params", json_pack("[o]", set));
    return json_incref(command);
}

static const struct {
    const char *keys[KEYS_MAX]; /* the first one is the verb */
} verbs[] = {
    {{"stop", "now", "finish"}},
    {{"pause", "finish"}},
    {{"resume"}},
    {{"cancel", "trials", "now"}},
    {{"retry", "trials", "failed"}},
    {{"add", "trials", "params", "words"}},
};

json_t *serve_command_read(const char *text, size_t len, struct err *e)
{
    AUTO(json) json_t *command = NULL;
    const char *verb = NULL, *names[COUNT_OF(verbs)];
    if (json_parse(&command, text, len, e) < 0 || json_require_str(&verb, command, "verb", e) < 0)
        return NULL;
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        const char *keys[KEYS_MAX] = {"verb"};
        size_t n = 1;
        for (; n < KEYS_MAX && verbs[i].keys[n]; n++)
            keys[n] = verbs[i].keys[n];
        names[i] = verbs[i].keys[0];
        if (strcmp(verb, names[i]) != 0)
            continue;
        if (json_only_keys(command, keys, n, verb, e) < 0)
            return NULL;
        return json_object_get(command, "words") ? read_words(command, e) : TAKE(command);
    }
    const char *near = opt_suggest(verb, names, COUNT_OF(verbs));
    err_set(e, -EINVAL, "unknown verb '%s'", verb);
    if (near)
        err_hint(e, "%s", near);
    return NULL;
}
