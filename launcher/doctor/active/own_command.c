#include "launcher/doctor/active/own_command.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/file.h"
#include "common/own_process.h"
#include "launcher/plan/env.h"

int own_command_hosts(const struct hosts *hosts, struct err *e)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(fd) int fd = memfd_create("hosts", 0);
    for (int i = 0; i < hosts->count; i++) {
        const struct host *h = &hosts->at[i];
        strbuf_printf(&b, "%s slots=1", h->name);
        if (h->port)
            strbuf_printf(&b, " port=%d", h->port);
        strbuf_puts(&b, "\n");
    }
    int rc = fd < 0 ? -errno : file_write_all(fd, b.data, b.len);
    return rc < 0 ? err_set(e, rc, "list of nodes: %s", strerror(-rc)) : fd_take(&fd);
}

int own_command_run(struct child_result *r, char *const *argv, char *const *env, struct err *e)
{
    AUTO(free) char *drover = NULL;
    AUTO(strv) char **line = NULL, **all = env_merge(environ, env, NULL);
    int rc = own_process_sibling(&drover, "drover", e);
    if (rc < 0)
        return rc;
    strv_push(&line, xstrdup(drover));
    for (; *argv; argv++)
        strv_push(&line, xstrdup(*argv));
    return child_run(
        r,
        &(struct child_opts){.argv = line, .env = all, .out = CHILD_PIPE, .messages = CHILD_PIPE},
        e);
}

char *own_command_error(const struct child_result *r)
{
    AUTO(free) char *copy = xstrdup(strbuf_str(&r->messages));
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
        const char *text = strncmp(line, "drover", 6) == 0 ? strstr(line, ": ") : NULL;
        if (text && strncmp(text, ": warn: ", 8) != 0)
            return xstrdup(text + 2);
    }
    return xasprintf("it has ended with status %d", r->status);
}
