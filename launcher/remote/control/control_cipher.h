/* control_cipher - encrypts and authenticates the bytes of a control connection with keys from the
 * job's token, by libsodium.
 *
 * Each end sends a greeting with a random nonce. The token and both nonces give one key per
 * direction (BLAKE2b), so that bytes of another connection, or of the other direction, are never
 * accepted. A record is a length (32 bits, little endian) and the bytes, sealed by
 * ChaCha20-Poly1305 with the number of the record as its nonce: a record that was changed,
 * repeated, left out or moved is rejected. Who lacks the token can neither read nor send a record.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/strbuf.h"

enum {
    CONTROL_CIPHER_GREETING = 32, /* bytes */
    CONTROL_CIPHER_RECORD = 20    /* bytes of a record in addition to those that it carries */
};

struct control_cipher;

/* The token is not kept. */
struct control_cipher *control_cipher_new(const char *token);
void control_cipher_free(struct control_cipher *c);
AUTO_DEFINE(control_cipher, struct control_cipher *, control_cipher_free)

/* The greeting of this end, CONTROL_CIPHER_GREETING bytes. */
const char *control_cipher_greeting(const struct control_cipher *c);
/* Takes the greeting of the peer: records can be sealed and opened from now on.
 *   -EPROTO  it is not that of this version of drover */
int control_cipher_greeted(struct control_cipher *c, const char *greeting, struct err *e);
bool control_cipher_is_ready(const struct control_cipher *c);

/* Appends a record with these bytes. */
void control_cipher_seal(struct control_cipher *c, struct strbuf *to, const char *bytes,
                         size_t len);
/* Opens the record at the beginning of `bytes` and appends what it carries to `to`. Returns its
 * length, or 0 if more bytes are needed.
 *   -EMSGSIZE  it carries more than `max_bytes`
 *   -EBADMSG   the peer does not have the token, or the record was changed */
ssize_t control_cipher_open(struct control_cipher *c, struct strbuf *to, const char *bytes,
                            size_t len, size_t max_bytes, struct err *e);
