#include "collectives/bench/busbw.h"

struct busbw_shape busbw_shape(enum backend_coll coll, size_t asked_bytes, size_t element_bytes,
                               int ranks)
{
    size_t n = (size_t)ranks, whole = asked_bytes / element_bytes;
    size_t part = whole / n / (16 / element_bytes) * (16 / element_bytes);
    size_t part_bytes = part * element_bytes;
    struct busbw_shape s = {.count = part, .bytes = part_bytes * n};
    switch (coll) {
    case BACKEND_ALL_GATHER:
    case BACKEND_GATHER:
        s.in_bytes = s.in_stride = part_bytes;
        s.out_bytes = s.bytes;
        break;
    case BACKEND_REDUCE_SCATTER:
    case BACKEND_SCATTER:
        s.in_bytes = s.bytes;
        s.out_bytes = s.out_stride = part_bytes;
        break;
    case BACKEND_ALL_TO_ALL:
    case BACKEND_ALL_TO_ALL_V:
        s.in_bytes = s.out_bytes = s.bytes;
        break;
    default:
        s.count = whole;
        s.bytes = s.in_bytes = s.out_bytes = whole * element_bytes;
        break;
    }
    return s;
}

double busbw_factor(enum backend_coll coll, int ranks)
{
    double n = ranks;
    switch (coll) {
    case BACKEND_ALL_REDUCE:
        return 2 * (n - 1) / n;
    case BACKEND_ALL_GATHER:
    case BACKEND_REDUCE_SCATTER:
    case BACKEND_ALL_TO_ALL:
    case BACKEND_ALL_TO_ALL_V:
    case BACKEND_GATHER:
    case BACKEND_SCATTER:
        return (n - 1) / n;
    default:
        return 1;
    }
}

double busbw_rate(size_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / 1e9 / seconds : 0;
}

int busbw_has_root(enum backend_coll coll)
{
    return coll == BACKEND_BROADCAST || coll == BACKEND_REDUCE || coll == BACKEND_GATHER ||
           coll == BACKEND_SCATTER;
}

int busbw_has_in_place(enum backend_coll coll)
{
    return coll != BACKEND_ALL_TO_ALL_V && coll != BACKEND_SENDRECV;
}

size_t busbw_v_count(size_t count, int ranks, int from, int to)
{
    int k = (from + to) % ranks;
    if (k == ranks - 1 && ranks % 2 == 1)
        return count;
    return k % 2 == 0 ? count + count / 2 : count - count / 2;
}

size_t busbw_v_start(size_t count, int ranks, int rank, int other)
{
    size_t start = 0;
    for (int r = 0; r < other; r++)
        start += busbw_v_count(count, ranks, rank, r);
    return start;
}
