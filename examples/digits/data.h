/* data - the digits: read from a file, split, and given out in batches. */
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H

#include <stddef.h>
#include <stdint.h>

enum { DATA_SIDE = 8, DATA_PIXELS = DATA_SIDE * DATA_SIDE, DATA_CLASSES = 10 };

struct data {
    int n;
    float *x; /* n x DATA_PIXELS, in [0, 1] */
    int *label;
};

/* Reads lines of 64 pixels (0 to 16) and a label. Every fifth image goes to `test`, the others to
 * `train`. 0, or -1 with the reason in `why`. */
int data_read(struct data *train, struct data *test, const char *path, char *why, size_t why_size);
void data_free(struct data *d);

/* A random order of 0 ... n - 1: the same for the same seed and epoch on every rank. */
void data_shuffle(int *order, int n, uint64_t seed, int epoch);

/* Copies image `i`, shifted sideways by up to one pixel where `augment` is set: how far is a
 * function of (seed, epoch, i). What comes in from outside is empty. Not up or down: the digits
 * fill their images from top to bottom. */
void data_image(float *out, const struct data *d, int i, int augment, uint64_t seed, int epoch);

#endif
