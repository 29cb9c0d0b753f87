#include "launcher/remote/control/relay.h"

#include <errno.h>

json_t *relay_encode(struct strbuf *out, int node, json_t *head, const void *payload, size_t len)
{
    (void)control_frame_encode(out, head, payload, len);
    json_decref(head);
    return json_pack("{s:s,s:i}", "t", "relay", "node", node);
}

int relay_decode(struct control_frame *inner, int *node, const struct control_frame *f)
{
    int64_t number = 0;
    struct err e = {0};
    if (json_require_int(&number, f->head, "node", &e) < 0 || number < RELAY_ALL)
        return -EBADMSG;
    ssize_t n = control_frame_decode(inner, f->payload, f->len, f->len, &e);
    if (n <= 0)
        return -EBADMSG;
    if ((size_t)n != f->len) {
        json_decref(inner->head);
        return -EBADMSG;
    }
    *node = (int)number;
    return 0;
}
