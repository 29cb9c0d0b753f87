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

struct libpmix {
#define LIBPMIX_MEMBER(name) typeof(PMIx_##name) *name;
    LIBPMIX_EACH(LIBPMIX_MEMBER)
#undef LIBPMIX_MEMBER
};

/* Loads it where it is not, for as long as the process lives.
 *   -ENOENT  it is not there, or not one that we know */
int libpmix_load(struct err *e);
/* Loads it as well; who has not asked before is aborted where that fails. */
const struct libpmix *libpmix(void);

/* In place of libpmix's, which calls it by this name. */
pmix_status_t pmix_ptl_base_send_blocking(int sock, char *at, size_t len);

#define PMIx_Error_string libpmix()->Error_string
#define PMIx_Info_load libpmix()->Info_load
#define PMIx_Value_destruct libpmix()->Value_destruct
#define PMIx_Value_xfer libpmix()->Value_xfer
#define PMIx_generate_ppn libpmix()->generate_ppn
#define PMIx_generate_regex libpmix()->generate_regex
#define PMIx_server_deregister_client libpmix()->server_deregister_client
#define PMIx_server_deregister_nspace libpmix()->server_deregister_nspace
#define PMIx_server_finalize libpmix()->server_finalize
#define PMIx_server_init libpmix()->server_init
#define PMIx_server_register_client libpmix()->server_register_client
#define PMIx_server_register_nspace libpmix()->server_register_nspace

#endif
