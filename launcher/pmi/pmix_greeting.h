/* pmix_greeting - checks the greeting with which a rank connects to libpmix's server. Pure.
 *
 * libpmix 4.2 copies as many bytes of the credential as the greeting says, even past its end. If
 * the greeting of a rank names an unknown module or has a wrong credential, it frees the rank's
 * data once too often, and serves no rank any more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The credential of the security module "native": the user, in the byte order of the machine. */
struct pmix_greeting_user {
    uint32_t uid, gid;
};

/* Returns true if `bytes`, a greeting without its header, is that of a client of libpmix 2 to 6:
 *
 *     security module, length of the credential (32 bits), credential, 0 (a client), namespace,
 *     rank (32 bits), version of libpmix; not from 2.0: bfrops module, type of buffers (8 bits),
 * gds modules, and what later versions add
 *
 * Texts end with a NUL; numbers are big endian. Tools greet otherwise; drover does not serve them.
 * The security module must be "native", with the credential `user`. If `user` is NULL, libpmix has
 * other modules, and the credential may be any. */
bool pmix_greeting_is_valid(const char *bytes, size_t len, const struct pmix_greeting_user *user);
