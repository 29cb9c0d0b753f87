#include "launcher/pmi/pmix_greeting.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

enum { CLIENT = 0 };

/* What is left of a greeting. */
struct rest {
    const char *at;
    size_t len;
};

static bool skip(struct rest *r, size_t bytes)
{
    if (r->len < bytes)
        return false;
    r->at += bytes;
    r->len -= bytes;
    return true;
}

static bool take_u32(uint32_t *out, struct rest *r)
{
    const char *at = r->at;
    if (!skip(r, sizeof *out))
        return false;
    memcpy(out, at, sizeof *out);
    *out = ntohl(*out);
    return true;
}

/* Takes a text, of at least one character. */
static bool take_text(const char **out, struct rest *r)
{
    *out = r->at;
    size_t n = strnlen(r->at, r->len);
    return n > 0 && skip(r, n + 1);
}

/* Takes the security module and its credential. */
static bool take_credential(struct rest *r, const struct pmix_greeting_user *user)
{
    const char *module, *credential;
    uint32_t len;
    if (!take_text(&module, r) || !take_u32(&len, r))
        return false;
    credential = r->at;
    if (!skip(r, len))
        return false;
    return !user || (strcmp(module, "native") == 0 && len == sizeof *user &&
                     memcmp(credential, user, len) == 0);
}

static bool is_bfrops_module(const char *name)
{
    static const char *const names[] = {"v12", "v20", "v21", "v3", "v4", "v41", "v51", "v61", NULL};
    return strv_has(names, name);
}

bool pmix_greeting_is_valid(const char *bytes, size_t len, const struct pmix_greeting_user *user)
{
    struct rest r = {bytes, len};
    const char *nspace, *version, *bfrops, *gds;
    uint32_t rank;
    unsigned major, minor, release;
    if (!take_credential(&r, user) || r.len == 0 || r.at[0] != CLIENT || !skip(&r, 1) ||
        !take_text(&nspace, &r) || !take_u32(&rank, &r) || !take_text(&version, &r) ||
        sscanf(version, "%u.%u.%u", &major, &minor, &release) != 3)
        return false;
    if (major == 2 && minor == 0)
        return true;
    return take_text(&bfrops, &r) && is_bfrops_module(bfrops) && skip(&r, 1) && take_text(&gds, &r);
}
