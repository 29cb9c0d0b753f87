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

struct busbw_shape busbw_traffic_shape(const struct traffic_call *c, int rank)
{
    return (struct busbw_shape){
        .count = c->traffic->matrix ? 0 : c->count,
        .in_bytes = traffic_send_start(c, rank, c->ranks) * c->element,
        .out_bytes = traffic_recv_start(c, rank, c->ranks) * c->element,
        .bytes = traffic_max_bytes(c),
    };
}
