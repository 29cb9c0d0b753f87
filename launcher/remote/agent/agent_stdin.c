/* Stdin of the rank that reads the launcher's stdin. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "launcher/remote/agent/agent_internal.h"

int agent_stdin_open(struct agent *a, struct err *e)
{
    struct agent_stdin *in = &a->stdin_of_rank;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(e, -errno, "stdin: %s", strerror(errno));
    in->rank_fd = ends[0];
    uv_pipe_init(&a->loop, &in->pipe, 0);
    in->open = true;
    int rc = uv_pipe_open(&in->pipe, ends[1]);
    if (rc < 0)
        close(ends[1]);
    return rc < 0 ? err_set(e, rc, "stdin: %s", uv_strerror(rc)) : 0;
}

void agent_stdin_handed_over(struct agent *a)
{
    auto_fd(&a->stdin_of_rank.rank_fd);
    a->stdin_of_rank.rank_fd = -1;
}

void agent_stdin_close(struct agent *a)
{
    struct agent_stdin *in = &a->stdin_of_rank;
    if (in->open)
        uv_close((uv_handle_t *)&in->pipe, NULL);
    in->open = false;
}

struct stdin_write {
    uv_write_t req;
    struct agent *agent;
    size_t len;
    char bytes[];
};

/* A failed write shows that the rank has closed its stdin. The launcher then sends no more
 * input. */
static void on_written(uv_write_t *req, int status)
{
    struct stdin_write *w = (struct stdin_write *)req;
    struct agent *a = w->agent;
    if (--a->stdin_of_rank.writes == 0 && a->stdin_of_rank.eof)
        agent_stdin_close(a);
    if (status != UV_ECANCELED)
        agent_send_head(a, json_pack("{s:s,s:i,s:I,s:b}", "t", "credit", "rank",
                                     a->spec.settings.stdin_rank, "bytes", (json_int_t)w->len,
                                     "closed", status < 0));
    free(w);
}

void agent_stdin_on_stdin(struct agent *a, const struct control_frame *f)
{
    struct agent_stdin *in = &a->stdin_of_rank;
    if (!in->open)
        return;
    if (f->len == 0) { /* end of input; stdin is closed when all writes are complete */
        in->eof = true;
        if (in->writes == 0)
            agent_stdin_close(a);
        return;
    }
    struct stdin_write *w = xzalloc(sizeof *w + f->len);
    w->agent = a;
    w->len = f->len;
    in->writes++;
    memcpy(w->bytes, f->payload, f->len);
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)f->len);
    int rc = uv_write(&w->req, (uv_stream_t *)&in->pipe, &buf, 1, on_written);
    if (rc < 0)
        on_written(&w->req, rc);
}
