#include "launcher/plan/hosts.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* A file with one line per slot repeats the last host, so the search begins there. */
struct host *hosts_find(const struct hosts *h, const char *name)
{
    for (int i = h->count - 1; i >= 0; i--)
        if (strcmp(h->at[i].name, name) == 0)
            return &h->at[i];
    return NULL;
}

void hosts_add(struct hosts *h, const char *name, int slots, int max_slots)
{
    struct host *known = hosts_find(h, name);
    if (known) {
        known->slots += slots;
        known->max_slots += max_slots;
        return;
    }
    if (h->count >= h->room) {
        h->room = h->count < 8 ? 8 : 2 * h->count;
        h->at = xrealloc(h->at, (size_t)h->room, sizeof *h->at);
    }
    h->at[h->count++] =
        (struct host){.name = xstrdup(name), .slots = slots, .max_slots = max_slots};
}

int hosts_check_name(const char *name, struct err *e)
{
    size_t len = strlen(name);
    if (name[0] == '+') {
        err_set(e, -EINVAL, "'%s': hosts relative to an allocation are not supported", name);
        (void)err_hint(e, "name the hosts"); /* whose result differs if `e` is NULL */
        return -EINVAL;
    }
    if (len > HOSTS_NAME_MAX)
        return err_set(e, -EINVAL, "a host name of %zu characters is too long", len);
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && (!strchr("-._:@%", name[i]) || name[0] == '-'))
            return err_set(e, -EINVAL, "invalid host name '%s'", name);
    return len > 0 ? 0 : err_set(e, -EINVAL, "a host name is missing");
}

int hosts_try_add(struct hosts *h, const char *name, int slots, int max_slots, struct err *e)
{
    int rc = hosts_check_name(name, e);
    if (rc < 0)
        return rc;
    const struct host *known = hosts_find(h, name);
    if (!known && h->count >= HOSTS_MAX)
        return err_set(e, -E2BIG, "more than %d hosts", HOSTS_MAX);
    if (slots > HOSTS_SLOTS_MAX - (known ? known->slots : 0) ||
        max_slots > HOSTS_SLOTS_MAX - (known ? known->max_slots : 0))
        return err_set(e, -E2BIG, "host '%s': more than %d slots", name, HOSTS_SLOTS_MAX);
    hosts_add(h, name, slots, max_slots);
    return 0;
}

struct hosts *hosts_select(const struct hosts *h, const bool *chosen)
{
    struct hosts *out = xzalloc(sizeof *out);
    out->at = xcalloc((size_t)h->count + 1, sizeof *out->at);
    for (int i = 0; i < h->count; i++) {
        if (chosen && !chosen[i])
            continue;
        out->at[out->count] = h->at[i];
        out->at[out->count++].name = xstrdup(h->at[i].name);
    }
    return out;
}

void hosts_free(struct hosts *h)
{
    for (int i = 0; h && i < h->count; i++)
        free(h->at[i].name);
    if (h)
        free(h->at);
    free(h);
}
