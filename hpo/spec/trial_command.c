#include "hpo/spec/trial_command.h"

#include <errno.h>
#include <string.h>

#include "common/mem.h"
#include "common/opt.h"
#include "common/strbuf.h"
#include "hpo/space/python_repr.h"

enum macro {
    MACRO_ENV,
    MACRO_INTERPRETER,
    MACRO_PROGRAM,
    MACRO_ARGS,
    MACRO_ARGS_NO_HYPHENS,
    MACRO_ARGS_NO_EQUALS,
    MACRO_ARGS_NO_BOOLEAN_FLAGS,
    MACRO_ARGS_APPEND_HYDRA,
    MACRO_ARGS_OVERRIDE_HYDRA,
    MACRO_ARGS_JSON,
    MACRO_ARGS_JSON_FILE,
    MACRO_COUNT
};

static const char *const names[MACRO_COUNT] = {
    [MACRO_ENV] = "${env}",
    [MACRO_INTERPRETER] = "${interpreter}",
    [MACRO_PROGRAM] = "${program}",
    [MACRO_ARGS] = "${args}",
    [MACRO_ARGS_NO_HYPHENS] = "${args_no_hyphens}",
    [MACRO_ARGS_NO_EQUALS] = "${args_no_equals}",
    [MACRO_ARGS_NO_BOOLEAN_FLAGS] = "${args_no_boolean_flags}",
    [MACRO_ARGS_APPEND_HYDRA] = "${args_append_hydra}",
    [MACRO_ARGS_OVERRIDE_HYDRA] = "${args_override_hydra}",
    [MACRO_ARGS_JSON] = "${args_json}",
    [MACRO_ARGS_JSON_FILE] = "${args_json_file}",
};

char *const trial_command_default[] = {"${env}", "${interpreter}", "${program}", "${args}", NULL};

static const char envvar[] = "${envvar:";

