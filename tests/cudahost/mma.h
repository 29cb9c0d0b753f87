/* mma - the matrix functions of a warp (nvcuda::wmma) on the host: 16 x 16 x 16 in bfloat16, with
 * sums in float.
 *
 * CUDA does not define which lane has which entry of a tile. Here lane l has the entries 8 l to
 * 8 l + 7, row by row; code that expects another order is wrong, as it is on a GPU. */
#pragma once

#include "cudahost.h"

namespace nvcuda
{
namespace wmma
{

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {
    static_assert(M == 16 && N == 16 && K == 16, "cudahost has 16 x 16 x 16 only");
    enum { num_elements = 8 };
    T x[num_elements];
};
typedef fragment<accumulator, 16, 16, 16, float> sums;

/* The whole warp is here, and the tile is aligned as CUDA demands. Memory is not ordered. */
static inline void meet(cudahost_site site, const void *tile, size_t ld_bytes)
{
    cudahost_warp(site, {CUDAHOST_BALLOT, ~0u, 0, 0});
    if ((uintptr_t)tile % 32 != 0)
        cudahost_fail(site, "the tile is not aligned to 32 bytes");
    if (ld_bytes % 16 != 0)
        cudahost_fail(site, "the leading dimension is not a multiple of 16 bytes");
}

/* Returns the position in memory of entry e of this lane. */
static inline size_t position(unsigned e, unsigned ld, bool by_rows)
{
    unsigned at = 8 * (unsigned)cudahost_lane() + e, row = at / 16, column = at % 16;
    return by_rows ? (size_t)row * ld + column : (size_t)column * ld + row;
}

template <typename Use, typename T, typename Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout> &f, const T *tile, unsigned ld,
                      CUDAHOST_CALLER)
{
    static_assert(!std::is_void_v<Layout>, "an accumulator needs its layout as an argument");
    meet({"load_matrix_sync", file, line}, tile, ld * sizeof(T));
    for (unsigned e = 0; e < 8; e++)
        f.x[e] = tile[position(e, ld, std::is_same_v<Layout, row_major>)];
}

static inline void load_matrix_sync(sums &f, const float *tile, unsigned ld, layout_t layout,
                                    CUDAHOST_CALLER)
{
    meet({"load_matrix_sync", file, line}, tile, ld * sizeof(float));
    for (unsigned e = 0; e < 8; e++)
        f.x[e] = tile[position(e, ld, layout == mem_row_major)];
}

static inline void store_matrix_sync(float *tile, const sums &f, unsigned ld, layout_t layout,
                                     CUDAHOST_CALLER)
{
    meet({"store_matrix_sync", file, line}, tile, ld * sizeof(float));
    for (unsigned e = 0; e < 8; e++)
        tile[position(e, ld, layout == mem_row_major)] = f.x[e];
}

template <typename Use, typename T, typename Layout, typename Value>
void fill_fragment(fragment<Use, 16, 16, 16, T, Layout> &f, Value v)
{
    for (T &x : f.x)
        x = (T)v;
}

/* d = a b + c */
template <typename LayoutA, typename LayoutB>
void mma_sync(sums &d, const fragment<matrix_a, 16, 16, 16, __nv_bfloat16, LayoutA> &a,
              const fragment<matrix_b, 16, 16, 16, __nv_bfloat16, LayoutB> &b, const sums &c,
              CUDAHOST_CALLER)
{
    cudahost_tiles mine = {d.x, a.x, b.x, c.x};
    cudahost_warp({"mma_sync", file, line},
                  {CUDAHOST_MMA, ~0u, (unsigned long long)(uintptr_t)&mine, 0});
}

} // namespace wmma
} // namespace nvcuda
