#include "collectives/bench/cmd/bench_processes.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "collectives/bootstrap/bootstrap.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/guardian/guardian.h"
#include "launcher/plan/hosts.h"
#include "launcher/remote/agent_spawn.h"

enum { EXCHANGE_MS = 300000, HOST_BYTES = 256, OWN_BYTES = 1024 };

/* Variables that a launcher or a wrapper may set to another value in each process. */
static const char *const own_names[] = {"CUDA_VISIBLE_DEVICES", "NCCL_TESTS_DEVICE"};

/* A variable for the ranks: a JSON array with one object per process. */
static const char variables_env[] = "DROVER_BENCH_PROCESSES";

/* The data that every process sends to the others. */
struct process {
    char host[HOST_BYTES];
    char own[COUNT_OF(own_names)][OWN_BYTES]; /* "": not set */
};

/* The data that the first process sends to the others. */
struct ticket {
    char address[256], token[256];
};

struct part { /* this process in the job, which has a node per process */
    const struct bench_processes *o;
    int node;
    struct agent_spawn *agent; /* NULL: none runs */
};

/* The place of a process on its host. */
struct place {
    int index;     /* number of processes on the host before it */
    int processes; /* number of processes on the host */
};

static struct place place_of(const struct process *all, int size, int process)
{
    struct place p = {0};
    for (int i = 0; i < size; i++) {
        bool same = strcmp(all[i].host, all[process].host) == 0;
        p.processes += same;
        p.index += same && i < process;
    }
    return p;
}

/* Lists the processes host by host, each host when its first process comes: the process `order[i]`
 * is node i of the job. The caller frees the list. */
static int *order_by_host(const struct process *all, int size)
{
    int *order = xcalloc((size_t)size, sizeof *order), n = 0;
    for (int i = 0; i < size; i++) {
        bool first = place_of(all, size, i).index == 0;
        for (int k = i; k < size && first; k++)
            if (strcmp(all[k].host, all[i].host) == 0)
                order[n++] = k;
    }
    return order;
}

/* Appends to the ranks' variables the processes' own values of these variables, and the places of
 * the processes on their hosts. */
static void pass_variables(char ***env, const struct process *all, const int *order,
                           const struct bench_processes *o)
{
    AUTO(json) json_t *list = json_array();
    for (int i = 0, host = -1; i < o->me->size; i++) {
        struct place at = place_of(all, o->me->size, order[i]);
        host += at.index == 0;
        json_t *own =
            json_pack("{s:i,s:i,s:i}", "LOCAL_RANK", at.index * o->per_process, "LOCAL_WORLD_SIZE",
                      at.processes * o->per_process, "NODE_RANK", host);
        for (size_t k = 0; k < COUNT_OF(own_names); k++)
            if (all[order[i]].own[k][0])
                json_object_set_new(own, own_names[k], json_text(all[order[i]].own[k]));
        json_array_append_new(list, own);
    }
    AUTO(free) char *text = json_dumps(list, JSON_COMPACT);
    strv_push(env, xasprintf("%s=%s", variables_env, text));
}

static struct process this_process(void)
{
    struct process p;
    memset(&p, 0, sizeof p); /* it is sent, with its padding */
    (void)gethostname(p.host, sizeof p.host - 1);
    for (size_t k = 0; k < COUNT_OF(own_names); k++)
        if (getenv(own_names[k]))
            snprintf(p.own[k], sizeof p.own[k], "%s", getenv(own_names[k]));
    return p;
}

/* Exchanges the data of all processes. Sets the hosts, one per process, the variables of the ranks,
 * and the node of this process. */
static int exchange_processes(struct part *p, struct hosts *hosts, char ***env, struct err *e)
{
    const struct rank_identity *me = p->o->me;
    AUTO(free) struct process *all = xcalloc((size_t)me->size, sizeof *all);
    const struct process mine = this_process();
    int rc = bootstrap_gather(me, &mine, sizeof mine, all, EXCHANGE_MS, e);
    if (rc < 0)
        return rc;
    AUTO(free) int *order = order_by_host(all, me->size);
    for (int i = 0; i < me->size; i++) {
        AUTO(free)
        char *name =
            xasprintf("%s_%d", all[order[i]].host, place_of(all, me->size, order[i]).index);
        hosts_add(hosts, name, p->o->per_process, 0);
        if (order[i] == me->rank)
            p->node = i;
    }
    pass_variables(env, all, order, p->o);
    return 0;
}

static void set_number(const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    setenv(name, text, true);
}

/* The job has a node per process, but its ranks share the GPUs of a host with those of the host's
 * other processes. So they are numbered by host here, as by every launcher. */
void bench_processes_set_env(void)
{
    const char *text = getenv(variables_env), *rank = getenv("RANK");
    const char *per_process = getenv(BENCH_PROCESSES_ENV);
    if (!text || !rank || !per_process || atoi(per_process) < 1)
        return;
    AUTO(json) json_t *list = json_loads(text, 0, NULL);
    json_t *own = json_array_get(list, (size_t)(atoi(rank) / atoi(per_process)));
    set_number("LOCAL_RANK", json_integer_value(json_object_get(own, "LOCAL_RANK")) +
                                 atoi(rank) % atoi(per_process));
    set_number("LOCAL_WORLD_SIZE", json_integer_value(json_object_get(own, "LOCAL_WORLD_SIZE")));
    set_number("NODE_RANK", json_integer_value(json_object_get(own, "NODE_RANK")));
    for (size_t k = 0; k < COUNT_OF(own_names); k++) {
        const char *value = json_string_value(json_object_get(own, own_names[k]));
        if (value)
            setenv(own_names[k], value, true);
        else
            unsetenv(own_names[k]);
    }
}

