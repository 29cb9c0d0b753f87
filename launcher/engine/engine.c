#include "launcher/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/strbuf.h"

void engine_free(struct engine_job *j)
{
    if (j)
        j->ops->free(j);
}

static int make_dirs(char *file, struct err *e)
{
    for (char *p = file + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = '\0';
        if (mkdir(file, 0777) < 0 && errno != EEXIST)
            return err_set(e, -errno, "directory '%s': %s", file, strerror(errno));
    }
    return 0;
}

/* Returns hydra's pattern with its %r, %h, %p, %g and %% replaced. The caller frees it. */
static char *expand(const char *pattern, const struct plan *p, int rank)
{
    struct strbuf b = {0};
    int node = p->ranks[rank].node;
    for (const char *c = pattern; *c; c++) {
        if (*c != '%' || !c[1] || !strchr("rhpg%", c[1]))
            strbuf_putc(&b, *c);
        else if (*++c == 'h')
            strbuf_puts(&b, p->nodes[node].name);
        else if (*c == '%')
            strbuf_putc(&b, '%');
        else
            strbuf_printf(&b, "%d", *c == 'r' ? p->first_rank + rank : *c == 'p' ? node : 0);
    }
    return strbuf_take(&b);
}

int engine_open_file(int *fd, const struct launch_spec *s, const struct plan *p, int rank,
                     enum launch_stream from, struct err *e)
{
    const char *pattern = s->output_files[from == LAUNCH_STDERR];
    if (!pattern && !s->output_dir)
        return 0;
    AUTO(free)
    char *file = pattern ? expand(pattern, p, rank)
                         : xasprintf("%s/rank.%d/%s", s->output_dir, rank,
                                     from == LAUNCH_STDOUT ? "stdout" : "stderr");
    if (make_dirs(file, e) < 0)
        return err_wrap(e, "output files");
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    *fd = open(file, flags | (pattern && s->restart_count ? 0 : O_TRUNC), 0666);
    return *fd < 0 ? err_set(e, -errno, "output file '%s': %s", file, strerror(errno)) : 0;
}
