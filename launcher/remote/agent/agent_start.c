/* What precedes the start of the ranks: the topology, node_spec, MASTER_PORT and the networks. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/child.h"
#include "common/file.h"
#include "common/own_process.h"
#include "launcher/engine/mpi_transport.h"
#include "launcher/node/netif.h"
#include "launcher/node/port_hold.h"
#include "launcher/plan/env.h"
#include "launcher/pmi/pmix_loader.h"
#include "launcher/remote/agent/agent_internal.h"

/* Returns true if the variable describes the allocation that srun has made or joined, and not its
 * tasks, which are agents. */
static bool is_allocation_env(const char *entry)
{
    static const char *const prefixes[] = {
        "SLURM_JOB",       "SLURM_CLUSTER_NAME=", "SLURM_SUBMIT_",
        "SLURM_NODELIST=", "SLURM_CONF=",         NULL};
    return strv_begins(prefixes, entry);
}

char **agent_start_inherited_env(void)
{
    char **own = NULL;
    for (char **entry = environ; *entry; entry++)
        if (node_spec_is_host_env(*entry) || is_allocation_env(*entry))
            strv_push(&own, xstrdup(*entry));
    return own;
}

/* ---- topology ------------------------------------------------------------------------------- */

static int export_topology(struct strbuf *out, const struct agent *a, struct err *e)
{
    AUTO(free) char *text = NULL;
    size_t len = 0;
    int rc = topo_export(&text, &len, a->context->topo, e);
    if (rc == 0)
        strbuf_add(out, text, len);
    return rc;
}

static const char *last_line(struct strbuf *text)
{
    while (text->len > 0 && text->data[text->len - 1] == '\n')
        text->data[--text->len] = '\0';
    const char *nl = text->len ? strrchr(text->data, '\n') : NULL;
    return nl ? nl + 1 : strbuf_str(text);
}

int agent_start_probe(struct strbuf *out, int ranks, const char *gpus, struct err *e)
{
    AUTO(free) char *drover = NULL;
    AUTO(strv) char **argv = NULL;
    AUTO(child_result) struct child_result r = {0};
    int rc = own_process_sibling(&drover, "drover", e);
    if (rc < 0)
        return rc;
    strv_push(&argv, TAKE(drover));
    strv_push(&argv, xstrdup("machine"));
    strv_push(&argv, xstrdup("--preflight"));
    if (ranks > 0)
        strv_push(&argv, xasprintf("--ranks=%d", ranks));
    if (gpus)
        strv_push(&argv, xasprintf("--gpus=%s", gpus));
    rc = child_run(
        &r, &(struct child_opts){.argv = argv, .out = CHILD_PIPE, .messages = CHILD_PIPE}, e);
    if (rc == 0 && r.status != 0)
        return err_set(e, -EIO, "%s",
                       r.messages.len ? last_line(&r.messages) : "`drover machine` failed");
    (void)file_write_all(STDERR_FILENO, r.messages.data, r.messages.len);
    strbuf_add(out, r.out.data, r.out.len);
    return rc;
}

void agent_start_on_topo_request(struct agent *a, const struct control_frame *f)
{
    AUTO(strbuf) struct strbuf topo = {0};
    struct err e = {0};
    const char *gpus = NULL;
    bool checked = false;
    int64_t ranks = 0;
    (void)json_optional_bool(&checked, f->head, "preflight", NULL);
    (void)json_optional_int(&ranks, f->head, "ranks", NULL);
    (void)json_optional_str(&gpus, f->head, "gpus", NULL);
    if (!a->context)
        return; /* `not_started` was sent */
    if ((checked ? agent_start_probe(&topo, (int)ranks, gpus, &e) : export_topology(&topo, a, &e)) <
        0)
        agent_send_start_error(a, &e);
    else
        agent_send(a, json_pack("{s:s}", "t", "topo"), topo.data, topo.len);
}

/* ---- node_spec ------------------------------------------------------------------------------ */

static int choose_port(struct agent *a, struct err *e)
{
    int port = 0;
    int wanted = a->spec.settings.master_port;
    int rc = wanted ? port_hold(&a->port_fd, &port, wanted, e)
                    : port_hold_in(&a->port_fd, &port, a->spec.settings.ports, e);
    if (rc < 0)
        return rc;
    if (a->spec.settings.no_hold_port)
        close(fd_take(&a->port_fd));
    agent_send_head(a, json_pack("{s:s,s:i}", "t", "port", "port", port));
    return 0;
}

/* Sets the user's parameters of PMIx for this process, since some of them must be the same for a
 * server and its clients, and which libpmix it loads. */
static void set_pmix_params(const struct agent *a)
{
    static const char lib[] = PMIX_LOADER_ENV "=";
    for (size_t i = 0; a->spec.base && a->spec.base[i]; i++) {
        const char *entry = a->spec.base[i];
        if (strncmp(entry, "PMIX_MCA_", 9) != 0 && strncmp(entry, lib, sizeof lib - 1) != 0)
            continue;
        AUTO(free) char *name = xstrndup(entry, strcspn(entry, "="));
        setenv(name, strchr(entry, '=') + 1, 1);
    }
}

static int prepare(struct agent *a, struct err *e)
{
    int rc = 0;
    if (a->spec.map->node != a->node)
        return err_set(e, -EBADMSG, "node_spec is for node %d", a->spec.map->node);
    set_pmix_params(a);
    if (job_map_index(a->spec.map, a->spec.settings.stdin_rank) >= 0)
        rc = agent_stdin_open(a, e);
    if (rc == 0)
        rc = agent_tree_join(a, e);
    if (rc == 0 && a->spec.map->rank_nodes[0] == a->node)
        rc = choose_port(a, e);
    return rc;
}

