#include "hpo/worker/leftovers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/durable.h"
#include "common/log.h"
#include "common/private_dir.h"
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
        fprintf(arg, "%s\n", strbuf_str(&b));
}

void leftovers_write(const char *path, const struct lease_list *leases)
{
    if (lease_list_count(leases) == 0)
        return;
    AUTO(free) char *tmp = xasprintf("%s.tmp", path);
    AUTO(file) FILE *f = private_dir_fopen(tmp, "w");
    if (f) {
        for (size_t i = 0; i < lease_list_count(leases); i++)
            lease_each_unacknowledged(lease_list_at(leases, i), write_message, f);
    }
    bool whole = f && !ferror(f) && fflush(f) == 0 && fsync(fileno(f)) == 0;
    int rc = whole ? 0 : errno ? -errno : -EIO;
    if (rc == 0)
        rc = durable_rename(tmp, path);
    if (rc < 0)
        log_error("%s: %s: the last reports of the trials are lost", tmp, strerror(-rc));
}

bool leftovers_read(const char *path, outbox_fn *fn, void *arg)
{
    AUTO(file) FILE *f = fopen(path, "re");
    AUTO(free) char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; f && (n = getline(&line, &cap, f)) > 0;) {
        struct err e = {0};
        struct wire_msg m = {0};
        if (wire_decode(&m, line, (size_t)n, &e) < 0)
            log_warn("%s: dropped a message: %s", path, e.text);
        else if (m.kind == WIRE_REPORT || m.kind == WIRE_DONE)
            fn(arg, &m);
        wire_msg_clear(&m);
    }
    return f != NULL;
}
