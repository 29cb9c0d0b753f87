#include "launcher/hosts.h"

#include <string.h>

void hosts_add(struct hosts *h, const char *name, int slots, int max_slots)
{
    for (int i = 0; i < h->count; i++)
        if (strcmp(h->at[i].name, name) == 0) {
            h->at[i].slots += slots;
            h->at[i].max_slots += max_slots;
            return;
        }
    h->at = xrealloc(h->at, (size_t)h->count + 1, sizeof *h->at);
    h->at[h->count++] = (struct host){xstrdup(name), slots, max_slots};
}

void hosts_free(struct hosts *h)
{
    for (int i = 0; h && i < h->count; i++)
        free(h->at[i].name);
    if (h)
        free(h->at);
    free(h);
}
