#include "hpo/transport/zap_auth.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <zmq.h>

#include "hpo/transport/log_throttle.h"
#include "hpo/transport/zmq_uv.h"

enum {
    BATCH = 256,
    HANDSHAKE_MS = 10000, /* time limit for a peer to authenticate */
    KEEPALIVE_S = 30, /* the kernel probes a peer that is silent for this time, up to three times */
    BACKLOG = 4096,
    FILES_MAX = 65536 /* limit on descriptors; each worker needs one */
};

struct zap_auth {
    uv_loop_t *loop;
    /* zap: the socket on which libzmq asks about each key (RFC 27); NULL: no keys */
    void *zap, *monitor;
    struct zmq_uv *on_zap, *on_monitor;
    uint8_t key[CURVE_KEYS_BYTES]; /* the public key of peers that are accepted */
    struct log_throttle rejected;
};

/* ---- rejected connections ------------------------------------------------------------------- */

static void log_rejected(struct zap_auth *a, const char *cause)
{
    log_throttle_warn(&a->rejected, uv_now(a->loop), "rejected a connection: %s", cause);
}

static const char *reason(uint16_t event, uint32_t value)
{
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        return "closed before it sent a key";
    if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
        return "no key";
    if (value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
        return "the key of another coordinator";
    return "another protocol";
}

static void on_events(struct zmq_uv *z, void *arg)
{
    struct zap_auth *a = arg;
    uint16_t event;
    uint32_t value;
    for (int i = 0; i < BATCH && zmq_uv_event(a->monitor, &event, &value); i++)
        log_rejected(a, reason(event, value));
}

/* ---- requests for authentication ------------------------------------------------------------ */

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

/* Receives all frames of a request. Long frames are cut, and frames after the last expected one are
 * only counted. Returns false if no request waits. */
static bool recv_request(struct request *r, void *zap)
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

static void answer(const struct zap_auth *a, const struct request *r, bool good)
{
    const char *const words[] = {good ? "200" : "400", good ? "OK" : "wrong key", "", ""};
    zmq_send(a->zap, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(a->zap, r->text[ZAP_ID], r->len[ZAP_ID], ZMQ_SNDMORE);
    for (size_t i = 0; i < COUNT_OF(words); i++)
        zmq_send(a->zap, words[i], strlen(words[i]), i + 1 < COUNT_OF(words) ? ZMQ_SNDMORE : 0);
}

static void on_requests(struct zmq_uv *z, void *arg)
{
    struct zap_auth *a = arg;
    struct request r;
    for (int i = 0; i < BATCH && recv_request(&r, a->zap); i++) {
        /* The key is public, so memcmp() need not take constant time. */
        bool good = r.frames == ZAP_FRAMES && strcmp(r.text[ZAP_MECHANISM], "CURVE") == 0 &&
                    r.len[ZAP_KEY] == CURVE_KEYS_BYTES &&
                    memcmp(r.text[ZAP_KEY], a->key, CURVE_KEYS_BYTES) == 0;
        answer(a, &r, good);
        AUTO(free) char *cause = xasprintf("%s has a wrong key", r.text[ZAP_ADDRESS]);
        if (!good)
            log_rejected(a, cause);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static int open_monitor(struct zap_auth *a, const struct zap_auth_opts *opts, struct err *e)
{
    static const char name[] = "inproc://auth-monitor";
    int events = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
    int rc = zmq_uv_monitor(&a->monitor, opts->zmq, opts->sock, name, events, e);
    return rc < 0 ? rc : zmq_uv_open(&a->on_monitor, a->loop, a->monitor, on_events, a, e);
}

/* Makes the socket require keys at the addresses to which it is bound after this call. */
static int require_keys(struct zap_auth *a, const struct zap_auth_opts *opts, struct err *e)
{
    int yes = 1;
    memcpy(a->key, opts->keys->other, CURVE_KEYS_BYTES);
    a->zap = zmq_socket(opts->zmq, ZMQ_REP);
    if (!a->zap || zmq_bind(a->zap, "inproc://zeromq.zap.01") < 0 ||
        zmq_setsockopt(opts->sock, ZMQ_ZAP_DOMAIN, "drover", 6) < 0 ||
        zmq_setsockopt(opts->sock, ZMQ_CURVE_SERVER, &yes, sizeof yes) < 0 ||
        zmq_setsockopt(opts->sock, ZMQ_CURVE_SECRETKEY, opts->keys->secret, CURVE_KEYS_BYTES) < 0)
        return zmq_uv_failed("keys", e);
    return zmq_uv_open(&a->on_zap, a->loop, a->zap, on_requests, a, e);
}

static int set_options(void *sock, const char *address, struct err *e)
{
    /* ZeroMQ's heartbeats are not used at this end: each would cost a walk over the timers of all
     * connections. */
    const struct zmq_uv_option ints[] = {
        {ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS},
        {ZMQ_BACKLOG, BACKLOG},
        {ZMQ_TCP_KEEPALIVE, 1},
        {ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_S},
        {ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_S},
        {ZMQ_TCP_KEEPALIVE_CNT, 3},
        {ZMQ_IPV6, strchr(address, '[') != NULL},
    };
    return zmq_uv_set(sock, ints, COUNT_OF(ints), e);
}

/* Raises the limit on descriptors, and so on workers, to FILES_MAX or as far as the system
 * permits. */
static void raise_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= FILES_MAX)
        return;
    r.rlim_cur = r.rlim_max < FILES_MAX ? r.rlim_max : FILES_MAX;
    (void)setrlimit(RLIMIT_NOFILE, &r); /* on failure, fewer workers can connect */
}

int zap_auth_open(struct zap_auth **out, const struct zap_auth_opts *opts, char **bound,
                  struct err *e)
{
    AUTO(zap_auth) struct zap_auth *a = xzalloc(sizeof *a);
    char endpoint[512];
    size_t len = sizeof endpoint;
    a->loop = opts->loop;
    raise_limit();
    int rc = open_monitor(a, opts, e);
    if (rc == 0)
        rc = set_options(opts->sock, opts->address, e);
    if (rc == 0 && opts->keys)
        rc = require_keys(a, opts, e);
    if (rc < 0)
        return rc;
    if (zmq_bind(opts->sock, opts->address) < 0)
        return zmq_uv_failed(opts->address, e);
    if (zmq_getsockopt(opts->sock, ZMQ_LAST_ENDPOINT, endpoint, &len) < 0)
        return zmq_uv_failed(opts->address, e);
    *bound = xstrdup(endpoint);
    *out = TAKE(a);
    return 0;
}

void zap_auth_close(struct zap_auth *a)
{
    if (!a)
        return;
    zmq_uv_close(a->on_monitor);
    zmq_uv_close(a->on_zap);
    if (a->monitor)
        zmq_close(a->monitor);
    if (a->zap)
        zmq_close(a->zap);
    free(a);
}
