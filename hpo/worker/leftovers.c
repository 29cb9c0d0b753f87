#include "hpo/worker/leftovers.h"

#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/log.h"
#include "common/strbuf.h"

static void write_message(void *arg, const struct wire_msg *m)
{
    struct wire_msg numbered = *m;
    numbered.conn = 1; /* wire_encode() requires one */
    struct err e = {0};
    AUTO(strbuf) struct strbuf b = {0};
    if (wire_encode(&b, &numbered, &e) < 0)
        log_error("%s", e.text);
    else
        strbuf_printf(arg, "%s\n", strbuf_str(&b));
}

void leftovers_write(const char *path, const struct lease_list *leases)
{
    if (leases->count == 0)
        return;
    AUTO(strbuf) struct strbuf b = {0};
    lease_list_each_unacknowledged(leases, write_message, &b);
    int rc = file_replace_durably(path, b.data, b.len, 0600);
    if (rc < 0)
        log_error("%s: %s: the last reports of the trials are lost", path, strerror(-rc));
}

bool leftovers_read(const char *path, outbox_fn *fn, void *arg)
{
    AUTO(free) char *text = file_text(path);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        if (!*line)
            continue;
        struct err e = {0};
        struct wire_msg m = {0};
        if (wire_decode(&m, line, strlen(line), &e) < 0)
            log_warn("%s: dropped a message: %s", path, e.text);
        else if (m.kind == WIRE_REPORT || m.kind == WIRE_DONE)
            fn(arg, &m);
        wire_msg_clear(&m);
    }
    return text != NULL;
}
