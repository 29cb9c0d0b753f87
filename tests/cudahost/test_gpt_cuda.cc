/* The operations of examples/gpt on a GPU: against double at awkward sizes, and the whole model against the CPU's. Rows
 * and tiles end in the middle: blocks have 16 to 64 rows, and tiles of attention 16 or 32. */
#include "examples/gpt/gpt_cuda.cu"
#include "tests/cudahost/kit_device.h"

extern "C" {
#include "examples/gpt/model.h"
#include "tests/cudahost/gpt_vectors.h"
}

#ifdef __SANITIZE_THREAD__ /* each thread of a kernel costs about 1 ms */
enum { SLOW = 1 };
#else
enum { SLOW = 0 };
#endif

static std::vector<uint64_t> check_vectors(enum ops_precision p, struct gpt_shape s)
{
    uint64_t hash = 0;
    CHECK_INT(gpt_vectors(&ops_cuda, p, &s, &hash, 0), 0);
    return {hash};
}

TEST(rows_in_fp32)
{
    check_vectors(OPS_FP32, {3, 11, SLOW ? 16 : 48, 0});
}

TEST(rows_in_bf16)
{
    check_vectors(OPS_BF16, {3, 11, SLOW ? 16 : 48, 0});
}

TEST(one_row_and_1000_columns)
{
    if (SLOW)
        return;
    check_vectors(OPS_FP32, {1, 1, 16, 0});
    check_vectors(OPS_BF16, {1, 31, 1000, 0});
}

TEST(attention_over_several_blocks_and_tiles)
{
    check_vectors(OPS_FP32, {1, 70, 16, 1});
    check_vectors(OPS_BF16, {1, 70, 16, 1});
}

TEST(attention_of_several_sequences_and_heads)
{
    for (int T : {1, 31, 33}) {
        if (SLOW && T != 31)
            continue;
        check_vectors(OPS_FP32, {2, T, 64, 2});
        check_vectors(OPS_BF16, {2, T, 64, 2});
    }
}

TEST(attention_with_large_heads)
{
    for (int D : {64, 128}) {
        check_vectors(OPS_FP32, {1, SLOW ? 17 : 65, D, 1});
        check_vectors(OPS_BF16, {1, SLOW ? 17 : 65, D, 1});
    }
}

