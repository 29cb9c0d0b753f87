#include "serve/data/serve_sweep_file.h"

#include <ctype.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/redact.h"
#include "common/strbuf.h"
#include "common/yaml.h"

static const char hidden[] = "***";

/* Appends the scalars of what has the name of a secret; not the name of its distribution. */
static void add_scalars(char ***secrets, const json_t *value)
{
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_object(value)) {
        json_object_foreach ((json_t *)value, key, item) /* the macro rejects const pointers */
            if (strcmp(key, "distribution") != 0)
                add_scalars(secrets, item);
    } else if (json_is_array(value)) {
        json_array_foreach (value, i, item)
            add_scalars(secrets, item);
    } else if (json_is_string(value)) {
        AUTO(strbuf) struct strbuf shown = {0};
        redact_value(&shown, "secret", strlen("secret"), json_string_value(value));
        if (strcmp(strbuf_str(&shown), json_string_value(value)) != 0)
            strv_push(secrets, xstrdup(json_string_value(value)));
    }
}

static void add_words(char ***secrets, const json_t *command)
{
    AUTO(strv) char **words = NULL;
    for (size_t i = 0; i < json_array_size(command); i++) {
        const char *word = json_string_value(json_array_get(command, i));
        strv_push(&words, xstrdup(word ? word : ""));
    }
    AUTO(strv) char **shown = redact_argv(words);
    for (size_t i = 0; words && words[i]; i++) {
        size_t len = strlen(shown[i]), kept = len >= strlen(hidden) ? len - strlen(hidden) : 0;
        if (strcmp(shown[i], words[i]) != 0 && strcmp(shown[i] + kept, hidden) == 0 &&
            strncmp(shown[i], words[i], kept) == 0)
            strv_push(secrets, xstrdup(words[i] + kept));
    }
}

static void add_secrets(char ***secrets, const json_t *value)
{
    const char *key;
    json_t *item;
    size_t i;
    json_object_foreach ((json_t *)value, key, item) /* the macro rejects const pointers */
        if (redact_is_secret_name(key, strlen(key)))
            add_scalars(secrets, item);
        else if (strcmp(key, "command") == 0)
            add_words(secrets, item);
        else
            add_secrets(secrets, item);
    json_array_foreach (value, i, item)
        add_secrets(secrets, item);
}

/* The length of the longest secret that stands at `text` as a word of its own; 0: none. */
static size_t secret_at(char *const *secrets, const char *text, char before)
{
    size_t longest = 0;
    for (; secrets && *secrets && !isalnum((unsigned char)before); secrets++) {
        size_t len = strlen(*secrets);
        if (len > longest && strncmp(text, *secrets, len) == 0 &&
            !isalnum((unsigned char)text[len]))
            longest = len;
    }
    return longest;
}

static bool are_in(char *const *secrets, const char *text)
{
    while (secrets && *secrets && strstr(text, *secrets))
        secrets++;
    return !secrets || !*secrets;
}

char *serve_sweep_file(const char *text)
{
    AUTO(yaml_doc) struct yaml_doc *doc = NULL;
    AUTO(strv) char **secrets = NULL;
    AUTO(strbuf) struct strbuf plain = {0}, shown = {0};
    if (yaml_read(&doc, text, strlen(text), "", "command", NULL) == 0)
        add_secrets(&secrets, yaml_root(doc));
    if (!are_in(secrets, text))
        return xstrdup("# not shown: it writes a secret with escapes or in several lines\n");
    for (char before = 0; *text;) {
        size_t len = secret_at(secrets, text, before);
        strbuf_add(&plain, len ? hidden : text, len ? strlen(hidden) : 1);
        before = text[len ? len - 1 : 0];
        text += len ? len : 1;
    }
    redact_text(&shown, strbuf_str(&plain));
    return strbuf_take(&shown);
}
