#include "data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kit/rng.h"

static int append(struct data *d, const float *x, int label)
{
    float *xs = realloc(d->x, (size_t)(d->n + 1) * DATA_PIXELS * sizeof *xs);
    if (xs)
        d->x = xs;
    int *labels = realloc(d->label, (size_t)(d->n + 1) * sizeof *labels);
    if (labels)
        d->label = labels;
    if (!xs || !labels)
        return -1;
    memcpy(d->x + (size_t)d->n * DATA_PIXELS, x, DATA_PIXELS * sizeof *x);
    d->label[d->n++] = label;
    return 0;
}

/* Parses a line into pixels and a label. Returns 0, or -1 if it is invalid. */
static int parse(float *x, int *label, const char *line)
{
    for (int i = 0; i <= DATA_PIXELS; i++) {
        char *end;
        long v = strtol(line, &end, 10);
        int max = i < DATA_PIXELS ? 16 : DATA_CLASSES - 1;
        if (end == line || v < 0 || v > max || (*end != ',' && i < DATA_PIXELS))
            return -1;
        if (i < DATA_PIXELS)
            x[i] = (float)v / 16;
        else
            *label = (int)v;
        line = end + 1;
    }
    return 0;
}

int data_read(struct data *train, struct data *test, const char *path, char *why, size_t why_size)
{
    FILE *f = fopen(path, "re");
    if (!f) {
        snprintf(why, why_size,
                 "data '%s': %s (try: --data=FILE, or the folder data/ next to the program)", path,
                 strerror(errno));
        return -1;
    }
    char line[1024];
    int rc = 0;
    for (int n = 0; rc == 0 && fgets(line, sizeof line, f); n++) {
        float x[DATA_PIXELS];
        int label = 0;
        if (parse(x, &label, line) < 0) {
            snprintf(why, why_size, "data '%s', line %d: expected %d pixels and a digit", path,
                     n + 1, DATA_PIXELS);
            rc = -1;
        } else if (append(n % 5 == 0 ? test : train, x, label) < 0) {
            snprintf(why, why_size, "data '%s': out of memory", path);
            rc = -1;
        }
    }
    fclose(f);
    if (rc == 0 && (train->n == 0 || test->n == 0)) {
        snprintf(why, why_size, "data '%s': no images", path);
        rc = -1;
    }
    return rc;
}

void data_free(struct data *d)
{
    free(d->x);
    free(d->label);
    *d = (struct data){0};
}

/* This is the Fisher-Yates shuffle in Durstenfeld's form. The bias of the modulo is below n /
 * 2^64. */
void data_shuffle(int *order, int n, uint64_t seed, int epoch)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    uint64_t key = rng_mix(seed ^ UINT64_C(0x5d1f7)) + (uint64_t)epoch;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(rng_at(key, (uint64_t)i) % (uint64_t)(i + 1));
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

void data_image(float *out, const struct data *d, int i, int augment, uint64_t seed, int epoch)
{
    const float *in = d->x + (size_t)i * DATA_PIXELS;
    uint64_t r = rng_at(rng_mix(seed ^ UINT64_C(0xa116)) + (uint64_t)epoch, (uint64_t)i);
    int right = augment ? (int)(r % 3) - 1 : 0;
    for (int at = 0; at < DATA_PIXELS; at++) {
        int x = at % DATA_SIDE - right;
        out[at] = x >= 0 && x < DATA_SIDE ? in[at - right] : 0;
    }
}
