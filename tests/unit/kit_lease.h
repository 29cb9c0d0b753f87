/* kit_lease - what trial runs and reservations of a test run on, and the messages that they
 * send. */
#pragma once

#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/worker/lease_context.h"
#include "hpo/worker/node_slice.h"
#include "launcher/node/topo.h"
#include "tests/unit/kit_launch.h"

struct leases {
    struct fixture *f;
    struct lease_context context;
    struct resources need;
    struct trial_paths *paths;
    struct node_slice slice;
    char dir[64];       /* the sweep's */
    struct strbuf sent; /* "KIND LEASE SEQ DATA|" per message */
    json_t *ticket;     /* the last join ticket; NULL: none */
    json_t *result;     /* of the last WIRE_DONE; NULL: none */
    int64_t last_seq;
    int done; /* calls of a `done` callback */
};

static inline void leases_on_send(void *arg, const struct wire_msg *m)
{
    struct leases *t = arg;
    AUTO(free) char *data = m->data ? json_dumps(m->data, JSON_COMPACT) : NULL;
    strbuf_printf(&t->sent, "%s %lld %lld %s|", wire_kind_name(m->kind), (long long)m->lease,
                  (long long)m->seq, data ? data : "-");
    if (m->seq)
        t->last_seq = m->seq;
    json_t **kept = m->kind == WIRE_JOIN_TICKET ? &t->ticket
                    : m->kind == WIRE_DONE      ? &t->result
                                                : NULL;
    if (kept) {
        json_decref(*kept);
        *kept = json_incref(m->data);
    }
}

/* The data of a WIRE_RUN for trial 7, which runs `script` with a shell. New reference. */
static inline json_t *leases_run_data(const struct leases *t, const char *script)
{
    AUTO(free) char *dir = xasprintf("%s/trials/000007", t->dir);
    return json_pack("{s:i,s:s,s:s,s:s,s:[s,s,s],s:[s],s:{s:f},s:i}", "trial", 7, "sweep", "s",
                     "dir", dir, "wdir", t->dir, "argv", "sh", "-c", script, "env", "KIT=yes",
                     "params", "lr", 0.5, "grace_ms", 500);
}

static inline void leases_open(struct leases *t)
{
    struct err e = {0};
    memset(t, 0, sizeof *t);
    t->f = open_all();
    strcpy(t->dir, "/tmp/drover-lease-XXXXXX");
    CHECK(mkdtemp(t->dir));
    t->need = (struct resources){.nodes = 1, .ranks = 1};
    const struct trial_paths_opts paths = {.dir = t->dir};
    AUTO(json) json_t *data = leases_run_data(t, "true");
    if (trial_paths_new(&t->paths, &paths, data, &e) < 0)
        FAIL("%s", e.text);
    t->context = (struct lease_context){.loop = &t->f->loop,
                                        .instance = 1,
                                        .launcher = t->f->l,
                                        .need = &t->need,
                                        .paths = t->paths,
                                        .send = leases_on_send,
                                        .arg = t};
    t->slice.shared = true;
}

static inline void leases_close(struct leases *t)
{
    char command[128];
    close_all(t->f);
    trial_paths_free(t->paths);
    json_decref(t->ticket);
    json_decref(t->result);
    strbuf_free(&t->sent);
    snprintf(command, sizeof command, "rm -r %s", t->dir);
    CHECK_INT(system(command), 0);
}

/* Returns the text of a file in the sweep's directory. To be freed. */
static inline char *leases_file(const struct leases *t, const char *name)
{
    char path[256];
    static char text[2 << 20];
    snprintf(path, sizeof path, "%s/%s", t->dir, name);
    FILE *f = fopen(path, "re");
    if (!f)
        FAIL("%s: %s", path, strerror(errno));
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return xstrdup(text);
}

static inline void leases_clear_sent(struct leases *t)
{
    strbuf_free(&t->sent);
    t->sent = (struct strbuf){0};
}

static inline void leases_until_sent(struct leases *t, const char *text)
{
    while (!strstr(strbuf_str(&t->sent), text))
        uv_run(&t->f->loop, UV_RUN_ONCE);
}

static inline void leases_until_done(struct leases *t, int n)
{
    while (t->done < n)
        uv_run(&t->f->loop, UV_RUN_ONCE);
}
