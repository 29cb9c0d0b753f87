#include "launcher/remote/control/control_frame.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>

enum { LENGTHS = 8 };

int control_frame_encode(struct strbuf *to, const json_t *head, const void *payload, size_t len)
{
    AUTO(free) char *text = json_line(head);
    size_t text_len = strlen(text);
    if (text_len > CONTROL_FRAME_HEAD_MAX || len > CONTROL_FRAME_PAYLOAD_MAX)
        return -EMSGSIZE;
    uint32_t lengths[] = {htole32((uint32_t)text_len), htole32((uint32_t)len)};
    strbuf_add(to, (const char *)lengths, sizeof lengths);
    strbuf_add(to, text, text_len);
    if (len > 0)
        strbuf_add(to, payload, len);
    return 0;
}

ssize_t control_frame_decode(struct control_frame *out, const char *bytes, size_t len,
                             size_t max_bytes, struct err *e)
{
    uint32_t lengths[2];
    if (len < LENGTHS)
        return 0;
    memcpy(lengths, bytes, sizeof lengths);
    size_t head = le32toh(lengths[0]), payload = le32toh(lengths[1]);
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

json_t *control_frame_relay(struct strbuf *out, int node, json_t *head, const void *payload,
                            size_t len)
{
    (void)control_frame_encode(out, head, payload, len);
    json_decref(head);
    return json_pack("{s:s,s:i}", "t", "relay", "node", node);
}

int control_frame_relayed(struct control_frame *inner, int *node, const struct control_frame *f)
{
    int64_t number = 0;
    if (json_require_int(&number, f->head, "node", NULL) < 0 || number < CONTROL_FRAME_TO_ALL)
        return -EBADMSG;
    ssize_t n = control_frame_decode(inner, f->payload, f->len, f->len, NULL);
    if (n > 0 && (size_t)n != f->len)
        json_decref(inner->head);
    *node = (int)number;
    return n > 0 && (size_t)n == f->len ? 0 : -EBADMSG;
}
