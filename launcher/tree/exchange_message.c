/* The encoding: type, kind and `once` in a byte each; then numbers of 7 bits per byte, the least
 * significant first; a number that may be negative is doubled, and if negative, inverted.
 * Participants are runs: the gap since the run before, and the length. */
#include <errno.h>

#include "launcher/tree/exchange.h"

enum { FIXED = 3, NUMBER_MAX = 10 /* bytes of an encoded number */ };

static void put(struct strbuf *to, uint64_t n)
{
    char bytes[NUMBER_MAX];
    size_t len = 0;
    for (; n >= 0x80; n >>= 7)
        bytes[len++] = (char)(n | 0x80);
    bytes[len++] = (char)n;
    strbuf_add(to, bytes, len);
}

static void put_signed(struct strbuf *to, int64_t n)
{
    put(to, (uint64_t)n << 1 ^ (n < 0 ? UINT64_MAX : 0));
}

/* Returns the index after the run of consecutive ranks that begins at `i`. */
static size_t run_end(const struct exchange_message *m, size_t i)
{
    for (i++; i < m->rank_count && m->ranks[i] == (int64_t)m->ranks[i - 1] + 1;)
        i++;
    return i;
}

static void put_ranks(struct strbuf *to, const struct exchange_message *m)
{
    size_t runs = 0;
    for (size_t i = 0; i < m->rank_count; i = run_end(m, i))
        runs++;
    put(to, runs);
    int64_t after = 0;
    for (size_t i = 0, end; i < m->rank_count; i = end) {
        end = run_end(m, i);
        put(to, (uint64_t)(m->ranks[i] - after));
        put(to, end - i);
        after = (int64_t)m->ranks[end - 1] + 1;
    }
}

void exchange_message_encode(struct strbuf *to, const struct exchange_message *m)
{
    char fixed[FIXED] = {(char)m->type, (char)m->kind, (char)m->once};
    strbuf_add(to, fixed, sizeof fixed);
    put_signed(to, m->node);
    put_signed(to, m->rank);
    put(to, m->id);
    put_signed(to, m->status);
    put_signed(to, m->wait_ms);
    put_ranks(to, m);
    put(to, m->key_count);
    for (size_t i = 0; i < m->key_count; i++) {
        put(to, strlen(m->keys[i]));
        strbuf_puts(to, m->keys[i]);
    }
    put(to, m->len);
    strbuf_add(to, m->data, m->len);
}

bool exchange_message_same_fence(const struct exchange_message *a, const struct exchange_message *b)
{
    return a->kind == b->kind && a->rank_count == b->rank_count && a->key_count == b->key_count &&
           (a->rank_count == 0 ||
            memcmp(a->ranks, b->ranks, a->rank_count * sizeof *a->ranks) == 0) &&
           (a->key_count == 0 || strcmp(a->keys[0], b->keys[0]) == 0);
}

/* What is left to decode. `bad` is set if it is not a message. */
struct input {
    const unsigned char *at, *end;
    bool bad;
};

static uint64_t get(struct input *in)
{
    uint64_t n = 0;
    for (int shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        uint64_t bits = *in->at & 0x7f;
        if (shift == 63 && bits > 1)
            break;
        n |= bits << shift;
        if (!(*in->at++ & 0x80))
            return n;
    }
    in->bad = true;
    return 0;
}

static int64_t get_signed(struct input *in)
{
    uint64_t n = get(in);
    return (int64_t)(n >> 1 ^ (n & 1 ? UINT64_MAX : 0));
}

static int get_int(struct input *in)
{
    int64_t n = get_signed(in);
    if (n < INT32_MIN || n > INT32_MAX)
        in->bad = true;
    return (int)n;
}

/* Returns a length that the rest of the message can have. */
static size_t get_length(struct input *in)
{
    uint64_t n = get(in);
    if (n > (uint64_t)(in->end - in->at))
        in->bad = true;
    return in->bad ? 0 : (size_t)n;
}

static const char *get_bytes(struct input *in, size_t len)
{
    const char *bytes = (const char *)in->at;
    in->at += len;
    return bytes;
}

