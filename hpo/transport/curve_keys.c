#include "hpo/transport/curve_keys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#include "common/file.h"
#include "common/mem.h"

enum { TEXT_MAX = 1024, HEX = 2 * CURVE_KEYS_BYTES };

/* ---- keys as text --------------------------------------------------------------------------- */

static void to_hex(char out[HEX + 1], const uint8_t key[CURVE_KEYS_BYTES])
{
    (void)sodium_bin2hex(out, HEX + 1, key, CURVE_KEYS_BYTES);
}

static bool from_hex(uint8_t key[CURVE_KEYS_BYTES], const char *text)
{
    return strlen(text) == HEX && strspn(text, "0123456789abcdef") == HEX &&
           sodium_hex2bin(key, CURVE_KEYS_BYTES, text, HEX, NULL, NULL, NULL) == 0;
}

/* ZeroMQ encodes keys in Z85 (its RFC 32): 5 characters for 4 bytes. */
static bool own_from_secret(struct curve_keys *k)
{
    char secret[41], own[41];
    return zmq_z85_encode(secret, k->secret, CURVE_KEYS_BYTES) &&
           zmq_curve_public(own, secret) == 0 && zmq_z85_decode(k->own, own);
}

static int make_pair(struct curve_keys *k, struct err *e)
{
    char own[41], secret[41];
    if (zmq_curve_keypair(own, secret) < 0)
        return err_set(e, -errno, "cannot make keys: %s", zmq_strerror(errno));
    (void)zmq_z85_decode(k->own, own); /* does not fail: the text has 40 characters */
    (void)zmq_z85_decode(k->secret, secret);
    return 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Reads up to TEXT_MAX - 1 bytes of the file into `text` and ends it with a NUL. Fails if other
 * users can read the file. */
static int read_private(char *text, const char *path, struct err *e)
{
    struct stat st;
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, -errno, "key file '%s': %s", path, strerror(errno));
    if (st.st_mode & 077) {
        err_set(e, -EPERM, "key file '%s': other users can read it", path);
        return err_hint(e, "chmod 600 %s", path);
    }
    ssize_t n = read(fd, text, TEXT_MAX - 1);
    if (n < 0)
        return err_set(e, -errno, "key file '%s': %s", path, strerror(errno));
    text[n] = 0;
    return 0;
}

/* Writes the file completely or not at all. Other users cannot read it at any time. */
static int write_private(const char *path, const char *text, struct err *e)
{
    int rc = file_replace_durably(path, text, strlen(text), 0600);
    return rc < 0 ? err_set(e, rc, "key file '%s': %s", path, strerror(-rc)) : 0;
}

/* ---- the two ends --------------------------------------------------------------------------- */

static int read_server(struct curve_keys *server, struct curve_keys *worker, const char *path,
                       struct err *e)
{
    char text[TEXT_MAX], secret[HEX + 1], worker_secret[HEX + 1];
    int rc = read_private(text, path, e);
    if (rc < 0)
        return rc;
    bool good = sscanf(text, "drover-server %64s %64s", secret, worker_secret) == 2 &&
                from_hex(server->secret, secret) && from_hex(worker->secret, worker_secret) &&
                own_from_secret(server) && own_from_secret(worker);
    return good ? 0 : err_set(e, -EBADMSG, "key file '%s': not the server.key of a sweep", path);
}

int curve_keys_of_sweep(struct curve_keys *server, struct curve_keys *worker, const char *dir,
                        struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/server.key", dir);
    int rc = 0;
    if (access(path, F_OK) == 0) {
        rc = read_server(server, worker, path, e);
    } else if ((rc = make_pair(server, e)) == 0 && (rc = make_pair(worker, e)) == 0) {
        char secret[HEX + 1], worker_secret[HEX + 1];
        to_hex(secret, server->secret);
        to_hex(worker_secret, worker->secret);
        AUTO(free) char *text = xasprintf("drover-server %s %s\n", secret, worker_secret);
        rc = write_private(path, text, e);
    }
    if (rc < 0)
        return rc;
    memcpy(server->other, worker->own, CURVE_KEYS_BYTES);
    memcpy(worker->other, server->own, CURVE_KEYS_BYTES);
    return 0;
}

int curve_keys_give(const struct curve_keys *worker, const char *dir, const char *endpoint,
                    struct err *e)
{
    char server[HEX + 1], secret[HEX + 1];
    to_hex(server, worker->other);
    to_hex(secret, worker->secret);
    AUTO(free) char *path = xasprintf("%s/worker.key", dir);
    AUTO(free) char *text = xasprintf("drover-worker %s %s %s\n", endpoint, server, secret);
    return write_private(path, text, e);
}

int curve_keys_parse(struct curve_keys *out, char **endpoint, const char *text, const char *where,
                     struct err *e)
{
    char to[257], server[HEX + 1], secret[HEX + 1], more[2];
    struct curve_keys k = {0};
    bool good = sscanf(text, "drover-worker %256s %64s %64s %1s", to, server, secret, more) == 3 &&
                from_hex(k.other, server) && from_hex(k.secret, secret) && own_from_secret(&k);
    if (!good) {
        err_set(e, -EBADMSG, "%s: not a worker's key", where);
        return err_hint(e, "copy sweeps/NAME/worker.key from the coordinator's machine");
    }
    *out = k;
    *endpoint = xstrdup(to);
    return 0;
}

int curve_keys_read(struct curve_keys *out, char **endpoint, const char *path, struct err *e)
{
    char text[TEXT_MAX];
    AUTO(free) char *where = xasprintf("key file '%s'", path);
    int rc = read_private(text, path, e);
    return rc < 0 ? rc : curve_keys_parse(out, endpoint, text, where, e);
}

bool curve_keys_here(const char *endpoint)
{
    if (strncmp(endpoint, "ipc://", 6) == 0)
        return true;
    if (strncmp(endpoint, "tcp://", 6) != 0)
        return false;
    const char *host = endpoint + 6, *port = strrchr(host, ':');
    AUTO(free) char *name = xstrndup(host, port ? (size_t)(port - host) : strlen(host));
    struct in_addr a;
    if (inet_pton(AF_INET, name, &a) == 1)
        return (ntohl(a.s_addr) >> 24) == 127;
    return strcmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0;
}