static void on_agent_ended(void *arg)
{
    struct part *p = arg;
    agent_spawn_free(TAKE(p->agent));
}

/* Gives the ticket of the first process to the others, and starts the agent of this one. */
static int join(struct part *p, struct launch_context *l, struct ticket *t, struct err *e)
{
    AUTO(free) struct ticket *all = xcalloc((size_t)p->o->me->size, sizeof *all);
    int rc = bootstrap_gather(p->o->me, t, sizeof *t, all, EXCHANGE_MS, e);
    const struct agent_spawn_opts o = {
        .control = all->address, .token = all->token, .node = p->node};
    return rc < 0 ? rc : agent_spawn_start(&p->agent, l, &o, on_agent_ended, p, e);
}

/* The job is launched and waits for the agents of all processes. */
static int on_started(void *arg, struct launch_context *l, const struct launch *job, struct err *e)
{
    struct ticket t = {0};
    const char *token = NULL;
    AUTO(free) char *address = launch_join_ticket(job, &token);
    snprintf(t.address, sizeof t.address, "%s", address);
    snprintf(t.token, sizeof t.token, "%s", token);
    return join(arg, l, &t, e);
}

static bool is_running(void *arg)
{
    return ((const struct part *)arg)->agent;
}

/* Launches the job. Waits until the job and the agent of this process have ended. */
static int run_first(struct part *p, struct bench_job *job, const struct hosts *hosts,
                     struct err *e)
{
    AUTO(strbuf) struct strbuf list = {0};
    for (int i = 0; i < hosts->count; i++)
        strbuf_printf(&list, "%s%s:%d", i ? "," : "", hosts->at[i].name, hosts->at[i].slots);
    /* The other launcher's binding of a process is for all of its ranks, so ranks are not bound. */
    char *launch[] = {"-H", (char *)strbuf_str(&list), "--oversubscribe", "--bind-to", "none",
                      NULL};
    job->launch = launch;
    job->engine = "external";
    job->started = on_started;
    job->running = is_running;
    job->arg = p;
    return bench_job_run(job, e);
}

static int run_other(struct part *p, struct guardian *g, struct err *e)
{
    struct ticket t = {0};
    struct launch_context *l = NULL;
    uv_loop_t *loop = uv_default_loop();
    if (!loop)
        return err_set(e, -errno, "event loop: %s", strerror(errno));
    int rc = launch_context_open(&l, loop, g, e);
    if (rc == 0)
        rc = join(p, l, &t, e);
    while (p->agent)
        uv_run(loop, UV_RUN_ONCE);
    if (l)
        launch_context_close(l);
    uv_run(loop, UV_RUN_DEFAULT); /* until all handles are closed */
    return rc;
}

static int run_parts(struct bench_job *job, const struct bench_processes *o, struct err *e)
{
    AUTO(guardian) struct guardian *g = NULL;
    AUTO(hosts) struct hosts *hosts = xzalloc(sizeof *hosts);
    AUTO(strv) char **env = strv_copy(job->env);
    struct part p = {.o = o};
    int rc = guardian_start(&g, e);
    if (rc == 0)
        rc = exchange_processes(&p, hosts, &env, e);
    job->guardian = g;
    job->env = env;
    return rc < 0 ? rc : o->me->rank == 0 ? run_first(&p, job, hosts, e) : run_other(&p, g, e);
}

/* Removes the binding that the other launcher has set. It is meant for this process, and not for
 * all ranks. */
static void unbind(void)
{
    enum { CPUS = 16384 };
    cpu_set_t *all = CPU_ALLOC(CPUS);
    memset(all, 0xff, CPU_ALLOC_SIZE(CPUS));
    /* The kernel ignores CPUs that do not exist */
    (void)sched_setaffinity(0, CPU_ALLOC_SIZE(CPUS), all);
    CPU_FREE(all);
}

static int run_on_node(struct bench_job *job, const struct bench_processes *o, struct err *e)
{
    char *launch[] = {"--oversubscribe", NULL};
    if (o->me->local_size != o->me->size) {
        err_set(e, -EINVAL, "-g times -t is %d: without GPUs, it must be 1 on several nodes",
                o->per_process);
        return err_hint(e, "-g 1 -t 1, and %d times as many ranks", o->per_process);
    }
    if (o->me->rank > 0)
        return 0;
    unbind();
    job->launch = launch;
    return bench_job_run(job, e);
}

int bench_processes_run(char *const *argv, char *const *env, const struct bench_processes *o,
                        struct err *e)
{
    struct bench_job job = {.argv = argv, .env = env, .ranks = o->me->size * o->per_process};
    return o->gpus ? run_parts(&job, o, e) : run_on_node(&job, o, e);
}
