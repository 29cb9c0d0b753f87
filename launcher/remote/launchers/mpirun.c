#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/plan/env.h"
#include "launcher/remote/launcher_failure.h"
#include "launcher/remote/remote_launcher.h"

/* The user of "me@host", the same on every far node: its name goes to ssh, since the sequential
 * mapper takes none. */
static int add_user(char ***argv, const struct remote_launcher_opts *j, struct err *e)
{
    const char *user = NULL;
    size_t len = 0;
    bool other = false;
    for (int i = 0; i < j->plan->node_count; i++) {
        const char *name = j->plan->nodes[i].name, *at = strchr(name, '@');
        size_t n = at ? (size_t)(at - name) : 0;
        if (j->plan->nodes[i].here)
            continue;
        other |= user && (n != len || strncmp(user, name, n) != 0);
        user = name;
        len = n;
    }
    for (size_t i = 0; len > 0 && j->engine_args && j->engine_args[i]; i++)
        other |= strcmp(j->engine_args[i], "plm_rsh_args") == 0;
    if (other) {
        err_set(e, -EINVAL, "hosts of several users, or a user beside plm_rsh_args");
        return err_hint(e, "plain names, and `User` for each Host in ~/.ssh/config");
    }
    if (len > 0) {
        strv_push(argv, xstrdup("--mca"));
        strv_push(argv, xstrdup("plm_rsh_args"));
        strv_push(argv, xasprintf("-l %.*s", (int)len, user));
    }
    return 0;
}

/* mpirun's own session directory: below ours it goes with it when mpirun is killed. */
static void keep_session_here(char ***env, const char *workdir)
{
    static const char *const names[] = {"OMPI_MCA_orte_local_tmpdir_base",
                                        "PRTE_MCA_prte_local_tmpdir_base"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!env_get(*env, names[i]))
            env_set(env, names[i], "%s", workdir);
}

/* Open MPI 4.1's mpirun, and 5's. Rank i runs on line i of the host file (the sequential mapper),
 * whatever slots mpirun counts; nothing is bound, since `drover rank` binds its rank. In / because
 * the directory of here need not be there. --allow-run-as-root means nothing to who is not root.
 * The user's words come last, and win where mpirun lets them. */
static int argv_openmpi(char ***argv, char ***env, const struct remote_launcher_opts *j,
                        struct err *e)
{
    AUTO(free) char *ranks = xasprintf("%d", j->plan->world_size);
    const char *const words[] = {j->program,
                                 "--hostfile",
                                 j->hostfile,
                                 "--map-by",
                                 "seq:OVERSUBSCRIBE",
                                 "-np",
                                 ranks,
                                 "--bind-to",
                                 "none",
                                 "--allow-run-as-root",
                                 "--stdin",
                                 "none",
                                 "-wdir",
                                 "/",
                                 "-x",
                                 REMOTE_ENV_CONTROL,
                                 "-x",
                                 REMOTE_ENV_TOKEN};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        strv_push(argv, xstrdup(words[i]));
    keep_session_here(env, j->workdir);
    if (!env_get(*env, ENV_HWLOC_BLACKLIST)) /* 4 of the 36 ms that mpirun takes to look around */
        env_set(env, ENV_HWLOC_BLACKLIST, "%s", ENV_HWLOC_BLACKLIST_VALUE);
    if (add_user(argv, j, e) < 0)
        return -EINVAL;
    for (size_t i = 0; j->engine_args && j->engine_args[i]; i++)
        strv_push(argv, xstrdup(j->engine_args[i]));
    strv_push(argv, xstrdup(j->drover_rank));
    return 0;
}

const struct remote_launcher remote_launcher_mpirun = {.program = "mpirun",
                                                       .package = "openmpi-bin",
                                                       .argv = argv_openmpi,
                                                       .cause = launcher_failure_find,
                                                       .lingers = true};
