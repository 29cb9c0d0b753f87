#include "serve/serve_request.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- routes --------------------------------------------------------------------------------- */

enum { WORDS_MAX = 5 };

static const struct {
    const char *words[WORDS_MAX]; /* "*": the name of a sweep; "#": a trial; "?": a stream */
    enum serve_route_kind kind;
} routes[] = {
    {{"api", "sweeps"}, SERVE_ROUTE_SWEEPS},
    {{"api", "jobs"}, SERVE_ROUTE_JOBS},
    {{"api", "*", "overview"}, SERVE_ROUTE_OVERVIEW},
    {{"api", "*", "cols"}, SERVE_ROUTE_COLUMNS},
    {{"api", "*", "curves"}, SERVE_ROUTE_CURVES},
    {{"api", "*", "density"}, SERVE_ROUTE_DENSITY},
    {{"api", "*", "surface"}, SERVE_ROUTE_SURFACE},
    {{"api", "*", "events"}, SERVE_ROUTE_EVENTS},
    {{"api", "*", "control"}, SERVE_ROUTE_CONTROL},
    {{"api", "*", "trial", "#"}, SERVE_ROUTE_TRIAL},
    {{"api", "*", "log", "#", "?"}, SERVE_ROUTE_LOG},
};

static bool copy_word(char *to, size_t size, const char *word, size_t len)
{
    if (len == 0 || len >= size)
        return false;
    memcpy(to, word, len);
    to[len] = 0;
    return true;
}

static bool read_trial(int *out, const char *word, size_t len)
{
    char text[16];
    int64_t n;
    if (!copy_word(text, sizeof text, word, len) ||
        serve_request_number(&n, text, 0, INT_MAX, 0) < 0)
        return false;
    *out = (int)n;
    return true;
}

static bool matches(struct serve_route *r, const char *pattern, const char *word, size_t len)
{
    switch (pattern[0]) {
    case '*':
        return copy_word(r->sweep, sizeof r->sweep, word, len);
    case '#':
        return read_trial(&r->trial, word, len);
    case '?':
        return copy_word(r->stream, sizeof r->stream, word, len) &&
               (strcmp(r->stream, "stdout") == 0 || strcmp(r->stream, "stderr") == 0);
    default:
        return strlen(pattern) == len && memcmp(pattern, word, len) == 0;
    }
}

struct serve_route serve_route_of(const char *path, const char *prefix)
{
    const char *words[WORDS_MAX + 1];
    size_t lens[WORDS_MAX + 1], count = 0, skip = strlen(prefix);
    if (strncmp(path, prefix, skip) == 0 && path[skip] == '/')
        path += skip;
    if (*path != '/')
        return (struct serve_route){0};
    for (const char *p = path + 1; count <= WORDS_MAX; count++) {
        words[count] = p;
        lens[count] = strcspn(p, "/");
        p += lens[count];
        if (!*p++)
            break;
    }
    count++;
    struct serve_route r = {.kind = SERVE_ROUTE_FILE};
    if (count == 1 && lens[0] == 0)
        words[0] = "index.html", lens[0] = strlen(words[0]);
    if (count == 1)
        return copy_word(r.file, sizeof r.file, words[0], lens[0]) ? r : (struct serve_route){0};
    for (size_t i = 0; i < COUNT_OF(routes) && count <= WORDS_MAX; i++) {
        size_t k = 0;
        r = (struct serve_route){.kind = routes[i].kind};
        while (k < count && routes[i].words[k] &&
               matches(&r, routes[i].words[k], words[k], lens[k]))
            k++;
        if (k == count && (k == WORDS_MAX || !routes[i].words[k]))
            return r;
    }
    return (struct serve_route){0};
}

int serve_request_number(int64_t *out, const char *text, int64_t min, int64_t max,
                         int64_t otherwise)
{
    char *end;
    errno = 0;
    long long n = text ? strtoll(text, &end, 10) : otherwise;
    if (text && (errno || !*text || *end || text[strspn(text, "-0123456789")]))
        return -EINVAL;
    if (n < min || n > max)
        return -EINVAL;
    *out = n;
    return 0;
}

/* ---- who may ask ---------------------------------------------------------------------------- */

/* The length of the name in "name:port" or "[address]:port"; 0: malformed. */
static size_t name_length(const char *host)
{
    size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (len > strlen(host) || (host[len] && host[len] != ':'))
        return 0;
    if (host[len] && host[len + 1 + strspn(host + len + 1, "0123456789")])
        return 0;
    return len;
}

bool serve_request_host_ok(const char *header, char *const *hosts)
{
    size_t len = header ? name_length(header) : 0;
    for (; len > 0 && hosts && *hosts; hosts++)
        if (strlen(*hosts) == len && strncasecmp(*hosts, header, len) == 0)
            return true;
    return false;
}

bool serve_request_origin_ok(const char *origin, const char *host)
{
    const char *at = origin ? strstr(origin, "://") : NULL;
    return !origin || (at && host && strcasecmp(at + 3, host) == 0);
}

static bool is_token(const char *given, size_t len, const char *token)
{
    unsigned differ = 0;
    if (len != strlen(token))
        return false;
    for (size_t i = 0; i < len; i++)
        differ |= (unsigned)(given[i] ^ token[i]);
    return differ == 0;
}

bool serve_request_token_ok(const char *given, const char *token)
{
    return given && is_token(given, strlen(given), token);
}

bool serve_request_cookie_ok(const char *header, const char *name, const char *token)
{
    for (const char *p = header; p && *p;) {
        p += strspn(p, " ;");
        size_t len = strcspn(p, ";"), key = strcspn(p, "=;");
        if (key == strlen(name) && memcmp(p, name, key) == 0 && p[key] == '=' &&
            is_token(p + key + 1, len - key - 1, token))
            return true;
        p += len;
    }
    return false;
}
