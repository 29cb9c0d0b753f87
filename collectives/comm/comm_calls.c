#include "collectives/comm/comm.h"

#define START(collective, ...) \
    comm_start(c, &(struct backend_call){.coll = COLLECTIVE_##collective, __VA_ARGS__})

int drover_all_reduce(struct drover_comm *c, const void *in, void *out, size_t n,
                      enum drover_type t, enum drover_op op)
{
    return START(ALL_REDUCE, .in = in, .out = out, .count = n, .type = t, .op = op);
}

int drover_broadcast(struct drover_comm *c, const void *in, void *out, size_t n, enum drover_type t,
                     int root)
{
    return START(BROADCAST, .in = in, .out = out, .count = n, .type = t, .root = root);
}

int drover_reduce(struct drover_comm *c, const void *in, void *out, size_t n, enum drover_type t,
                  enum drover_op op, int root)
{
    return START(REDUCE, .in = in, .out = out, .count = n, .type = t, .op = op, .root = root);
}

int drover_all_gather(struct drover_comm *c, const void *in, void *out, size_t n,
                      enum drover_type t)
{
    return START(ALL_GATHER, .in = in, .out = out, .count = n, .type = t);
}

int drover_reduce_scatter(struct drover_comm *c, const void *in, void *out, size_t n,
                          enum drover_type t, enum drover_op op)
{
    return START(REDUCE_SCATTER, .in = in, .out = out, .count = n, .type = t, .op = op);
}

int drover_all_to_all(struct drover_comm *c, const void *in, void *out, size_t n,
                      enum drover_type t)
{
    return START(ALL_TO_ALL, .in = in, .out = out, .count = n, .type = t);
}

int drover_gather(struct drover_comm *c, const void *in, void *out, size_t n, enum drover_type t,
                  int root)
{
    return START(GATHER, .in = in, .out = out, .count = n, .type = t, .root = root);
}

int drover_scatter(struct drover_comm *c, const void *in, void *out, size_t n, enum drover_type t,
                   int root)
{
    return START(SCATTER, .in = in, .out = out, .count = n, .type = t, .root = root);
}

int drover_all_to_all_v(struct drover_comm *c, const void *in, const struct drover_parts *send,
                        void *out, const struct drover_parts *recv, enum drover_type t)
{
    return START(ALL_TO_ALL_V, .in = in, .out = out, .type = t, .send = send, .recv = recv);
}

int drover_send(struct drover_comm *c, const void *in, size_t n, enum drover_type t, int peer)
{
    return START(SEND, .in = in, .count = n, .type = t, .root = peer);
}

int drover_recv(struct drover_comm *c, void *out, size_t n, enum drover_type t, int peer)
{
    return START(RECV, .out = out, .count = n, .type = t, .root = peer);
}
