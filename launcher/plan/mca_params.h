/* mca_params - translates the parameters of Open MPI's launcher (MCA parameters such as
 * hwloc_base_binding_policy) into options of drover.
 *
 * Parameters come from parameter files, the environment and the command line. A later source has
 * precedence over an earlier one. This module ignores parameters of the MPI library (btl, pml,
 * coll, …), since the library reads them itself in the ranks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"

struct mca_param {
    char *name, *value;
    char *source; /* for messages: a file, or "environment"; NULL: the command line */
};

/* The parameters that are set. Each name occurs once. Parameters with a higher precedence come
 * later. A zero-initialised struct is empty. */
struct mca_params {
    struct mca_param *at;
    size_t count;
};

/* Returns true if Open MPI's launcher uses the parameter, and not the MPI library. */
bool mca_params_is_launchers(const char *name);

/* Sets a parameter; a new value replaces an earlier one. Has no effect if the launcher does not use
 * it. `source` may be NULL. */
void mca_params_set(struct mca_params *p, const char *name, const char *value, const char *source);

/* Reads the parameter files of the system and of the user, or the files that `env` names instead.
 * Missing files are skipped. Then reads the variables OMPI_MCA_NAME and PRTE_MCA_NAME of `env`,
 * unless this process is a rank of another job, whose launcher may have set them. */
void mca_params_read(struct mca_params *p, char *const *env);

/* Returns the options that mean the same as parameter `i`, such as "--bind-to=none". The caller
 * frees them (strv). Returns NULL if the value is the default, or if drover has no such option; in
 * the second case `*ignored` is true. */
char **mca_params_options(const struct mca_params *p, size_t i, bool *ignored);

/* Removes the variables of launcher parameters from an environment (strv). It is the environment of
 * an mpirun to which drover passes their meaning in another way. */
void mca_params_remove(char **env);

void mca_params_free(struct mca_params *p);

static inline void auto_mca_params(struct mca_params *p)
{
    mca_params_free(p);
}
