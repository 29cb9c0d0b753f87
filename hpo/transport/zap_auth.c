#include "hpo/transport/zap_auth.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <zmq.h>

#include "common/zmq_uv.h"
#include "hpo/transport/log_throttle.h"

enum {
    BATCH = 256,
    STRANGER_MS = 10000, /* for whoever connects to show that it is one of ours */
    KEEPALIVE_S = 30,    /* the kernel asks silent ends whether they are there, thrice */
    BACKLOG = 4096,
    FILES_MAX = 65536 /* a worker is a descriptor */
};

struct zap_auth {
    uv_loop_t *loop;
    void *zap, *monitor; /* zap: ZeroMQ asks us about every key (its RFC 27); NULL: no keys */
    struct zmq_uv *on_zap, *on_monitor;
    uint8_t key[CURVE_KEYS_BYTES]; /* of those who may come in */
    struct log_throttle said;
};

static int failed(const char *what, struct err *e)
{
    int code = errno;
    return err_set(e, code < ZMQ_HAUSNUMERO ? -code : -EIO, "%s: %s", what, zmq_strerror(code));
}

/* ---- who is refused ------------------------------------------------------------------------- */

static void refused(struct zap_auth *d, const char *why)
{
    log_throttle_warn(&d->said, uv_now(d->loop), "a connection was refused: %s", why);
}

