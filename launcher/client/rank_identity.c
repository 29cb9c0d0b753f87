#include "launcher/client/rank_identity.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/mem.h"
#include "common/plural.h"

struct family {
    const char *rank, *size, *local_rank, *local_size, *node, *group;
    bool only_in_step;
};

/* OMPI_COMM_WORLD_NODE_RANK is not the number of a node, despite its name. */
static const struct family families[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", false},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL, false},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL, false},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, "SLURM_NODEID", NULL, true},
};

/* Returns 1 and sets *out, or 0 if the variable is not set. */
static int read_number(int *out, const char *(*get)(const char *), const char *name, struct err *e)
{
    const char *text = name ? get(name) : NULL;
    if (!text || !*text)
        return 0;
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (*end || errno || value < 0 || value > INT_MAX)
        return err_set(e, -EINVAL, "%s: '%s' is not a number", name, text);
    *out = (int)value;
    return 1;
}

/* Returns true inside a step of srun. A batch script also has SLURM_PROCID, but no step number. The
 * pseudo steps of scripts and interactive shells have numbers from 0xfffffff0 on. */
static bool in_slurm_step(const char *(*get)(const char *))
{
    const char *step = get("SLURM_STEP_ID");
    return step && *step && strtoul(step, NULL, 10) < 0xfffffff0UL;
}

static int read_local(struct rank_identity *w, const struct family *f,
                      const char *(*get)(const char *), struct err *e)
{
    w->local_rank = w->rank;
    w->local_size = w->size;
    int have_rank = read_number(&w->local_rank, get, f->local_rank, e);
    int have_size = have_rank < 0 ? 0 : read_number(&w->local_size, get, f->local_size, e);
    if (have_rank < 0 || have_size < 0)
        return e ? e->code : -EINVAL;
    if (have_rank && w->local_rank >= w->local_size)
        return err_set(e, -EINVAL, "%s is %d, but this node has %d rank%s", f->local_rank,
                       w->local_rank, w->local_size, plural_s(w->local_size));
    if (!have_rank && have_size && w->local_size > 0)
        w->local_rank = w->rank % w->local_size;
    w->node = w->local_size > 0 ? w->rank / w->local_size : 0;
    int have_node = read_number(&w->node, get, f->node, e);
    if (have_node == 0)
        have_node = read_number(&w->node, get, f->group, e); /* torchrun's name */
    return have_node < 0 ? -EINVAL : 0;
}

int rank_identity_read(struct rank_identity *out, const char *(*get)(const char *name),
                       struct err *e)
{
    struct rank_identity w = {.size = 1, .local_size = 1};
    const char *rank_without_size = NULL;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        const struct family *f = &families[i];
        if (f->only_in_step && !in_slurm_step(get))
            continue;
        int have_rank = read_number(&w.rank, get, f->rank, e);
        int have_size = have_rank < 0 ? 0 : read_number(&w.size, get, f->size, e);
        if (have_rank < 0 || have_size < 0)
            return -EINVAL;
        if (have_rank && !have_size)
            rank_without_size = f->rank;
        if (!have_rank || !have_size)
            continue;
        if (w.rank >= w.size)
            return err_set(e, -EINVAL, "%s is %d, but %s is %d", f->rank, w.rank, f->size, w.size);
        w.source = f->rank;
        if (read_local(&w, f, get, e) < 0)
            return -EINVAL;
        *out = w;
        return 0;
    }
    if (!rank_without_size && get("PMIX_RANK"))
        rank_without_size = "PMIX_RANK";
    if (rank_without_size) {
        err_set(e, -EINVAL, "%s is set, but the number of ranks is not", rank_without_size);
        return err_hint(e, "start it with drover run, mpirun or srun, or set RANK and WORLD_SIZE");
    }
    *out = (struct rank_identity){.size = 1, .local_size = 1};
    return 0;
}
