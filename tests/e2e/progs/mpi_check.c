/* What MPI programs do first, on every rank: `mpi_check` (a ring, sums of 8 B and 800 KB, the ranks
 * of this machine), `numa` (the ranks of the same NUMA node and of the same core), `sessions` (MPI
 * 4: communicators without MPI_Init), `abort` (rank 4), `spawn` (each rank must get the error),
 * `names` (rank 0 publishes one and removes it). Prints one line per rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 100000 };

static int size_of(MPI_Comm world, int type)
{
    MPI_Comm part;
    int size;
    MPI_Comm_split_type(world, type, 0, MPI_INFO_NULL, &part);
    MPI_Comm_size(part, &size);
    MPI_Comm_free(&part);
    return size;
}

/* Returns the sum of all ranks, or -1 if a sum is wrong. */
static double sums(MPI_Comm world, int rank)
{
    static double many[MANY], sum_of_many[MANY];
    double one = rank, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, world);
    for (int i = 0; i < MANY; i++)
        many[i] = rank + i;
    int size;
    MPI_Comm_size(world, &size);
    MPI_Allreduce(many, sum_of_many, MANY, MPI_DOUBLE, MPI_SUM, world);
    for (int i = 0; i < MANY; i++)
        if (sum_of_many[i] != sum + (double)i * size)
            return -1;
    return sum;
}

static void meet(MPI_Comm world)
{
    int rank, size, from = -1;
    char node[256] = "";
    gethostname(node, sizeof node - 1);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &from, 1, MPI_INT,
                 (rank + size - 1) % size, 0, world, MPI_STATUS_IGNORE);
    double sum = sums(world, rank);
    printf("%d/%d on %s from %d sum %g shared %d\n", rank, size, node, from, sum,
           size_of(world, MPI_COMM_TYPE_SHARED));
}

static void numa(MPI_Comm world)
{
#ifdef OPEN_MPI
    int rank;
    MPI_Comm_rank(world, &rank);
    printf("%d numa %d core %d\n", rank, size_of(world, OMPI_COMM_TYPE_NUMA),
           size_of(world, OMPI_COMM_TYPE_CORE));
#endif
}

static void spawn(MPI_Comm world)
{
    MPI_Comm other;
    int rank, code;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    int refused = MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, world, &other,
                                 &code) != MPI_SUCCESS;
    printf("%d %s\n", rank, refused ? "refused" : "spawned");
}

static void names(MPI_Comm world)
{
    char port[MPI_MAX_PORT_NAME] = "none", again[MPI_MAX_PORT_NAME];
    int rank;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    if (rank == 0)
        MPI_Publish_name("sea", MPI_INFO_NULL, "port-of-0");
    MPI_Barrier(world);
    int found = MPI_Lookup_name("sea", MPI_INFO_NULL, port);
    MPI_Barrier(world);
    int removed = rank == 0 ? MPI_Unpublish_name("sea", MPI_INFO_NULL, port) : MPI_SUCCESS;
    int twice = rank == 0 ? MPI_Unpublish_name("sea", MPI_INFO_NULL, port) : MPI_ERR_OTHER;
    MPI_Barrier(world);
    int gone = MPI_Lookup_name("sea", MPI_INFO_NULL, again);
    printf("%d %s %d %d %d %d\n", rank, port, found == MPI_SUCCESS, removed == MPI_SUCCESS,
           twice != MPI_SUCCESS, gone != MPI_SUCCESS);
}

static int sessions(void)
{
#if MPI_VERSION >= 4 || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
    MPI_Session session;
    MPI_Group group;
    MPI_Comm world, again;
    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) != MPI_SUCCESS)
        return 1;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "first", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &world);
    MPI_Comm_create_from_group(group, "second", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &again);
    meet(world);
    meet(again);
    MPI_Group_free(&group);
    MPI_Comm_free(&again);
    MPI_Comm_free(&world);
    return MPI_Session_finalize(&session) != MPI_SUCCESS;
#else
    return 77;
#endif
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "meet";
    int rank;
    if (strcmp(what, "sessions") == 0)
        return sessions();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(what, "numa") == 0)
        numa(MPI_COMM_WORLD);
    else if (strcmp(what, "spawn") == 0)
        spawn(MPI_COMM_WORLD);
    else if (strcmp(what, "names") == 0)
        names(MPI_COMM_WORLD);
    else
        meet(MPI_COMM_WORLD);
    fflush(stdout);
    if (strcmp(what, "abort") == 0 && rank == 4)
        MPI_Abort(MPI_COMM_WORLD, 42);
    if (strcmp(what, "abort") == 0)
        for (;;)
            pause();
    MPI_Finalize();
    return 0;
}
