#include "launcher/metrics/metrics_server.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/own_process.h"
#include "launcher/metrics/metrics_address.h"
#include "launcher/metrics/metrics_http.h"

enum { INTERVAL_MS = 1000, BACKLOG = 64 };

struct metrics_server {
    uv_timer_t timer;
    const struct metrics_http_plugin *plugin;
    struct metrics_http *http;
    struct metrics_text *text;
    void (*fill)(void *arg, struct metrics_text *t); /* NULL: not started */
    void *arg;
    char *url;
};

static int load(const struct metrics_http_plugin **out, struct err *e)
{
    AUTO(free) char *path = NULL;
    if (own_process_sibling(&path, "metrics_http.so", e) < 0)
        return -ENOENT;
    if (access(path, R_OK) < 0) {
        err_set(e, -ENOENT, "%s: %s; this drover was built without libmicrohttpd", path,
                strerror(errno));
        return err_hint(e, "install libmicrohttpd-dev (scripts/setup does it), and build again");
    }
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        err_set(e, -ELIBBAD, "%s", dlerror());
        return err_hint(e, "install libmicrohttpd: apt-get install libmicrohttpd12");
    }
    const struct metrics_http_plugin *p = dlsym(lib, "metrics_http_functions");
    if (!p || p->abi != METRICS_HTTP_ABI)
        return err_set(e, -ELIBBAD, "%s is of another version of drover", path);
    *out = p; /* the library stays loaded: its thread may run until the process ends */
    return 0;
}

/* Returns a socket that listens at `a`, whose port becomes the true one. */
static int listen_at(struct metrics_address *a, const char *address, struct err *e)
{
    static const int on = 1;
    AUTO(fd) int fd = socket(a->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, &a->at.any, a->size) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, &a->at.any, &a->size) < 0) {
        int code = errno;
        err_set(e, -code, "%s: %s", address, strerror(code));
        return code == EADDRINUSE ? err_hint(e, "another port, or 0 for a free one") : -code;
    }
    return fd_take(&fd);
}

/* Returns the text with the values of `fill` (NULL: none yet), which the caller frees. */
static char *make_text(struct metrics_server *s)
{
    metrics_text_add(s->text, METRICS_BUILD_INFO, 1,
                     &(struct metrics_label){"version", DROVER_VERSION}, 1);
    if (s->fill)
        s->fill(s->arg, s->text);
    return metrics_text_take(s->text);
}

static void on_timer(uv_timer_t *t)
{
    struct metrics_server *s = t->data;
    char *text = make_text(s);
    s->plugin->set(s->http, text, strlen(text));
}

int metrics_server_open(struct metrics_server **out, const char *address, struct err *e)
{
    struct metrics_address a;
    const struct metrics_http_plugin *plugin = NULL;
    int rc = metrics_address_parse(&a, address, e);
    if (rc == 0)
        rc = load(&plugin, e);
    AUTO(fd) int fd = rc < 0 ? -1 : listen_at(&a, address, e);
    if (fd < 0)
        return err_wrap(e, "--metrics");
    AUTO(metrics_server) struct metrics_server *s = xzalloc(sizeof *s);
    AUTO(strbuf) struct strbuf url = {0};
    metrics_address_url(&url, &a);
    s->url = strbuf_take(&url);
    s->plugin = plugin;
    s->text = metrics_text_new();
    AUTO(free) char *text = make_text(s);
    s->http = plugin->start(fd_take(&fd), text);
    if (!s->http)
        return err_set(e, -EAGAIN, "--metrics %s: the server's thread cannot be started", address);
    *out = TAKE(s);
    return 0;
}

void metrics_server_start(struct metrics_server *s, uv_loop_t *loop,
                          void (*fill)(void *arg, struct metrics_text *t), void *arg)
{
    s->fill = fill;
    s->arg = arg;
    uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    uv_timer_start(&s->timer, on_timer, 0, INTERVAL_MS);
}

const char *metrics_server_url(const struct metrics_server *s)
{
    return s->url;
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void metrics_server_close(struct metrics_server *s)
{
    if (!s)
        return;
    if (s->http)
        s->plugin->stop(s->http);
    metrics_text_free(s->text);
    free(s->url);
    if (s->fill)
        uv_close((uv_handle_t *)&s->timer, on_closed);
    else
        free(s);
}
