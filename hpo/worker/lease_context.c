#include "hpo/worker/lease_context.h"

#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/node/cgroup.h"

void lease_context_send(const struct lease_context *c, enum wire_kind kind, int64_t lease,
                        json_t *data)
{
    const struct wire_msg m = {.kind = kind, .lease = lease, .data = data};
    c->send(c->arg, &m);
}

/* The coordinator that started this worker may be in its control group. */
static bool may_move(pid_t pid)
{
    AUTO(free) char *exe = xasprintf("/proc/%d/exe", (int)pid);
    char its[4096] = "", ours[4096] = "?";
    if (pid != getppid())
        return process_tree_is_descendant(pid);
    return readlink(exe, its, sizeof its - 1) > 0 &&
           readlink("/proc/self/exe", ours, sizeof ours - 1) > 0 && strcmp(its, ours) == 0;
}

/* Without limits, the kernel's count of OOM kills shows which trials ran out of memory. */
int lease_context_claim_cgroups(struct lease_context *c, struct err *e)
{
    if (c->need->memory_bytes == 0 && c->need->cpus == 0)
        return 0;
    int rc = cgroup_delegate_claim(&c->cgroups, "", may_move, e);
    return c->need->memory_bytes == 0 ? 0 : rc;
}

char *lease_context_make_cgroup(const struct lease_context *c, int64_t lease)
{
    if (!c->cgroups)
        return NULL;
    const struct cgroup_delegate_limits limits = {c->need->memory_bytes,
                                                  c->need->ranks * c->need->cpus};
    AUTO(free) char *name = xasprintf("%d-%lld", (int)getpid(), (long long)lease);
    char *dir = NULL;
    struct err e = {0};
    if (cgroup_delegate_make(&dir, c->cgroups, name, &limits, &e) < 0)
        log_warn("lease %lld runs without limits: %s", (long long)lease, e.text);
    return dir;
}

struct agent_spawn_opts lease_context_agent(const json_t *ticket, const char *cgroup)
{
    return (struct agent_spawn_opts){
        .control = json_string_value(json_object_get(ticket, "address")),
        .token = json_string_value(json_object_get(ticket, "token")),
        .node = (int)json_integer_value(json_object_get(ticket, "node")), /* missing: 0 */
        .cgroup = cgroup};
}