/* Reads the runs. Writes the ranks to `ranks` unless it is NULL, and returns their number. */
static size_t get_ranks(struct input *in, int32_t *ranks)
{
    size_t count = 0;
    int64_t after = 0;
    for (size_t runs = get_length(in); runs > 0 && !in->bad; runs--) {
        uint64_t gap = get(in), len = get(in);
        if (len == 0 || gap > INT32_MAX || len > EXCHANGE_RANKS_MAX - count ||
            after + (int64_t)(gap + len) - 1 > INT32_MAX) {
            in->bad = true;
            return 0;
        }
        after += (int64_t)gap;
        for (uint64_t i = 0; ranks && i < len; i++)
            ranks[count + i] = (int32_t)(after + (int64_t)i);
        after += (int64_t)len;
        count += len;
    }
    return count;
}

/* Reads the keys. Copies them to `keys` and `texts` unless these are NULL. Returns the number of
 * keys, and with *size the bytes of their texts with a NUL each. */
static size_t get_keys(struct input *in, const char **keys, char *texts, size_t *size)
{
    size_t count = get_length(in), used = 0;
    for (size_t i = 0; i < count && !in->bad; i++) {
        size_t len = get_length(in);
        const char *text = get_bytes(in, len);
        in->bad |= memchr(text, '\0', len) != NULL;
        if (texts) {
            keys[i] = memcpy(texts + used, text, len);
            texts[used + len] = '\0';
        }
        used += len + 1;
    }
    *size = used;
    return count;
}

/* Reads ranks and keys: first their sizes, then, with the memory for them, their values. */
static int get_lists(struct exchange_decoded *d, struct input *in)
{
    struct input again = *in;
    size_t texts_size;
    size_t ranks = get_ranks(in, NULL), keys = get_keys(in, NULL, NULL, &texts_size);
    if (in->bad)
        return -EBADMSG;
    size_t keys_size = keys * sizeof(char *), ranks_size = ranks * sizeof(int32_t);
    d->storage = NULL;
    d->m.rank_count = ranks;
    d->m.key_count = keys;
    if (ranks == 0 && keys == 0)
        return 0;
    char *storage = try_calloc(1, keys_size + ranks_size + texts_size);
    if (!storage)
        return -ENOMEM;
    d->storage = storage;
    d->m.keys = (void *)storage;
    d->m.ranks = (void *)(storage + keys_size);
    get_ranks(&again, (void *)(storage + keys_size));
    get_keys(&again, (void *)storage, storage + keys_size + ranks_size, &texts_size);
    return 0;
}

static void get_fixed(struct exchange_message *m, struct input *in)
{
    unsigned type = *in->at++, kind = *in->at++, once = *in->at++;
    in->bad |= type >= EXCHANGE_TYPES || kind >= EXCHANGE_KINDS || once > 1;
    m->type = (enum exchange_type)type;
    m->kind = (enum exchange_kind)kind;
    m->once = once;
    m->node = get_int(in);
    m->rank = get_int(in);
    m->id = get(in);
    m->status = get_int(in);
    m->wait_ms = get_signed(in);
}

int exchange_message_decode(struct exchange_decoded *out, const char *bytes, size_t len,
                            struct err *e)
{
    const unsigned char *from = (const unsigned char *)bytes;
    struct input in = {.at = from, .end = from + len};
    struct exchange_decoded d = {0};
    if (len < FIXED)
        return err_set(e, -EBADMSG, "a message of %zu bytes is too short", len);
    get_fixed(&d.m, &in);
    int rc = get_lists(&d, &in);
    if (rc == -ENOMEM)
        return err_set(e, rc, "no memory for a message with %zu ranks", d.m.rank_count);
    if (rc == 0) {
        d.m.len = get_length(&in);
        d.m.data = get_bytes(&in, d.m.len);
    }
    if (in.bad || in.at != in.end) {
        free(d.storage);
        return err_set(e, -EBADMSG, "invalid message of %zu bytes", len);
    }
    *out = d;
    return 0;
}
