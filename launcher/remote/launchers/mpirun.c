#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/plan/env.h"
#include "launcher/remote/launchers/launcher_failure.h"
#include "launcher/remote/remote_launcher.h"

/* Passes the user of "me@host" and the port to ssh as arguments, since the sequential mapper
 * accepts only host names. User and port must be the same for all other nodes. */
static int add_ssh_args(char ***argv, const struct remote_launcher_opts *o, struct err *e)
{
    const struct plan_node *first = NULL;
    size_t len = 0;
    bool contradicts = false;
    for (int i = 0; i < o->plan->node_count; i++) {
        const struct plan_node *node = &o->plan->nodes[i];
        const char *at = strchr(node->name, '@');
        size_t n = at ? (size_t)(at - node->name) : 0;
        if (node->here)
            continue;
        contradicts |= first && (n != len || strncmp(first->name, node->name, n) != 0 ||
                                 first->port != node->port);
        first = node;
        len = n;
    }
    bool port = first && first->port;
    for (size_t i = 0; (len > 0 || port) && o->engine_args && o->engine_args[i]; i++)
        contradicts |= strcmp(o->engine_args[i], "plm_rsh_args") == 0;
    if (contradicts) {
        err_set(e, -EINVAL, "the hosts have several users or ports, or one and plm_rsh_args");
        return err_hint(e, "plain host names, and `User` and `Port` per Host in ~/.ssh/config");
    }
    if (len == 0 && !port)
        return 0;
    AUTO(strbuf) struct strbuf args = {0};
    if (len > 0)
        strbuf_printf(&args, "-l %.*s", (int)len, first->name);
    if (port)
        strbuf_printf(&args, "%s-p %d", len > 0 ? " " : "", first->port);
    strv_push(argv, xstrdup("--mca"));
    strv_push(argv, xstrdup("plm_rsh_args"));
    strv_push(argv, strbuf_take(&args));
    return 0;
}

/* Puts mpirun's session directory below drover's. It is then removed even if mpirun is killed. */
static void set_session_dir(char ***env, const char *session_dir)
{
    static const char *const names[] = {"OMPI_MCA_orte_local_tmpdir_base",
                                        "PRTE_MCA_prte_local_tmpdir_base"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!env_get(*env, names[i]))
            env_set(env, names[i], "%s", session_dir);
}

/* Builds the command line for mpirun of Open MPI 4.1 and 5. Process i runs on the host in line i of
 * the host file (the sequential mapper), regardless of the slots that mpirun counts. mpirun binds
 * nothing, since each agent binds its ranks. The agents start in / because the current directory
 * may not exist on their nodes. --allow-run-as-root has an effect only for root. The user's
 * arguments come last, so that they win if mpirun allows it. */
static int mpirun_argv(char ***argv, char ***env, const struct remote_launcher_opts *o,
                       struct err *e)
{
    strv_push(argv, xstrdup(o->program));
    strv_push(argv, xstrdup("--hostfile"));
    strv_push(argv, xstrdup(o->hostfile));
    remote_launcher_push(argv,
                         "--map-by seq:OVERSUBSCRIBE -np %d --bind-to none --allow-run-as-root "
                         "--stdin none -wdir / -x %s -x %s",
                         o->plan->node_count, REMOTE_ENV_CONTROL, REMOTE_ENV_TOKEN);
    set_session_dir(env, o->session_dir);
    if (!env_get(*env, ENV_HWLOC_BLACKLIST)) /* saves 4 of the 36 ms of mpirun's discovery */
        env_set(env, ENV_HWLOC_BLACKLIST, "%s", ENV_HWLOC_BLACKLIST_VALUE);
    if (add_ssh_args(argv, o, e) < 0)
        return -EINVAL;
    for (size_t i = 0; o->engine_args && o->engine_args[i]; i++)
        strv_push(argv, xstrdup(o->engine_args[i]));
    strv_push(argv, xstrdup(o->drover));
    strv_push(argv, xstrdup(REMOTE_AGENT_COMMAND));
    return 0;
}

static const char *const env_prefixes[] = {"PMIX_", "OMPI_", "PRTE_", NULL};
static const char *const node_env[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", NULL};

const struct remote_launcher remote_launcher_mpirun = {.word = "openmpi",
                                                       .program = "mpirun",
                                                       .package = "openmpi-bin",
                                                       .env_prefixes = env_prefixes,
                                                       .node_env = node_env,
                                                       .argv = mpirun_argv,
                                                       .find_failure = launcher_failure_find,
                                                       .takes_args = true,
                                                       .lingers = true};
