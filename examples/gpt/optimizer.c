#include "optimizer.h"

#include <stdlib.h>
#include <string.h>

/* Returns what this rank has of bucket b: position and length. */
static size_t own_at(const struct optimizer *o, int b, size_t *n)
{
    const struct model_bucket *k = &o->m->bucket[b];
    *n = k->part * (size_t)o->ranks->size / o->shares;
    return k->at + (o->zero ? k->part * (size_t)o->ranks->rank : 0);
}

static void *weights_at(const struct optimizer *o, size_t at)
{
    return (char *)o->m->w + at * o->m->element;
}

/* Returns where this rank has array 0 ... 2 of bucket b: its shares of the buckets follow each
 * other. */
static float *array_at(const struct optimizer *o, int array, int b)
{
    size_t n, at = own_at(o, b, &n);
    return o->array[array] ? o->array[array] + o->m->bucket[b].at / o->shares : weights_at(o, at);
}

int optimizer_open(struct optimizer *o)
{
    const struct ops_backend *ops = o->m->ops;
    o->shares = o->zero ? (size_t)o->ranks->size : 1;
    if (o->ranks->rank == 0) /* of the host's memory, which all ranks of a node share */
        o->state = malloc(OPTIMIZER_ARRAYS * o->m->params * sizeof *o->state);
    for (int i = o->m->c.precision == OPS_BF16 ? 0 : 1; i < OPTIMIZER_ARRAYS; i++)
        if (!(o->array[i] = ops->alloc(o->m->dev, o->m->size / o->shares * sizeof(float))))
            return -1;
    return o->state || o->ranks->rank > 0 ? 0 : -1;
}

void optimizer_close(struct optimizer *o)
{
    for (int i = 0; i < OPTIMIZER_ARRAYS; i++)
        o->m->ops->release(o->m->dev, o->array[i]);
    free(o->state);
}

/* Returns position `at` of a bucket as one of n elements from `begin` on, or the nearest end. */
static size_t within(size_t at, size_t begin, size_t n)
{
    return at < begin ? 0 : at - begin < n ? at - begin : n;
}

int optimizer_update(struct optimizer *o, float lr, float scale, int64_t t)
{
    struct ops_adamw a = {.lr = lr,
                          .decay = o->decay,
                          .beta1 = 0.9f,
                          .beta2 = 0.95f,
                          .epsilon = 1e-8f,
                          .scale = scale,
                          .t = t};
    enum drover_type type = o->m->element == 2 ? DROVER_BFLOAT16 : DROVER_FLOAT;
    for (int b = 0; b < o->m->buckets; b++) {
        size_t n, at = own_at(o, b, &n);
        model_decays(o->m, b, a.decays);
        for (int i = 0; i < OPS_RANGES; i++) {
            a.decays[i].begin = within(a.decays[i].begin, at - o->m->bucket[b].at, n);
            a.decays[i].end = within(a.decays[i].end, at - o->m->bucket[b].at, n);
        }
        o->m->ops->adamw(o->m->dev, weights_at(o, at), array_at(o, 0, b), array_at(o, 1, b),
                         array_at(o, 2, b), o->m->g + at, n, &a);
        if (o->zero)
            ranks_start(o->ranks, RANKS_GATHER, weights_at(o, at),
                        weights_at(o, o->m->bucket[b].at), n * (size_t)o->ranks->size, type);
    }
    return o->zero ? ranks_wait(o->ranks) : 0;
}

/* Copies one array of one bucket to rank 0's o->state, position `to`. Parts are gathered where the
 * gradient was. */
static int get_bucket(struct optimizer *o, int array, int b, size_t to)
{
    size_t n;
    (void)own_at(o, b, &n);
    float *from = array_at(o, array, b), *all = o->m->g + o->m->bucket[b].at;
    if (o->zero) {
        ranks_start(o->ranks, RANKS_GATHER, from, all, n * (size_t)o->ranks->size, DROVER_FLOAT);
        if (ranks_wait(o->ranks) < 0)
            return -1;
        from = all;
    }
    if (o->ranks->rank > 0)
        return 0;
    return ranks_check(
        o->ranks, o->m->ops->get(o->m->dev, o->state + to, from, o->m->bucket[b].n * sizeof *from));
}

int optimizer_get(struct optimizer *o)
{
    size_t to = 0;
    for (int array = 0; array < OPTIMIZER_ARRAYS; array++)
        for (int b = 0; b < o->m->buckets; to += o->m->bucket[b++].n)
            if (get_bucket(o, array, b, to) < 0)
                return -1;
    return 0;
}

/* The reverse: each rank gets its share. */
static int put_bucket(struct optimizer *o, int array, int b, size_t from)
{
    size_t n;
    (void)own_at(o, b, &n);
    float *to = array_at(o, array, b), *all = o->m->g + o->m->bucket[b].at;
    if (o->ranks->rank == 0 &&
        ranks_check(o->ranks, o->m->ops->put(o->m->dev, o->ranks->size > 1 ? all : to,
                                             o->state + from, o->m->bucket[b].n * sizeof *to)) < 0)
        return -1;
    ranks_start(o->ranks, o->zero ? RANKS_DEAL : RANKS_COPY, to, all, n * o->shares, DROVER_FLOAT);
    return ranks_wait(o->ranks);
}

static int put_array(struct optimizer *o, int array)
{
    size_t from = (size_t)array * o->m->params;
    for (int b = 0; b < o->m->buckets; from += o->m->bucket[b++].n)
        if (put_bucket(o, array, b, from) < 0)
            return -1;
    return ranks_check(o->ranks, o->m->ops->wait(o->m->dev));
}

/* While gradient and moments are 0, an update makes the weights that products read from array 0. */
int optimizer_put(struct optimizer *o)
{
    if (put_array(o, 0) < 0)
        return -1;
    o->m->ops->zero(o->m->dev, o->m->g, o->m->size * sizeof *o->m->g);
    if (optimizer_update(o, 0, 0, 1) < 0)
        return -1;
    return put_array(o, 1) < 0 ? -1 : put_array(o, 2);
}

size_t optimizer_bytes(const struct optimizer *o)
{
    return (o->array[0] ? 3 : 2) * o->m->size / o->shares * sizeof(float);
}
