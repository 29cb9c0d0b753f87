#include "common/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/strbuf.h"
#include "common/utf8.h"

static int unexpected(const struct command *c, const char *word, struct err *e)
{
    err_set(e, -EINVAL, "unexpected argument '%s'", word);
    return c->unexpected_hint ? err_hint(e, "%s", c->unexpected_hint) : e->code;
}

int command_parse(char ***words, const struct command *c, void *into, int argc, char **argv,
                  struct err *e)
{
    AUTO(strv) char **given = NULL;
    for (int at = 0;;) {
        int rest = 0;
        int rc = opt_parse_given(&given, c->options, into, argc - at, argv + at, &rest, e);
        at += rest;
        size_t n = strv_len(*words);
        bool dashes = at > 1 && n >= c->words_min && strcmp(argv[at - 1], "--") == 0;
        if (rc == 0 && c->program && (dashes || (at < argc && n == c->words_max))) {
            char *const *program = argv + at;
            memcpy((char *)into + c->program, &program, sizeof program);
            return 0;
        }
        if (rc != 0 || at >= argc)
            return rc;
        if (n == c->words_max)
            return unexpected(c, argv[at], e);
        strv_push(words, xstrdup(argv[at]));
    }
}

static int check_words(const struct command *c, char *const *words, struct err *e)
{
    if (strv_len(words) >= c->words_min)
        return 0;
    err_set(e, -EINVAL, "%s", c->missing);
    return c->missing_hint ? err_hint(e, "%s", c->missing_hint) : e->code;
}

static int exit_status(int rc)
{
    bool usage = rc == -EINVAL || rc == -ENOENT || rc == -EBUSY || rc == -EEXIST || rc == -ERANGE;
    return rc >= 0 ? rc : usage ? EXIT_STATUS_USAGE : EXIT_STATUS_FAILED;
}

int command_run(const struct command *c, void *into, int argc, char **argv)
{
    struct err e = {0};
    AUTO(strv) char **words = NULL;
    int status, rc = command_parse(&words, c, into, argc, argv, &e);
    if (rc == OPT_HELP) {
        opt_print_help(stdout, &c->help, c->options);
        return 0;
    }
    if (rc == 0)
        rc = check_words(c, words, &e);
    status = rc < 0 ? EXIT_STATUS_USAGE : exit_status(c->run(words, into, &e));
    if (status && e.code < 0)
        err_print(&e, c->help.program);
    return status;
}

char *command_to_paste(const char *command, const char *name, const char *root, const char *usual)
{
    struct strbuf b = {0};
    AUTO(free) char *real = realpath(root, NULL), *usual_real = realpath(usual, NULL);
    strbuf_printf(&b, "%s%s", command, name ? " " : "");
    if (name)
        utf8_add_shell_word(&b, name);
    if (strcmp(root, usual) != 0 && (!real || !usual_real || strcmp(real, usual_real) != 0)) {
        strbuf_puts(&b, " --dir ");
        utf8_add_shell_word(&b, root);
    }
    return strbuf_take(&b);
}
