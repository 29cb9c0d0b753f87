#include "launcher/engine/mpi_transport.h"

#include <stdint.h>
#include <string.h>
#include <sys/statvfs.h>

#include "launcher/plan/env.h"

/* Shared memory that Open MPI 4.1 uses per rank, rounded up. */
enum { BYTES_PER_RANK = 5 << 20 };

void mpi_transport_choose(struct plan *p, char *const *base_env)
{
    struct statvfs fs;
    const char *transports = env_get(p->env, ENV_MPI_TRANSPORTS);
    if (!plan_is_local(p) || !transports || strcmp(transports, ENV_MPI_SHARED_MEMORY) != 0 ||
        statvfs("/dev/shm", &fs) < 0 ||
        (uint64_t)fs.f_bavail * fs.f_frsize >= (uint64_t)p->world_size * BYTES_PER_RANK)
        return;
    env_set(&p->env, ENV_MPI_TRANSPORTS, "%s", ENV_MPI_SHARED_MEMORY_AND_TCP);
    static const char interface[] = "OMPI_MCA_btl_tcp_if_include"; /* by default not lo */
    if (!env_get(p->env, interface) && !env_get(base_env, interface))
        env_set(&p->env, interface, "lo");
}

char **mpi_transport_between_nodes(const struct plan *p, char *const *base_env, bool has_fabric)
{
    static const char *const choices[] = {ENV_MPI_LAYER, ENV_MPI_TRANSPORTS, "OMPI_MCA_mtl"};
    if (has_fabric || p->node_count == 1 || !env_get(p->env, "OMPI_COMM_WORLD_SIZE"))
        return NULL;
    for (size_t i = 0; i < COUNT_OF(choices); i++)
        if (env_get(p->env, choices[i]) || env_user_value(base_env, NULL, choices[i]))
            return NULL;
    char **env = NULL;
    env_set(&env, ENV_MPI_LAYER, "%s", ENV_MPI_LAYER_VALUE);
    env_set(&env, ENV_MPI_TRANSPORTS, "%s", ENV_MPI_SHARED_MEMORY_AND_TCP);
    return env;
}