TEST(ten_orders_of_the_threads_give_the_same_bits)
{
    for (int heads : {0, 1})
        for (enum ops_precision p : {OPS_FP32, OPS_BF16})
            if (!SLOW)
                kit_check_orders([=] { return check_vectors(p, {1, 33, 16, heads}); });
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Trains for some steps on text that repeats -> the loss of each step. */
static std::vector<double> losses(const struct ops_backend *be, enum ops_precision p, int recompute)
{
    enum { B = 2, T = 24, STEPS = 3 };
    struct model m = {};
    char why[256];
    m.c = {2, 32, 2, T, recompute, p};
    m.ops = be;
    CHECK(be->open(&m.dev, 0, p, why, sizeof why) == 0 && model_open(&m, 1) == 0 && model_reserve(&m, B) == 0);
    std::vector<float> packed(m.params), padded(m.size);
    model_init(&m, 1, packed.data());
    for (size_t b = 0, at = 0; b < (size_t)m.buckets; at += m.bucket[b++].n)
        std::copy_n(&packed[at], m.bucket[b].n, &padded[m.bucket[b].at]);
    float *state = (float *)be->alloc(m.dev, (3 * m.size + 1) * sizeof(float)), *sum = state + 3 * m.size;
    float *master = p == OPS_FP32 ? (float *)m.w : state, *m1 = state + m.size, *m2 = m1 + m.size;
    std::vector<uint8_t> token(B * T), target(B * T);
    for (size_t i = 0; i < token.size(); i++)
        token[i] = (uint8_t)("abracadabra "[i % 12]), target[i] = (uint8_t)("abracadabra "[(i + 1) % 12]);
    uint8_t *in = (uint8_t *)be->alloc(m.dev, token.size()), *out = (uint8_t *)be->alloc(m.dev, token.size());
    be->put(m.dev, master, padded.data(), m.size * sizeof(float));
    be->put(m.dev, in, token.data(), token.size());
    be->put(m.dev, out, target.data(), target.size());
    struct ops_adamw a = {0, 0, 0.9f, 0.95f, 1e-8f, 1, 1};
    be->adamw(m.dev, m.w, master, m1, m2, m.g, m.size, &a); /* rounds the weights, and changes nothing else */
    a.lr = 0.01f;
    std::vector<double> all;
    for (a.t = 1; a.t <= STEPS; a.t++) {
        float loss = 0;
        be->zero(m.dev, m.g, m.size * sizeof(float));
        be->zero(m.dev, sum, sizeof *sum);
        model_forward(&m, in, B);
        model_loss(&m, sum, out, B, 1.0f / (B * T));
        model_backward(&m, in, B);
        be->adamw(m.dev, m.w, master, m1, m2, m.g, m.size, &a);
        if (be->get(m.dev, &loss, sum, sizeof loss) < 0)
            FAIL("%s", be->info(m.dev)->error);
        all.push_back(loss);
    }
    be->release(m.dev, in);
    be->release(m.dev, out);
    be->release(m.dev, state);
    model_close(&m);
    be->close(m.dev);
    return all;
}

static void check_model(enum ops_precision p, double tolerance)
{
    std::vector<double> cpu = losses(&ops_cpu, p, 0), gpu = losses(&ops_cuda, p, 0);
    CHECK(cpu.back() < cpu.front() - 0.5);
    for (size_t i = 0; i < cpu.size(); i++)
        CHECK_NEAR(gpu[i], cpu[i], tolerance);
    CHECK(losses(&ops_cuda, p, 1) == gpu);
}

TEST(the_model_has_the_same_losses_as_on_the_cpu_and_recomputation_the_same_bits)
{
    if (!SLOW)
        check_model(OPS_FP32, 1e-4);
}

TEST(the_model_has_the_same_losses_as_on_the_cpu_in_bf16)
{
    if (!SLOW)
        check_model(OPS_BF16, 3e-2);
}

/* ---- errors and streams --------------------------------------------------------------------- */

TEST(an_error_names_the_operation_and_stays)
{
    char why[256];
    struct ops *o;
    CHECK(ops_cuda.open(&o, 0, OPS_BF16, why, sizeof why) == 0);
    char *p = (char *)ops_cuda.alloc(o, 4096);
    CHECK_INT(ops_cuda.wait(o), 0);
    ops_cuda.attend(o, p, (float *)p, p, 1, 1, 48, 1);
    ops_cuda.norm(o, p + 64, (float *)p + 64, p, NULL, p, p, 1, 16); /* is right */
    CHECK_INT(ops_cuda.wait(o), -1);
    CHECK_STR(ops_cuda.info(o)->error, "attend: heads must have 16, 32, 64 or 128 channels");
    ops_cuda.release(o, p);
    ops_cuda.close(o);
}

TEST(a_collective_on_the_second_stream_is_ordered_by_events)
{
    enum { N = 1000 };
    char why[256];
    struct ops *o;
    CHECK(ops_cuda.open(&o, 0, OPS_FP32, why, sizeof why) == 0);
    float *x = (float *)ops_cuda.alloc(o, N * sizeof(float)), *from = (float *)ops_cuda.alloc_host(o, N * sizeof(float));
    for (int i = 0; i < N; i++)
        from[i] = (float)i;
    ops_cuda.put(o, x, from, N * sizeof(float));
    ops_cuda.mark(o, 0, 0);
    ops_cuda.order(o, 1);
    LAUNCH(sum_values, 1, THREADS, (cudaStream_t)ops_cuda.info(o)->comm_stream, x, x + 1, (size_t)(N - 1), 0, 0, 2.0f);
    ops_cuda.mark(o, 1, 1);
    ops_cuda.order(o, 0);
    float got = 0;
    CHECK_INT(ops_cuda.get(o, &got, x, sizeof got), 0);
    CHECK_NEAR(got, N * (N - 1), 1);
    CHECK(ops_cuda.between(o, 0, 1) >= 0);
    from[0] = 7; /* get() has waited */
    ops_cuda.release(o, x);
    ops_cuda.release_host(o, from);
    ops_cuda.close(o);
}
