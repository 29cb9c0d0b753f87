/* libpmix - PMIx's library, loaded when the first rank asks for the server: whoever serves none
 * starts and forks without it in two thirds of the time.
 *
 * Included in place of PMIx's own headers where its functions are called. Their names then mean the
 * loaded ones, in PMIx's macros too. */
#ifndef DROVER_PMIX_LOADER_H
#define DROVER_PMIX_LOADER_H

#include <pmix.h>
#include <pmix_server.h>

#include "common/err.h"

/* Their names without PMIx_. */
#define LIBPMIX_EACH(f)                                                                            \
    f(Error_string) f(Info_load) f(Value_destruct) f(Value_xfer) f(generate_ppn) f(generate_regex) \
        f(server_deregister_client) f(server_deregister_nspace) f(server_finalize) f(server_init)  \
            f(server_register_client) f(server_register_nspace)

struct pmix_loader {
#define LIBPMIX_MEMBER(name) typeof(PMIx_##name) *name;
    LIBPMIX_EACH(LIBPMIX_MEMBER)
#undef LIBPMIX_MEMBER
};

/* Loads it where it is not, for as long as the process lives.
 *   -ENOENT  it is not there, or not one that we know */
int pmix_loader_open(struct err *e);
/* Loads it as well; who has not asked before is aborted where that fails. */
const struct pmix_loader *pmix_loader(void);

/* In place of libpmix's, which calls it by this name. */
pmix_status_t pmix_ptl_base_send_blocking(int sock, char *at, size_t len);

#define PMIx_Error_string pmix_loader()->Error_string
#define PMIx_Info_load pmix_loader()->Info_load
#define PMIx_Value_destruct pmix_loader()->Value_destruct
#define PMIx_Value_xfer pmix_loader()->Value_xfer
#define PMIx_generate_ppn pmix_loader()->generate_ppn
#define PMIx_generate_regex pmix_loader()->generate_regex
#define PMIx_server_deregister_client pmix_loader()->server_deregister_client
#define PMIx_server_deregister_nspace pmix_loader()->server_deregister_nspace
#define PMIx_server_finalize pmix_loader()->server_finalize
#define PMIx_server_init pmix_loader()->server_init
#define PMIx_server_register_client pmix_loader()->server_register_client
#define PMIx_server_register_nspace pmix_loader()->server_register_nspace

#endif
