/* The operations of examples/gpt on a GPU: against double at awkward sizes, and the whole model against the CPU's. Rows
 * and tiles end in the middle: blocks have 16 to 64 rows, and tiles of attention 16 or 32. */
#include "examples/gpt/gpt_cuda.cu"
#include "tests/cudahost/kit_device.h"

extern "C" {
#include "examples/gpt/model.h"
#include "tests/cudahost/attend_host.h"
#include "tests/cudahost/gpt_attention.h"
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

/* A device whose dx of a layer after a GELU has an error of `slope_error`, as cuBLASLt's tanh has. */
static double slope_error;
static struct ops_info h100;

static const struct ops_info *info_of_an_h100(const struct ops *o)
{
    h100 = *ops_cuda.info(o);
    snprintf(h100.name, sizeof h100.name, "NVIDIA H100");
    return &h100;
}

static void linear_back_less_exact(struct ops *o, act *dx, float *dw, float *dbias, const act *dy, const act *z,
                                   const act *x, const act *w, int R, int I, int O)
{
    ops_cuda.linear_back(o, dx, dw, dbias, dy, z, x, w, R, I, O);
    if (!z)
        return;
    std::vector<float> v((size_t)R * (size_t)I);
    CHECK_INT(ops_cuda.get(o, v.data(), dx, 4 * v.size()), 0);
    double square = 0;
    for (float f : v)
        square += (double)f * (double)f;
    for (float &f : v) /* an error is relative to the number, or to the typical number if that is larger */
        f += (float)(slope_error * std::max(fabs((double)f), sqrt(square / (double)v.size())));
    CHECK_INT(ops_cuda.put(o, dx, v.data(), 4 * v.size()), 0);
    CHECK_INT(ops_cuda.wait(o), 0); /* v ends here */
}

static int wrong_with(double error, int on_an_h100)
{
    struct ops_backend be = ops_cuda;
    struct gpt_shape s = {3, 11, 16, 0};
    uint64_t hash;
    slope_error = error;
    be.linear_back = linear_back_less_exact;
    if (on_an_h100)
        be.info = info_of_an_h100;
    return gpt_vectors(&be, OPS_FP32, &s, &hash, 0);
}

TEST(the_slope_of_gelu_may_be_as_inexact_as_cublaslt_has_it_on_a_gpu_only)
{
    CHECK_INT(wrong_with(3.2e-5, 1), 0);
    CHECK_INT(wrong_with(2e-4, 1), 1);
    CHECK_INT(wrong_with(3.2e-5, 0), 1);
}

TEST(a_vocabulary_that_is_no_multiple_of_8_and_one_of_16_bits)
{
    for (int V : {9, 257, 1030, 65536})
        for (enum ops_precision p : {OPS_FP32, OPS_BF16})
            if (!SLOW)
                check_vectors(p, {2, V > 1030 ? 20 : 300, 16, 0, OPS_ATTEND_OWN, 0, V});
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
    enum { B = 2, T = 24, V = 250, STEPS = 3 };
    struct model m = {};
    char why[256];
    m.c = {2, 32, 2, T, V, recompute, p};
    m.ops = be;
    CHECK(be->open(&m.dev, 0, p, why, sizeof why) == 0 && model_open(&m, 1) == 0 && model_reserve(&m, B) == 0);
    std::vector<float> packed(m.params), padded(m.size);
    model_init(&m, 1, packed.data());
    for (size_t b = 0, at = 0; b < (size_t)m.buckets; at += m.bucket[b++].n)
        std::copy_n(&packed[at], m.bucket[b].n, &padded[m.bucket[b].at]);
    float *state = (float *)be->alloc(m.dev, (3 * m.size + 1) * sizeof(float)), *sum = state + 3 * m.size;
    float *master = p == OPS_FP32 ? (float *)m.w : state, *m1 = state + m.size, *m2 = m1 + m.size;
    std::vector<uint16_t> token(B * T), target(B * T);
    for (size_t i = 0; i < token.size(); i++)
        token[i] = (uint16_t)("abracadabra "[i % 12]), target[i] = (uint16_t)("abracadabra "[(i + 1) % 12]);
    const size_t bytes = token.size() * sizeof token[0];
    uint16_t *in = (uint16_t *)be->alloc(m.dev, bytes), *out = (uint16_t *)be->alloc(m.dev, bytes);
    be->put(m.dev, master, padded.data(), m.size * sizeof(float));
    be->put(m.dev, in, token.data(), bytes);
    be->put(m.dev, out, target.data(), bytes);
    struct ops_adamw a = {0, 0, 0.9f, 0.95f, 1e-8f, 1, 1, {}};
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

/* ---- attention by cuDNN: attend_host computes it ------------------------------------------------ */

/* The library next to this program, as new. NULL: this is another sanitizer's, which does not see what it does. */
static struct attend_host *attend_of_host(void)
{
    char why[200];
    const struct attend_cudnn_library *l = attend_load(why, sizeof why);
    Dl_info info;
    if (SLOW || !l || !dladdr(l, &info))
        return NULL;
    struct attend_host *h = (struct attend_host *)dlsym(dlopen(info.dli_fname, RTLD_NOW), ATTEND_HOST_SYMBOL);
    *h = {};
    return h;
}

static struct ops *open_in(enum ops_precision p)
{
    char why[256];
    struct ops *o;
    CHECK(ops_cuda.open(&o, 0, p, why, sizeof why) == 0);
    return o;
}

static size_t used(struct ops *o)
{
    size_t bytes, total;
    ops_cuda.memory(o, &bytes, &total);
    return bytes;
}

/* Runs both passes of zeros. Returns what wait() returns. */
static int pass(struct ops *o, int B, int T, int C, int H)
{
    size_t n = (size_t)B * T * C;
    char *p = (char *)ops_cuda.alloc(o, 12 * n * 4 + (size_t)B * H * T * 4);
    act *qkv = p, *y = p + 6 * n, *dy = p + 8 * n, *dqkv = p + 10 * n;
    float *lse = (float *)(p + 48 * n);
    ops_cuda.attend(o, y, lse, qkv, B, T, C, H);
    ops_cuda.attend_back(o, dqkv, dy, y, lse, qkv, B, T, C, H);
    int rc = ops_cuda.wait(o);
    ops_cuda.release(o, p);
    return rc;
}

TEST(cudnn_gets_the_arrays_of_ops_and_its_results_are_used)
{
    struct attend_host *h = attend_of_host();
    if (!h)
        return;
    check_vectors(OPS_BF16, {2, 31, 64, 2, OPS_ATTEND_SAME_BITS});
    check_vectors(OPS_BF16, {2, 33, 48, 1, OPS_ATTEND_FAST}); /* a size of heads that the own kernels do not have */
    check_vectors(OPS_BF16, {1, 64, 32, 1, OPS_ATTEND_SAME_BITS, 1});
    CHECK_INT(h->runs, 6);
    CHECK_INT(h->opens, 3);
    CHECK_INT(h->closes, 3);
    check_vectors(OPS_FP32, {2, 31, 64, 2});
    check_vectors(OPS_BF16, {2, 31, 64, 2, OPS_ATTEND_OWN, 1});
    CHECK_INT(h->opens, 3);
}

TEST(a_shape_is_planned_once_and_one_workspace_is_of_the_device)
{
    struct attend_host *h = attend_of_host();
    if (!h)
        return;
    struct ops *o = open_in(OPS_BF16);
    size_t before = used(o);
    CHECK_INT(ops_cuda.attend_with(o, OPS_ATTEND_SAME_BITS, 4, 64, 64, 2), 0);
    CHECK_STR(ops_cuda.info(o)->attention, "cuDNN 9.19.0, deterministic");
    CHECK_INT(used(o) - before, ATTEND_HOST_WORKSPACE(4, 64, 2));
    for (int i = 0; i < 3; i++)
        CHECK_INT(pass(o, 4, 64, 64, 2), 0);
    CHECK_INT(h->plans, 2);
    CHECK_INT(h->runs, 6);
    CHECK(h->last.deterministic && h->last.backward && h->last.D == 32);
    CHECK_INT(pass(o, 3, 64, 64, 2), 0); /* the last batch of a validation */
    CHECK_INT(h->plans, 4);
    CHECK_INT(h->runs, 8);
    CHECK_INT(ops_cuda.attend_with(o, OPS_ATTEND_FAST, 1, 64, 64, 2), 0);
    CHECK_STR(ops_cuda.info(o)->attention, "cuDNN 9.19.0");
    CHECK_INT(used(o) - before, ATTEND_HOST_WORKSPACE(1, 64, 2));
    CHECK_INT(pass(o, 1, 64, 64, 2), 0);
    CHECK(!h->last.deterministic);
    CHECK_INT(ops_cuda.attend_with(o, OPS_ATTEND_OWN, 1, 64, 64, 2), 0);
    CHECK_INT(used(o), before);
    ops_cuda.close(o);
}

TEST(without_memory_for_the_workspace_the_batch_does_not_fit)
{
    if (!attend_of_host())
        return;
    setenv("FAKE_GPU_MEMORY", "268435456", 1); /* the rest of it is allocated, and written, below */
    struct ops *o = open_in(OPS_BF16);
    size_t bytes, total;
    ops_cuda.memory(o, &bytes, &total);
    void *most = ops_cuda.alloc(o, total - bytes - ATTEND_HOST_WORKSPACE(2, 64, 2));
    CHECK(most);
    CHECK_INT(ops_cuda.attend_with(o, OPS_ATTEND_SAME_BITS, 4, 64, 64, 2), -1);
    CHECK_INT(ops_cuda.attend_with(o, OPS_ATTEND_SAME_BITS, 2, 64, 64, 2), 0);
    CHECK_INT(ops_cuda.wait(o), 0);
    ops_cuda.release(o, most);
    ops_cuda.close(o);
}

TEST(what_cudnn_refuses_the_own_kernels_compute_and_the_reason_is_there)
{
    struct attend_host *h = attend_of_host();
    if (!h)
        return;
    struct ops *o = open_in(OPS_BF16);
    CHECK_INT(ops_cuda.attend_with(o, OPS_ATTEND_SAME_BITS, 2, 1, 64, 2), 0);
    CHECK_STR(ops_cuda.info(o)->attention, "own kernels: cuDNN needs 2 tokens or more");
    CHECK_INT(pass(o, 2, 1, 64, 2), 0);
    CHECK_INT(h->runs, 0);
    ops_cuda.close(o);
    h->refuse = "cuDNN: No valid engine configs";
    o = open_in(OPS_BF16);
    CHECK_INT(ops_cuda.attend_with(o, OPS_ATTEND_SAME_BITS, 2, 16, 64, 2), 0);
    CHECK_STR(ops_cuda.info(o)->attention, "own kernels: cuDNN: No valid engine configs");
    CHECK_INT(pass(o, 2, 16, 64, 2), 0);
    CHECK_INT(h->runs, 0);
    ops_cuda.close(o);
    h->refuse = NULL;
    o = open_in(OPS_FP32);
    CHECK_INT(ops_cuda.attend_with(o, OPS_ATTEND_SAME_BITS, 2, 16, 64, 2), 0);
    CHECK_STR(ops_cuda.info(o)->attention, ""); /* there is no choice */
    CHECK_INT(pass(o, 2, 16, 64, 2), 0);
    CHECK_INT(h->runs, 0);
    ops_cuda.close(o);
}

TEST(an_error_of_cudnn_while_it_computes_is_one_of_the_run)
{
    struct attend_host *h = attend_of_host();
    if (!h)
        return;
    struct ops *o = open_in(OPS_BF16);
    CHECK_INT(ops_cuda.attend_with(o, OPS_ATTEND_SAME_BITS, 2, 16, 64, 2), 0);
    h->break_run = "cuDNN: CUDNN_STATUS_EXECUTION_FAILED";
    CHECK_INT(pass(o, 2, 16, 64, 2), -1);
    CHECK_STR(ops_cuda.info(o)->error, "attend: cuDNN: CUDNN_STATUS_EXECUTION_FAILED");
    ops_cuda.close(o);
}

TEST(the_model_trains_with_it_as_with_the_own_kernels)
{
    struct attend_host *h = attend_of_host();
    if (!h)
        return;
    std::vector<double> by_cudnn = losses(&ops_cuda, OPS_BF16, 0);
    CHECK(h->runs == 2 * 2 * 3); /* layers, passes, steps */
    h->refuse = "no";
    std::vector<double> by_own = losses(&ops_cuda, OPS_BF16, 0);
    CHECK_INT(h->runs, 2 * 2 * 3);
    for (size_t i = 0; i < by_own.size(); i++)
        CHECK_NEAR(by_cudnn[i], by_own[i], 1e-2);
}

TEST(the_measurement_of_attention_finds_what_is_wrong)
{
    struct attend_host *h = attend_of_host();
    if (!h)
        return;
    struct gpt_attention_shape s = {1, 40, 2, 16};
    CHECK_INT(gpt_attention(&ops_cuda, &s, 2), 0);
    CHECK_INT(h->runs, 2 * 2 * 3);
    h->spoil = 1;
    CHECK_INT(gpt_attention(&ops_cuda, &s, 2), 3); /* both plans are wrong, and the bits change */
    h->spoil = 0;
    h->refuse = "no";
    CHECK_INT(gpt_attention(&ops_cuda, &s, 2), 0);
    h->refuse = NULL;
    h->break_run = "broken";
    CHECK_INT(gpt_attention(&ops_cuda, &s, 2), -1);
}

TEST(cudnn_takes_what_it_is_known_to_compute_right)
{
    static const struct {
        int version, sm;
        struct attend_shape s;
        const char *why;
    } rows[] = {
        {91900, 90, {16, 1024, 12, 64, 1, 1}, NULL},
        {91801, 80, {1, 2, 1, 8, 1, 1}, NULL},
        {91801, 100, {1, 65536, 65535, 128, 1, 1}, NULL},
        {92801, 120, {1, 64, 1, 64, 1, 0}, NULL},
        {92801, 121, {1, 64, 1, 64, 0, 1}, NULL},
        {91800, 90, {1, 64, 1, 64, 0, 0}, "cuDNN 9.18.0 is older than 9.18.1"},
        {90501, 90, {1, 64, 1, 64, 0, 0}, "cuDNN 9.5.1 is older than 9.18.1"},
        {91900, 75, {1, 64, 1, 64, 0, 0}, "cuDNN needs compute capability 8.0, not 7.5"},
        {91900, 90, {1, 64, 1, 20, 0, 0}, "cuDNN needs heads of a multiple of 8 up to 128 channels, not 20"},
        {91900, 90, {1, 64, 1, 136, 0, 0}, "cuDNN needs heads of a multiple of 8 up to 128 channels, not 136"},
        {91900, 90, {1, 1, 1, 64, 0, 0}, "cuDNN needs 2 tokens or more"},
        {91900, 90, {65536, 64, 1, 64, 0, 0}, "cuDNN needs at most 65535 sequences and heads"},
        {91900, 90, {1, 64, 65536, 64, 0, 0}, "cuDNN needs at most 65535 sequences and heads"},
        {92801, 120, {1, 64, 1, 64, 1, 1},
         "on compute capability 12.0 cuDNN's gradients are not known to have the same bits on each run (try: --deterministic=off)"},
    };
    for (const auto &r : rows) {
        char why[200] = "";
        CHECK_INT(attend_cudnn_takes(r.version, r.sm, &r.s, why, sizeof why), !r.why);
        CHECK_STR(why, r.why ? r.why : "");
    }
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