static const char *reason(uint16_t event, uint32_t value)
{
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        return "it closed before it showed a key";
    if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
        return "it came without a key";
    if (value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
        return "it came with the key of another coordinator";
    return "it speaks another protocol";
}

/* An event is two frames: its number and value, then the address, which is our own. */
static void on_events(struct zmq_uv *z, void *arg)
{
    struct zap_auth *d = arg;
    for (int i = 0; i < BATCH; i++) {
        unsigned char head[6];
        char address[256];
        if (zmq_recv(d->monitor, head, sizeof head, ZMQ_DONTWAIT) < 0)
            return;
        (void)zmq_recv(d->monitor, address, sizeof address, 0); /* comes with the first */
        uint16_t event;
        uint32_t value;
        memcpy(&event, head, sizeof event);
        memcpy(&value, head + 2, sizeof value);
        refused(d, reason(event, value));
    }
}

/* ---- who comes in --------------------------------------------------------------------------- */

enum {
    ZAP_VERSION,
    ZAP_ID,
    ZAP_DOMAIN,
    ZAP_ADDRESS,
    ZAP_IDENTITY,
    ZAP_MECHANISM,
    ZAP_KEY,
    ZAP_FRAMES
};

struct request {
    char text[ZAP_FRAMES][256];
    size_t len[ZAP_FRAMES];
    int frames;
};

/* All frames of a request; false where there is none. */
static bool receive(struct request *r, void *zap)
{
    int more = 1;
    *r = (struct request){0};
    for (size_t size = sizeof more; more; r->frames++) {
        char rest[256];
        bool fits = r->frames < ZAP_FRAMES;
        int n = zmq_recv(zap, fits ? r->text[r->frames] : rest, sizeof rest - 1, ZMQ_DONTWAIT);
        if (n < 0)
            return false;
        if (fits)
            r->len[r->frames] = (size_t)n < sizeof rest ? (size_t)n : sizeof rest - 1;
        if (zmq_getsockopt(zap, ZMQ_RCVMORE, &more, &size) < 0)
            return false;
    }
    return true;
}

static void answer(const struct zap_auth *d, const struct request *r, bool good)
{
    const char *const words[] = {good ? "200" : "400", good ? "OK" : "wrong key", "", ""};
    zmq_send(d->zap, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(d->zap, r->text[ZAP_ID], r->len[ZAP_ID], ZMQ_SNDMORE);
    for (size_t i = 0; i < COUNT_OF(words); i++)
        zmq_send(d->zap, words[i], strlen(words[i]), i + 1 < COUNT_OF(words) ? ZMQ_SNDMORE : 0);
}

static void on_requests(struct zmq_uv *z, void *arg)
{
    struct zap_auth *d = arg;
    struct request r;
    for (int i = 0; i < BATCH && receive(&r, d->zap); i++) {
        bool good =
            r.frames == ZAP_FRAMES && strcmp(r.text[ZAP_MECHANISM], "CURVE") == 0 &&
            r.len[ZAP_KEY] == CURVE_KEYS_BYTES &&
            memcmp(r.text[ZAP_KEY], d->key, CURVE_KEYS_BYTES) == 0; /* public: no secret's time */
        answer(d, &r, good);
        AUTO(free) char *why = xasprintf("%s has a wrong key", r.text[ZAP_ADDRESS]);
        if (!good)
            refused(d, why);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static int open_monitor(struct zap_auth *d, const struct zap_auth_opts *ask, struct err *e)
{
    static const char name[] = "inproc://door-monitor";
    int events = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
    d->monitor = zmq_socket(ask->zmq, ZMQ_PAIR);
    if (!d->monitor || zmq_socket_monitor(ask->sock, name, events) < 0 ||
        zmq_connect(d->monitor, name) < 0)
        return failed("socket monitor", e);
    return zmq_uv_open(&d->on_monitor, d->loop, d->monitor, on_events, d, e);
}

/* From here on what the socket is bound to wants keys. */
static int want_keys(struct zap_auth *d, const struct zap_auth_opts *ask, struct err *e)
{
    int yes = 1;
    memcpy(d->key, ask->keys->other, CURVE_KEYS_BYTES);
    d->zap = zmq_socket(ask->zmq, ZMQ_REP);
    if (!d->zap || zmq_bind(d->zap, "inproc://zeromq.zap.01") < 0 ||
        zmq_setsockopt(ask->sock, ZMQ_ZAP_DOMAIN, "drover", 6) < 0 ||
        zmq_setsockopt(ask->sock, ZMQ_CURVE_SERVER, &yes, sizeof yes) < 0 ||
        zmq_setsockopt(ask->sock, ZMQ_CURVE_SECRETKEY, ask->keys->secret, CURVE_KEYS_BYTES) < 0)
        return failed("keys", e);
    return zmq_uv_open(&d->on_zap, d->loop, d->zap, on_requests, d, e);
}

static int set_options(void *sock, const char *address, struct err *e)
{
    /* No heartbeats of ZeroMQ's at this end: each costs it a walk over all connections' timers. */
    const struct {
        int option, value;
    } ints[] = {
        {ZMQ_HANDSHAKE_IVL, STRANGER_MS},
        {ZMQ_BACKLOG, BACKLOG},
        {ZMQ_TCP_KEEPALIVE, 1},
        {ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_S},
        {ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_S},
        {ZMQ_TCP_KEEPALIVE_CNT, 3},
        {ZMQ_IPV6, strchr(address, '[') != NULL},
    };
    for (size_t i = 0; i < COUNT_OF(ints); i++)
        if (zmq_setsockopt(sock, ints[i].option, &ints[i].value, sizeof(int)) < 0)
            return failed("socket", e);
    return 0;
}

/* As many workers as the system lets us have. */
static void raise_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= FILES_MAX)
        return;
    r.rlim_cur = r.rlim_max < FILES_MAX ? r.rlim_max : FILES_MAX;
    (void)setrlimit(RLIMIT_NOFILE, &r); /* then fewer can come */
}

int zap_auth_open(struct zap_auth **out, const struct zap_auth_opts *ask, char **bound,
                  struct err *e)
{
    AUTO(zap_auth) struct zap_auth *d = xzalloc(sizeof *d);
    char where[512];
    size_t len = sizeof where;
    d->loop = ask->loop;
    raise_limit();
    int rc = open_monitor(d, ask, e);
    if (rc == 0)
        rc = set_options(ask->sock, ask->address, e);
    if (rc == 0 && ask->keys)
        rc = want_keys(d, ask, e);
    if (rc < 0)
        return rc;
    if (zmq_bind(ask->sock, ask->address) < 0)
        return failed(ask->address, e);
    if (zmq_getsockopt(ask->sock, ZMQ_LAST_ENDPOINT, where, &len) < 0)
        return failed(ask->address, e);
    *bound = xstrdup(where);
    *out = TAKE(d);
    return 0;
}

void zap_auth_close(struct zap_auth *d)
{
    if (!d)
        return;
    zmq_uv_close(d->on_monitor);
    zmq_uv_close(d->on_zap);
    if (d->monitor)
        zmq_close(d->monitor);
    if (d->zap)
        zmq_close(d->zap);
    free(d);
}
