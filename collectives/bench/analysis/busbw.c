#include "collectives/bench/analysis/busbw.h"

struct busbw_shape busbw_shape(enum collective coll, size_t requested_bytes, size_t element_bytes,
                               int ranks)
{
    size_t n = (size_t)ranks, whole = requested_bytes / element_bytes;
    size_t part = whole / n / (16 / element_bytes) * (16 / element_bytes);
    size_t part_bytes = part * element_bytes;
    const struct collective_row *row = collective_row(coll);
    bool in_whole = row->in == COLLECTIVE_WHOLE, out_whole = row->out == COLLECTIVE_WHOLE;
    struct busbw_shape s;
    if (in_whole && out_whole) {
        s = (struct busbw_shape){.count = whole, .bytes = whole * element_bytes};
        s.in_bytes = s.out_bytes = s.bytes;
        return s;
    }
    s = (struct busbw_shape){.count = part, .bytes = part_bytes * n};
    s.in_bytes = in_whole ? part_bytes : s.bytes;
    s.out_bytes = out_whole ? part_bytes : s.bytes;
    s.in_stride = in_whole ? part_bytes : 0;
    s.out_stride = out_whole ? part_bytes : 0;
    return s;
}

double busbw_rate(size_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / 1e9 / seconds : 0;
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
