#include "launcher/doctor/active/node_findings.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "common/mem.h"
#include "common/own_process.h"
#include "launcher/doctor/core/check.h"

enum { READ_BYTES = 4096, TEXT_MAX = 1 << 20 };

struct node_findings {
    uv_process_t process;
    uv_pipe_t out;
    struct strbuf text;
    int open; /* handles */
    bool exited, eof;
    node_findings_fn *done; /* NULL: it was called, or node_findings_close() was */
    void *arg;
    char scratch[READ_BYTES];
};

/* ---- the answer ----------------------------------------------------------------------------- */

/* Whether a check can explain why a rank is slow: one of GPUs, links, driver, or of the CPUs and
 * the memory of the host. */
static bool explains(const char *id)
{
    static const char *const ids[] = {"gpu.",        "link.",        "drv.",     "host.cpus",
                                      "host.mem",    "host.oom",     "host.thp", "host.governor",
                                      "host.dstate", "host.numa_bal"};
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        size_t len = strlen(ids[i]);
        if (strncmp(id, ids[i], len) == 0 && (ids[i][len - 1] == '.' || id[len] == '\0'))
            return true;
    }
    return false;
}

int node_findings_read(struct strbuf *text, json_t *list, const char *output, struct err *e)
{
    AUTO(json) json_t *root = NULL;
    const json_t *check;
    size_t i;
    if (json_parse(&root, output, strlen(output), e) < 0)
        return -EBADMSG;
    const json_t *checks =
        json_object_get(json_array_get(json_object_get(root, "nodes"), 0), "checks");
    if (!json_is_array(checks))
        return err_set(e, -EBADMSG, "no answer");
    json_array_foreach (checks, i, check) {
        const char *id = json_string_value(json_object_get(check, "id"));
        const char *state = json_string_value(json_object_get(check, "state"));
        const char *value = json_string_value(json_object_get(check, "value"));
        const char *want = json_string_value(json_object_get(check, "want"));
        if (!id || !state || !value || !explains(id) ||
            (strcmp(state, check_state_name(CHECK_WARN)) != 0 &&
             strcmp(state, check_state_name(CHECK_FAIL)) != 0))
            continue;
        strbuf_printf(text, "%s%s: %s", text->len ? "; " : "", id, value);
        if (want)
            strbuf_printf(text, ", wanted: %s", want);
        json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "id", json_text(id), "state",
                                              json_text(state), "value", json_text(value)));
    }
    return 0;
}

/* ---- the process ---------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *h)
{
    struct node_findings *f = h->data;
    if (--f->open > 0)
        return;
    strbuf_free(&f->text);
    free(f);
}

static void report_when_done(struct node_findings *f)
{
    AUTO(strbuf) struct strbuf text = {0};
    json_t *list;
    if (!f->exited || !f->eof || !f->done)
        return;
    node_findings_fn *done = f->done;
    f->done = NULL;
    list = json_array();
    if (node_findings_read(&text, list, strbuf_str(&f->text), NULL) == 0) {
        done(f->arg, strbuf_str(&text), list);
        return;
    }
    json_decref(list);
    done(f->arg, NULL, NULL);
}

static void on_ended(uv_process_t *p, int64_t status, int sig)
{
    struct node_findings *f = p->data;
    f->exited = true;
    report_when_done(f);
}

static void on_alloc(uv_handle_t *h, size_t wanted, uv_buf_t *buf)
{
    struct node_findings *f = h->data;
    *buf = uv_buf_init(f->scratch, sizeof f->scratch);
}

static void on_read(uv_stream_t *out, ssize_t n, const uv_buf_t *buf)
{
    struct node_findings *f = out->data;
    if (n > 0 && f->text.len < TEXT_MAX)
        strbuf_add(&f->text, buf->base, (size_t)n);
    if (n >= 0)
        return;
    uv_read_stop(out);
    f->eof = true;
    report_when_done(f);
}

struct node_findings *node_findings_start(uv_loop_t *loop, const char *node, node_findings_fn *done,
                                          void *arg)
{
    AUTO(free) char *drover = NULL;
    if (own_process_sibling(&drover, "drover", NULL) < 0)
        return NULL;
    struct node_findings *f = xzalloc(sizeof *f);
    char *argv[] = {drover,           (char *)"doctor",
                    (char *)"--json", node ? (char *)"--host" : NULL,
                    (char *)node,     NULL};
    uv_stdio_container_t fds[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&f->out},
        {.flags = UV_IGNORE}};
    const uv_process_options_t o = {.file = drover,
                                    .args = argv,
                                    .exit_cb = on_ended,
                                    .stdio = fds,
                                    .stdio_count = COUNT_OF(fds)};
    f->done = done;
    f->arg = arg;
    f->process.data = f->out.data = f;
    uv_pipe_init(loop, &f->out, false);
    f->open = 2;
    if (uv_spawn(loop, &f->process, &o) < 0) { /* it initializes the handle in any case */
        f->done = NULL;
        node_findings_close(f);
        return NULL;
    }
    uv_read_start((uv_stream_t *)&f->out, on_alloc, on_read);
    return f;
}

void node_findings_close(struct node_findings *f)
{
    if (!f)
        return;
    f->done = NULL;
    if (!f->exited && f->process.pid > 0)
        (void)uv_process_kill(&f->process, SIGKILL); /* doctor's own children end with it */
    uv_close((uv_handle_t *)&f->process, on_closed);
    uv_close((uv_handle_t *)&f->out, on_closed);
}
