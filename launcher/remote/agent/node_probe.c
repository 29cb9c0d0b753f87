#include "launcher/remote/agent/node_probe.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/child.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/own_process.h"

static const char *last_line(struct strbuf *text)
{
    while (text->len > 0 && text->data[text->len - 1] == '\n')
        text->data[--text->len] = '\0';
    const char *nl = text->len ? strrchr(text->data, '\n') : NULL;
    return nl ? nl + 1 : strbuf_str(text);
}

/* Returns the command line of `drover machine`, a strv. */
static char **command_line(const char *drover, const struct node_probe_checks *c)
{
    char **argv = NULL;
    strv_push(&argv, xstrdup(drover));
    strv_push(&argv, xstrdup("machine"));
    strv_push(&argv, xstrdup("--preflight"));
    if (c->ranks > 0)
        strv_push(&argv, xasprintf("--ranks=%d", c->ranks));
    if (c->gpus)
        strv_push(&argv, xasprintf("--gpus=%s", c->gpus));
    return argv;
}

int node_probe(struct strbuf *out, const struct node_probe_checks *checks, struct err *e)
{
    AUTO(free) char *drover = NULL;
    AUTO(child_result) struct child_result r = {0};
    int rc = own_process_sibling(&drover, "drover", e);
    if (rc < 0)
        return rc;
    AUTO(strv) char **argv = command_line(drover, checks);
    rc = child_run(
        &r, &(struct child_opts){.argv = argv, .out = CHILD_PIPE, .messages = CHILD_PIPE}, e);
    if (rc == 0 && r.status != 0)
        return err_set(e, -EIO, "%s",
                       r.messages.len ? last_line(&r.messages) : "`drover machine` failed");
    (void)file_write_all(STDERR_FILENO, r.messages.data, r.messages.len);
    strbuf_add(out, r.out.data, r.out.len);
    return rc;
}
