#include "hpo/cmd/hpo_commands.h"

#include <errno.h>
#include <stdio.h>

int hpo_commands_parse(char ***words, size_t max, const struct opt *rows, void *into, int argc,
                       char **argv, struct err *e)
{
    for (int at = 0;;) {
        int rest = 0, rc = opt_parse(rows, into, argc - at, argv + at, &rest, e);
        at += rest;
        if (rc != 0 || at >= argc)
            return rc;
        if (strv_len(*words) == max)
            return err_set(e, -EINVAL, "unexpected argument '%s'", argv[at]);
        strv_push(words, xstrdup(argv[at]));
    }
}

static int check_name(char *const *words, size_t max, struct err *e)
{
    if (max == 0 || words)
        return 0;
    err_set(e, -EINVAL, "no sweep name given");
    return err_hint(e, "drover sweep ls  lists the sweeps");
}

static int exit_status(int rc)
{
    bool usage = rc == -EINVAL || rc == -ENOENT || rc == -EBUSY || rc == -EEXIST || rc == -ERANGE;
    return rc >= 0 ? rc : usage ? EXIT_USAGE : EXIT_WORK;
}

int hpo_commands_run(const struct hpo_command *c, void *into, int argc, char **argv)
{
    struct err e = {0};
    AUTO(strv) char **words = NULL;
    int rc = hpo_commands_parse(&words, c->words_max, c->options, into, argc, argv, &e);
    if (rc == OPT_HELP) {
        opt_print_help(stdout, &c->help, c->options);
        return 0;
    }
    if (rc == 0)
        rc = check_name(words, c->words_max, &e);
    if (rc == 0)
        rc = c->run(words, into, &e);
    if (rc < 0)
        err_print(&e, c->help.program);
    return exit_status(rc);
}