/* Returns the length of ${envvar:NAME} if `s` starts with it, otherwise 0. */
static size_t envvar_length(const char *s)
{
    size_t head = sizeof envvar - 1;
    if (strncmp(s, envvar, head) != 0)
        return 0;
    size_t name = strspn(s + head, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return name > 0 && s[head + name] == '}' ? head + name + 1 : 0;
}

/* Returns the macro that the item is, or MACRO_COUNT if it is not one. */
static enum macro find(const char *item)
{
    enum macro m = MACRO_ENV;
    while (m < MACRO_COUNT && strcmp(item, names[m]) != 0)
        m++;
    return m;
}

static bool looks_like_macro(const char *item)
{
    size_t len = strlen(item);
    return len > 2 && strncmp(item, "${", 2) == 0 && strchr(item, '}') == item + len - 1 &&
           !envvar_length(item);
}

static int check_item(const char *item, const char *program, struct err *e)
{
    enum macro m = find(item);
    if (m == MACRO_PROGRAM && !program) {
        err_set(e, -EINVAL, "the command uses ${program}, but there is no 'program'");
        return err_hint(e, "program: train.py");
    }
    if (m < MACRO_COUNT)
        return 0;
    if (looks_like_macro(item)) {
        err_set(e, -EINVAL, "unknown macro '%s' in the command", item);
        const char *near = opt_suggest(item, names, MACRO_COUNT);
        return near ? err_hint(e, "%s", near) : -EINVAL;
    }
    for (m = MACRO_ENV; m < MACRO_COUNT; m++)
        if (strstr(item, names[m])) {
            err_set(e, -EINVAL, "'%s' in the command: %s is only replaced if it is a separate item",
                    item, names[m]);
            return err_hint(e,
                            "make it a separate item; only ${envvar:NAME} works inside of an item");
        }
    return 0;
}

int trial_command_check(char *const *items, const char *program, struct err *e)
{
    for (items = items ? items : trial_command_default; *items; items++)
        if (check_item(*items, program, e) < 0)
            return -EINVAL;
    return 0;
}

const char *trial_command_executed(char *const *items)
{
    items = items ? items : trial_command_default;
    if (find(*items) != MACRO_ENV)
        return *items;
    do
        items++;
    while (*items && (find(*items) == MACRO_ENV || strchr(*items, '=')));
    return *items;
}

/* Returns true for Python's option for a module, alone or after other letters: -m, -um. */
static bool is_module_option(const char *word)
{
    size_t len = strlen(word);
    return strcmp(word, "--module") == 0 ||
           (len > 1 && word[0] == '-' && word[1] != '-' && word[len - 1] == 'm');
}

enum trial_command_program trial_command_program(char *const *items)
{
    items = items ? items : trial_command_default;
    size_t i = 0;
    while (items[i] && find(items[i]) != MACRO_PROGRAM)
        i++;
    if (!items[i])
        return TRIAL_COMMAND_NO_PROGRAM;
    if (trial_command_executed(items) == items[i])
        return TRIAL_COMMAND_EXECUTABLE;
    if (is_module_option(items[i - 1]))
        return TRIAL_COMMAND_MODULE;
    return find(items[i - 1]) == MACRO_INTERPRETER ? TRIAL_COMMAND_SCRIPT : TRIAL_COMMAND_ARGUMENT;
}

/* Appends one item per parameter, which consists of `before`, the name, '=' and the value.
 * ${args_no_equals} and ${args_no_boolean_flags} have other forms. */
static void push_args(char ***argv, const char *before, const json_t *params, enum macro m)
{
    json_t *object = json_incref((json_t *)params); /* jansson's iterators do not accept const */
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (object, key, value) {
        struct strbuf b = {0};
        if (m == MACRO_ARGS_NO_BOOLEAN_FLAGS && json_is_boolean(value)) {
            if (json_is_true(value))
                strv_push(argv, xasprintf("--%s", key));
            continue;
        }
        if (m == MACRO_ARGS_NO_EQUALS)
            strv_push(argv, xasprintf("--%s", key));
        else
            strbuf_printf(&b, "%s%s=", before, key);
        python_repr_str(&b, value);
        strv_push(argv, strbuf_take(&b));
    }
    json_decref(object);
}

static void push_text(char ***argv, const struct trial_command *c, const char *item)
{
    struct strbuf b = {0};
    for (size_t n = 0; *item; item += n) {
        n = envvar_length(item);
        if (n == 0) {
            strbuf_putc(&b, *item);
            n = 1;
            continue;
        }
        size_t head = sizeof envvar - 1;
        AUTO(free) char *name = xstrndup(item + head, n - head - 1);
        const char *value = c->getenv ? c->getenv(c->arg, name) : NULL;
        strbuf_puts(&b, value ? value : name);
    }
    strv_push(argv, strbuf_take(&b));
}

static void push_item(char ***argv, const struct trial_command *c, const char *item,
                      const json_t *params)
{
    static const char *const before[MACRO_COUNT] = {
        [MACRO_ARGS] = "--",
        [MACRO_ARGS_NO_HYPHENS] = "",
        [MACRO_ARGS_NO_EQUALS] = "--",
        [MACRO_ARGS_NO_BOOLEAN_FLAGS] = "--",
        [MACRO_ARGS_APPEND_HYDRA] = "+",
        [MACRO_ARGS_OVERRIDE_HYDRA] = "++",
    };
    enum macro m = find(item);
    const char *word = m == MACRO_ENV              ? "/usr/bin/env"
                       : m == MACRO_INTERPRETER    ? c->interpreter
                       : m == MACRO_PROGRAM        ? c->program
                       : m == MACRO_ARGS_JSON_FILE ? c->json_file
                                                   : NULL;
    struct strbuf json = {0};
    if (word) {
        strv_push(argv, xstrdup(word));
    } else if (m == MACRO_ARGS_JSON) {
        python_repr_json(&json, params);
        strv_push(argv, strbuf_take(&json));
    } else if (m == MACRO_COUNT) {
        push_text(argv, c, item);
    } else {
        push_args(argv, before[m], params, m);
    }
}

int trial_command_build(char ***out, const struct trial_command *c, const json_t *params,
                        struct err *e)
{
    if (trial_command_check(c->items, c->program, e) < 0)
        return -EINVAL;
    AUTO(strv) char **argv = NULL;
    for (char *const *item = c->items ? c->items : trial_command_default; *item; item++)
        push_item(&argv, c, *item, params);
    if (!argv)
        return err_set(e, -EINVAL, "the command is empty");
    *out = TAKE(argv);
    return 0;
}
