#include "launcher/doctor/active/node_health.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/plural.h"
#include "launcher/doctor/active/own_command.h"
#include "launcher/doctor/core/check.h"

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
        bool breaks = row->when == CHECK_STOP;
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
        return err_set(e, -EBADMSG, "%zu node%s instead of %d", json_array_size(nodes),
                       plural_s((long long)json_array_size(nodes)), count);
    for (int i = 0; i < count; i++)
        read_node(&out[i], json_array_get(nodes, (size_t)i));
    return 0;
}

/* ---- the process ---------------------------------------------------------------------------- */

static char **command_line(int hosts_fd, int per_node, char *const *command)
{
    char **argv = NULL;
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

int node_health_ask(struct node_health *out, const struct hosts *hosts, int per_node,
                    char *const *command, char *const *env, struct err *e)
{
    AUTO(child_result) struct child_result c = {0};
    AUTO(fd) int fd = own_command_hosts(hosts, e);
    if (fd < 0)
        return fd;
    AUTO(strv) char **argv = command_line(fd, per_node, command);
    int rc = own_command_run(&c, argv, env, e);
    if (rc < 0)
        return rc;
    rc = node_health_read(out, hosts->count, strbuf_str(&c.out), e);
    if (rc < 0) {
        err_wrap(e, "drover doctor");
        err_hint(e, "drover doctor --hostfile FILE, which shows the reason");
    }
    return rc;
}
