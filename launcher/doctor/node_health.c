#include "launcher/doctor/node_health.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/own_process.h"
#include "common/strbuf.h"
#include "launcher/doctor/check.h"
#include "launcher/plan/env.h"

/* ---- the answer ----------------------------------------------------------------------------- */

/* Returns the text without the name of the node. */
static const char *without_name(const char *error, const json_t *node)
{
    const char *name = json_string_value(json_object_get(node, "node"));
    size_t len = name ? strlen(name) : 0;
    return error && len && strncmp(error, name, len) == 0 && strncmp(error + len, ": ", 2) == 0
               ? error + len + 2
               : error;
}

static void read_node(struct node_health *out, const json_t *node)
{
    const json_t *check;
    size_t i;
    const char *error = without_name(json_string_value(json_object_get(node, "error")), node);
    *out = (struct node_health){.out = error != NULL, .problem = error ? xstrdup(error) : NULL};
    json_array_foreach (json_object_get(node, "checks"), i, check) {
        const char *id = json_string_value(json_object_get(check, "id"));
        const char *state = json_string_value(json_object_get(check, "state"));
        const char *value = json_string_value(json_object_get(check, "value"));
        const struct check *row = id ? check_find(id) : NULL;
        if (!row || !state || strcmp(state, check_state_name(CHECK_FAIL)) != 0)
            continue;
        bool breaks = row->preflight == CHECK_PREFLIGHT_STOP;
        if (!out->problem || (breaks && !out->out)) {
            free(out->problem);
            out->problem = xasprintf("%s: %s", id, value ? value : "failed");
        }
        out->out |= breaks;
        out->failures++;
    }
}

int node_health_read(struct node_health *out, int count, const char *text, struct err *e)
{
    AUTO(json) json_t *root = NULL;
    if (json_parse(&root, text, strlen(text), e) < 0)
        return -EBADMSG;
    const json_t *nodes = json_object_get(root, "nodes");
    if ((int)json_array_size(nodes) != count)
        return err_set(e, -EBADMSG, "%zu nodes instead of %d", json_array_size(nodes), count);
    for (int i = 0; i < count; i++)
        read_node(&out[i], json_array_get(nodes, (size_t)i));
    return 0;
}

/* ---- the process ---------------------------------------------------------------------------- */

/* Writes the hosts to a file without a name. Returns its descriptor, or -errno. */
static int write_hosts(const struct hosts *hosts)
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
    if (fd < 0 || write(fd, b.data, b.len) != (ssize_t)b.len)
        return -errno;
    return fd_take(&fd);
}

static char **command_line(const char *drover, int hosts_fd, int per_node, char *const *command)
{
    char **argv = NULL;
    strv_push(&argv, xstrdup(drover));
    strv_push(&argv, xstrdup("doctor"));
    strv_push(&argv, xstrdup("--json"));
    strv_push(&argv, xstrdup("--quick"));
    strv_push(&argv, xasprintf("--hostfile=/proc/self/fd/%d", hosts_fd));
    if (per_node > 0)
        strv_push(&argv, xasprintf("--npernode=%d", per_node));
    strv_push(&argv, xstrdup("--"));
    for (; command && *command; command++)
        strv_push(&argv, xstrdup(*command));
    return argv;
}

/* Runs a program, and appends what it writes to stdout. Its other output is dropped. */
static int run(struct strbuf *out, char *const *argv, char *const *env)
{
    int ends[2], status;
    char buf[16384];
    ssize_t n;
    pid_t pid;
    posix_spawn_file_actions_t fds;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    posix_spawn_file_actions_init(&fds);
    posix_spawn_file_actions_adddup2(&fds, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&fds, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&fds, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int rc = -posix_spawn(&pid, argv[0], &fds, NULL, argv, env);
    posix_spawn_file_actions_destroy(&fds);
    close(ends[1]);
    while (rc == 0 && ((n = read(ends[0], buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            strbuf_add(out, buf, (size_t)n);
    close(ends[0]);
    while (rc == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return rc;
}

int node_health_ask(struct node_health *out, const struct hosts *hosts, int per_node,
                    char *const *command, char *const *env, struct err *e)
{
    AUTO(free) char *drover = NULL;
    AUTO(strbuf) struct strbuf text = {0};
    AUTO(fd) int fd = write_hosts(hosts);
    if (fd < 0)
        return err_set(e, fd, "list of nodes: %s", strerror(-fd));
    int rc = own_process_sibling(&drover, "drover", e);
    if (rc < 0)
        return rc;
    AUTO(strv) char **argv = command_line(drover, fd, per_node, command);
    AUTO(strv) char **all = env_merge(environ, env, NULL);
    rc = run(&text, argv, all);
    if (rc < 0)
        return err_set(e, rc, "%s: %s", drover, strerror(-rc));
    rc = node_health_read(out, hosts->count, strbuf_str(&text), e);
    if (rc < 0) {
        err_wrap(e, "drover doctor");
        err_hint(e, "drover doctor --hostfile FILE, which shows the reason");
    }
    return rc;
}
