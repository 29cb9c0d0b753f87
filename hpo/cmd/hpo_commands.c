#include "hpo/cmd/hpo_commands.h"

#include <errno.h>

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

int hpo_commands_no_name(struct err *e)
{
    err_set(e, -EINVAL, "no sweep name given");
    return err_hint(e, "drover sweep ls  lists the sweeps");
}
