#include "launcher/hosts/hosts.h"

#include <string.h>

struct host *hosts_find(const struct hosts *h, const char *name)
{
    for (int i = 0; i < h->count; i++)
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
    h->at = xrealloc(h->at, (size_t)h->count + 1, sizeof *h->at);
    h->at[h->count++] =
        (struct host){.name = xstrdup(name), .slots = slots, .max_slots = max_slots};
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
