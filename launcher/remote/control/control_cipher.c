#include "launcher/remote/control/control_cipher.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <sodium.h>
#include <stdint.h>
#include <string.h>

enum {
    LENGTH = 4,
    MAGIC = 8,
    KEY = crypto_aead_chacha20poly1305_ietf_KEYBYTES,
    TAG = crypto_aead_chacha20poly1305_ietf_ABYTES,
    NONCE = crypto_aead_chacha20poly1305_ietf_NPUBBYTES
};
_Static_assert(LENGTH + TAG == CONTROL_CIPHER_RECORD, "the documented overhead");

static const char magic[MAGIC] = {'d', 'r', 'o', 'v', 'e', 'r', '-', '3'};

struct direction {
    unsigned char key[KEY];
    uint64_t records; /* sealed or opened so far */
};

struct control_cipher {
    unsigned char secret[crypto_generichash_KEYBYTES]; /* from the token */
    char greeting[CONTROL_CIPHER_GREETING];
    bool ready;
    struct direction out, in;
};

struct control_cipher *control_cipher_new(const char *token)
{
    struct control_cipher *c = xzalloc(sizeof *c);
    if (sodium_init() < 0)
        abort(); /* no source of random numbers */
    crypto_generichash(c->secret, sizeof c->secret, (const unsigned char *)token, strlen(token),
                       NULL, 0);
    memcpy(c->greeting, magic, MAGIC);
    randombytes_buf(c->greeting + MAGIC, sizeof c->greeting - MAGIC);
    return c;
}

void control_cipher_free(struct control_cipher *c)
{
    if (!c)
        return;
    sodium_memzero(c, sizeof *c);
    free(c);
}

const char *control_cipher_greeting(const struct control_cipher *c)
{
    return c->greeting;
}

/* The key of the records that the end with the greeting `from` sends. */
static void derive(struct direction *d, const struct control_cipher *c, const char *from,
                   const char *to)
{
    crypto_generichash_state s;
    crypto_generichash_init(&s, c->secret, sizeof c->secret, KEY);
    crypto_generichash_update(&s, (const unsigned char *)from, CONTROL_CIPHER_GREETING);
    crypto_generichash_update(&s, (const unsigned char *)to, CONTROL_CIPHER_GREETING);
    crypto_generichash_final(&s, d->key, KEY);
}

int control_cipher_greeted(struct control_cipher *c, const char *greeting, struct err *e)
{
    /* With its own greeting an end would accept its own records. */
    if (memcmp(greeting, magic, MAGIC) != 0 ||
        memcmp(greeting, c->greeting, sizeof c->greeting) == 0)
        return err_set(e, -EPROTO, "not the greeting of this version of drover");
    derive(&c->out, c, c->greeting, greeting);
    derive(&c->in, c, greeting, c->greeting);
    c->ready = true;
    return 0;
}

bool control_cipher_is_ready(const struct control_cipher *c)
{
    return c->ready;
}

/* ---- records -------------------------------------------------------------------------------- */

/* The nonce of the direction's next record. */
static void next_nonce(unsigned char nonce[NONCE], struct direction *d)
{
    uint64_t number = htole64(d->records++);
    memset(nonce, 0, NONCE);
    memcpy(nonce, &number, sizeof number);
}

void control_cipher_seal(struct control_cipher *c, struct strbuf *to, const char *bytes, size_t len)
{
    unsigned char nonce[NONCE];
    uint32_t length = htole32((uint32_t)len);
    assert(c->ready && len <= UINT32_MAX);
    strbuf_add(to, (const char *)&length, LENGTH);
    strbuf_reserve(to, len + TAG);
    next_nonce(nonce, &c->out);
    crypto_aead_chacha20poly1305_ietf_encrypt(
        (unsigned char *)to->data + to->len, NULL, (const unsigned char *)bytes, len,
        (const unsigned char *)&length, LENGTH, NULL, nonce, c->out.key);
    to->len += len + TAG;
    to->data[to->len] = '\0';
}

ssize_t control_cipher_open(struct control_cipher *c, struct strbuf *to, const char *bytes,
                            size_t len, size_t max_bytes, struct err *e)
{
    const unsigned char *in = (const unsigned char *)bytes;
    unsigned char nonce[NONCE];
    if (len < LENGTH)
        return 0;
    uint32_t length;
    memcpy(&length, bytes, LENGTH);
    size_t carried = le32toh(length);
    if (carried > max_bytes)
        return err_set(e, -EMSGSIZE, "a record of %zu bytes exceeds the limit of %zu", carried,
                       max_bytes);
    if (len < LENGTH + carried + TAG)
        return 0;
    strbuf_reserve(to, carried);
    next_nonce(nonce, &c->in);
    if (crypto_aead_chacha20poly1305_ietf_decrypt((unsigned char *)to->data + to->len, NULL, NULL,
                                                  in + LENGTH, carried + TAG, in, LENGTH, nonce,
                                                  c->in.key) != 0)
        return err_set(e, -EBADMSG, "the peer does not have the token of this job");
    to->len += carried;
    to->data[to->len] = '\0';
    return (ssize_t)(LENGTH + carried + TAG);
}