/* Precedes node_spec, and the children if there are any. */
void agent_start_on_job(struct agent *a, const struct control_frame *f)
{
    if (a->job_head)
        return;
    a->job_head = json_incref(f->head);
    strbuf_add(&a->job_payload, f->payload, f->len);
}

void agent_start_on_node_spec(struct agent *a, const struct control_frame *f)
{
    struct err e = {0};
    if (a->spec.plan || !a->context || !a->job_head)
        return;
    const struct node_spec_message job = {a->job_head, a->job_payload.data, a->job_payload.len};
    const struct node_spec_message own = {f->head, f->payload, f->len};
    int rc = node_spec_decode(&a->spec, &job, &own, a->inherited_env, &e);
    if (rc == 0)
        rc = prepare(a, &e);
    if (rc < 0)
        agent_send_start_error(a, &e);
    else
        agent_send_head(a, json_pack("{s:s}", "t", "ready"));
}

/* ---- networks ------------------------------------------------------------------------------- */

static bool is_set(const struct agent *a, const struct plan_rank *r, const char *name)
{
    return env_get(a->spec.base, name) || env_get(a->spec.plan->env, name) || env_get(r->env, name);
}

/* Sets a variable of each rank, unless it or `other` is set. */
static void set_default(struct agent *a, const char *name, const char *other, const char *value)
{
    for (int i = 0; i < a->spec.plan->world_size; i++) {
        struct plan_rank *r = &a->spec.plan->ranks[i];
        if (!is_set(a, r, name) && !(other && is_set(a, r, other)))
            env_set(&r->env, name, "%s", value);
    }
}

/* Excludes networks that exist only inside a node. Over TCP, Open MPI tries every interface to
 * reach the other nodes. It hangs or fails on an interface such as docker0, which has the same
 * address on all nodes. The value replaces Open MPI's default, so it also includes the default. */
static void exclude_inner_networks(struct agent *a, const char *names)
{
    AUTO(free) char *value = xasprintf("127.0.0.1/8,sppp,%s", names);
    set_default(a, "OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_btl_tcp_if_include", value);
}

/* Sets the network interface of NCCL, gloo and TensorPipe to the one that reaches the launcher. By
 * default, each of these libraries chooses an interface by rules of its own, and this interface may
 * not reach the other nodes. */
static void set_interface(struct agent *a, const char *name)
{
    static const char *const variables[] = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
                                            "TP_SOCKET_IFNAME"};
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        set_default(a, variables[i], NULL, name);
}

static void set_networks(struct agent *a, bool other_nodes)
{
    struct control_endpoints ends = {0};
    (void)control_endpoints(&ends, a->control);
    AUTO(free) char *inner = NULL;
    AUTO(free) char *name = netif_by_address(ends.own, &inner);
    if (inner)
        exclude_inner_networks(a, inner);
    if (other_nodes && name && strcmp(name, "lo") != 0)
        set_interface(a, name);
}

/* ---- start ---------------------------------------------------------------------------------- */

/* Sets MASTER_ADDR, unless the user has set it. Also sets the variable in which JAX looks for the
 * address. */
static void set_master_addr(struct agent *a, const char *address)
{
    struct plan *p = a->spec.plan;
    if (address)
        env_set(&p->env, "MASTER_ADDR", "%s", address);
    address = env_get(p->env, "MASTER_ADDR");
    if (address && env_get(p->env, "OMPI_COMM_WORLD_SIZE"))
        env_set_hnp_uri(&p->env, address, p->job_id);
}

/* Sets the variables of all ranks that the launcher knows only now: an array of "NAME=value". */
static void set_late_env(struct agent *a, const json_t *env)
{
    size_t i;
    json_t *item;
    json_array_foreach ((json_t *)env, i, item) {
        const char *entry = json_string_value(item), *value = entry ? strchr(entry, '=') : NULL;
        if (!value)
            continue;
        AUTO(free) char *name = xstrndup(entry, (size_t)(value - entry));
        env_set(&a->spec.plan->env, name, "%s", value + 1);
    }
}

void agent_start_on_start(struct agent *a, const struct control_frame *f)
{
    struct err e = {0};
    const char *address = NULL;
    int64_t port = 0, nodes = 1, lost_after_ms = CONTROL_SILENT_MS;
    if (a->ranks || !a->spec.plan)
        return;
    int rc = json_require_int(&port, f->head, "port", &e);
    if (rc == 0)
        rc = json_require_int(&nodes, f->head, "nodes", &e);
    if (rc == 0)
        rc = json_require_int(&lost_after_ms, f->head, "lost_after_ms", &e);
    if (rc == 0)
        rc = json_optional_str(&address, f->head, "address", &e);
    if (rc == 0) {
        control_authenticate(a->control, (int)lost_after_ms);
        if (a->children)
            agent_children_set_silence(a->children, (int)lost_after_ms);
        set_master_addr(a, address);
        set_late_env(a, json_object_get(f->head, "env"));
        set_networks(a, nodes > 1);
        if (nodes == 1)
            mpi_transport_choose(a->spec.plan, a->spec.base);
        rc = agent_ranks_start(a, (int)port, &e);
    }
    agent_stdin_handed_over(a);
    if (rc < 0)
        agent_send_start_error(a, &e);
}
