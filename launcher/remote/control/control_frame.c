#include "launcher/remote/control/control_frame.h"

#include <errno.h>
#include <stdint.h>

enum { LENGTHS = 8 };

static uint32_t get32(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    return (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

static void put32(char *p, size_t n)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(n >> (8 * i));
}

int control_frame_encode(struct strbuf *to, const json_t *head, const void *payload, size_t len)
{
    AUTO(free) char *text = json_line(head);
    size_t text_len = strlen(text);
    if (text_len > CONTROL_FRAME_HEAD_MAX || len > CONTROL_FRAME_PAYLOAD_MAX)
        return -EMSGSIZE;
    char lengths[LENGTHS];
    put32(lengths, text_len);
    put32(lengths + 4, len);
    strbuf_add(to, lengths, sizeof lengths);
    strbuf_add(to, text, text_len);
    if (len > 0)
        strbuf_add(to, payload, len);
    return 0;
}

ssize_t control_frame_decode(struct control_frame *out, const char *bytes, size_t len,
                             size_t max_bytes, struct err *e)
{
    if (len < LENGTHS)
        return 0;
    size_t head = get32(bytes), payload = get32(bytes + 4);
    if (head > CONTROL_FRAME_HEAD_MAX || payload > CONTROL_FRAME_PAYLOAD_MAX ||
        LENGTHS + head + payload > max_bytes)
        return err_set(e, -EMSGSIZE, "a frame of %zu bytes exceeds the limit of %zu",
                       LENGTHS + head + payload, max_bytes);
    if (len < LENGTHS + head + payload)
        return 0;
    AUTO(json) json_t *j = NULL;
    struct control_frame f = {.payload = bytes + LENGTHS + head, .len = payload};
    if (json_parse(&j, bytes + LENGTHS, head, e) < 0 || json_require_str(&f.type, j, "t", e) < 0) {
        err_wrap(e, "invalid frame");
        return -EBADMSG;
    }
    f.head = TAKE(j);
    *out = f;
    return (ssize_t)(LENGTHS + head + payload);
}
