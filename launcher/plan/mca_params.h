/* mca_params - the parameters of Open MPI's launcher (MCA parameters such as
 * hwloc_base_binding_policy) as options of drover.
 *
 * They come from parameter files, the environment and the command line, in rising order of
 * precedence. Parameters of the MPI library (btl, pml, coll, …) are not among them: the library
 * reads those itself, in the ranks. */
#ifndef DROVER_MCA_PARAMS_H
#define DROVER_MCA_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"

struct mca_param {
    char *name, *value;
    char *source; /* for messages: a file, or "environment"; NULL: the command line */
};

/* The parameters that are set. Each name occurs once. A parameter of a higher precedence follows
 * those of a lower one. Zero-initialised: empty. */
struct mca_params {
    struct mca_param *at;
    size_t count;
};

/* Returns whether the launcher, not the MPI library, uses the parameter. */
bool mca_params_is_launchers(const char *name);

/* Sets a parameter, instead of its earlier value. Has no effect if the launcher does not use it.
 * `source` may be NULL. */
void mca_params_set(struct mca_params *p, const char *name, const char *value, const char *source);

/* Reads the parameter files of the system and of the user, or those that `env` names instead, as
 * far as they exist; then the variables OMPI_MCA_NAME and PRTE_MCA_NAME of `env`. In a rank of
 * another job the launcher of that job may have set the variables, so they are left out. */
void mca_params_read(struct mca_params *p, char *const *env);

/* Returns the options that mean the same as parameter `i`: "--bind-to=none". The caller frees them
 * (strv). NULL: the value is the default; or `*ignored` is set, since drover has no such option. */
char **mca_params_options(const struct mca_params *p, size_t i, bool *ignored);

/* Removes the variables of these parameters from an environment (strv), for an mpirun that gets
 * their meaning from drover. */
void mca_params_remove(char **env);

void mca_params_free(struct mca_params *p);

static inline void auto_mca_params(struct mca_params *p)
{
    mca_params_free(p);
}

#endif
