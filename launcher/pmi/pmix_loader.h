/* pmix_loader - loads libpmix when the first rank needs the PMIx server. Without libpmix, a process
 * starts and forks in two thirds of the time.
 *
 * Files that call libpmix include this header instead of PMIx's own. The names of PMIx's functions
 * then refer to the loaded functions, also in PMIx's macros. */
#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include "common/err.h"

/* The names of the functions that drover uses, without PMIx_. */
#define LIBPMIX_EACH(f)                                                                      \
    f(Data_load) f(Data_pack) f(Data_unpack) f(Error_string) f(Get_version) f(Info_load)     \
        f(Value_destruct) f(Value_xfer) f(generate_ppn) f(generate_regex)                    \
            f(server_deregister_client) f(server_deregister_nspace) f(server_dmodex_request) \
                f(server_finalize) f(server_init) f(server_register_client)                  \
                    f(server_register_nspace) f(server_setup_fork)

struct pmix_loader {
#define LIBPMIX_MEMBER(name) typeof(PMIx_##name) *name;
    LIBPMIX_EACH(LIBPMIX_MEMBER)
#undef LIBPMIX_MEMBER
};

/* A file to load instead of the system's libpmix: one that fits that of the ranks. */
#define PMIX_LOADER_ENV "DROVER_PMIX_LIB"

/* Loads libpmix if it is not loaded, for the lifetime of the process.
 *   -ENOENT   it is not installed
 *   -ELIBBAD  it lacks one of the functions */
int pmix_loader_open(struct err *e);
/* Returns the functions of libpmix. Loads libpmix if it is not loaded, and aborts if that fails.
 * Call pmix_loader_open() first, since it reports errors. */
const struct pmix_loader *pmix_loader(void);

#define PMIx_Data_load pmix_loader()->Data_load
#define PMIx_Data_pack pmix_loader()->Data_pack
#define PMIx_Data_unpack pmix_loader()->Data_unpack
#define PMIx_Error_string pmix_loader()->Error_string
#define PMIx_Get_version pmix_loader()->Get_version
#define PMIx_Info_load pmix_loader()->Info_load
#define PMIx_Value_destruct pmix_loader()->Value_destruct
#define PMIx_Value_xfer pmix_loader()->Value_xfer
#define PMIx_generate_ppn pmix_loader()->generate_ppn
#define PMIx_generate_regex pmix_loader()->generate_regex
#define PMIx_server_deregister_client pmix_loader()->server_deregister_client
#define PMIx_server_deregister_nspace pmix_loader()->server_deregister_nspace
#define PMIx_server_dmodex_request pmix_loader()->server_dmodex_request
#define PMIx_server_finalize pmix_loader()->server_finalize
#define PMIx_server_init pmix_loader()->server_init
#define PMIx_server_register_client pmix_loader()->server_register_client
#define PMIx_server_register_nspace pmix_loader()->server_register_nspace
#define PMIx_server_setup_fork pmix_loader()->server_setup_fork
