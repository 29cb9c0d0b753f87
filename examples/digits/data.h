/* data - reads the images of digits, splits them into a training and a test set, and shuffles
 * them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { DATA_SIDE = 8, DATA_PIXELS = DATA_SIDE * DATA_SIDE, DATA_CLASSES = 10 };

struct data {
    int n;
    float *x;   /* n x DATA_PIXELS values in [0, 1] */
    int *label; /* n labels from 0 to 9 */
};

/* Reads lines of 64 pixels (0 to 16) and a label. Every fifth image goes to `test`, the others go
 * to `train`; free both with data_free(). Returns 0, or -1 with the error in `why`. */
int data_read(struct data *train, struct data *test, const char *path, char *why, size_t why_size);
void data_free(struct data *d);

/* Writes the numbers 0 ... n - 1 in random order. The order depends only on the seed and the epoch,
 * so it is the same on every rank. */
void data_shuffle(int *order, int n, uint64_t seed, int epoch);

/* Copies image `i` to `out`. With `augment`, the image is shifted sideways by up to one pixel,
 * depending on (seed, epoch, i); new pixels are 0. There is no vertical shift, since the digits
 * fill their images from top to bottom. */
void data_image(float *out, const struct data *d, int i, int augment, uint64_t seed, int epoch);
