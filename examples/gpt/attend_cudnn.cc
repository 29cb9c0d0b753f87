/* cuDNN's attention by its graph API: a graph of one operation, forward or backward, becomes a plan
 * for one shape. The frontend is a library of headers; it reports errors as values, and throws if
 * libcudnn lacks a function. Nothing of that leaves this file. */
#include "attend_cudnn.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define NV_CUDNN_FRONTEND_DISABLE_LOGGING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

namespace fe = cudnn_frontend;

void *cudnn_frontend::cudnn_dlhandle;

#define CUDA_MAJOR (CUDART_VERSION < 13000 ? "12" : "13")
#define CUDART (CUDART_VERSION < 13000 ? "libcudart.so.12" : "libcudart.so.13")
/* The frontend asks the CUDA runtime whether a stream is captured, and would take the oldest one
 * that it finds. This variable of the environment names another. */
static const char CUDART_VARIABLE[] = "CUDNN_FRONTEND_CUDART_LIB_NAME";

/* Numbers of the tensors of a graph, by which run() gives their addresses. */
enum { Q = 1, K, V, Y, LSE, DY, DQ, DK, DV };

struct plan {
    struct attend_shape of;
    std::unique_ptr<fe::graph::Graph> graph;
};

struct attend_cudnn {
    int sm, version;
    cudnnHandle_t handle; /* NULL: there is only `device` */
    std::shared_ptr<fe::DeviceProperties> device;
    std::vector<plan> plans;
};

typedef std::shared_ptr<fe::graph::Tensor_attributes> tensor;

/* Writes the first line of `text`. */
static int refuse(char *why, size_t why_size, int code, const std::string &text)
{
    snprintf(why, why_size, "%s", text.substr(0, text.find('\n')).c_str());
    return code;
}

/* Calls f, which returns a code, and turns an exception into one. */
template <typename F> static int guard(char *why, size_t why_size, int code, F f)
{
    try {
        return f();
    } catch (const std::exception &e) {
        return refuse(why, why_size, code, std::string("cuDNN: ") + e.what());
    }
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* Dimensions of a tensor are always (B, H, T, D); a row of memory has `width` numbers. */
static void lay_out(const struct attend_shape *s, fe::graph::Tensor_attributes &t, int uid,
                    int64_t width)
{
    t.set_dim({s->B, s->H, s->T, s->D}).set_stride({s->T * width, s->D, width, 1}).set_uid(uid);
}

static tensor input(fe::graph::Graph &g, const struct attend_shape *s, const char *name, int uid,
                    int64_t width)
{
    tensor t = g.tensor(fe::graph::Tensor_attributes().set_name(name));
    lay_out(s, *t, uid, width);
    return t;
}

static void lay_out_statistics(const struct attend_shape *s, fe::graph::Tensor_attributes &t)
{
    t.set_dim({s->B, s->H, s->T, 1}).set_stride({(int64_t)s->H * s->T, s->T, 1, 1});
    t.set_uid(LSE).set_data_type(fe::DataType_t::FLOAT);
}

static void describe(fe::graph::Graph &g, const struct attend_shape *s)
{
    const int64_t C = (int64_t)s->H * s->D;
    const float scale = 1 / sqrtf((float)s->D);
    tensor q = input(g, s, "q", Q, 3 * C), k = input(g, s, "k", K, 3 * C),
           v = input(g, s, "v", V, 3 * C);
    if (!s->backward) {
        auto [y, lse] = g.sdpa(q, k, v,
                               fe::graph::SDPA_attributes()
                                   .set_name("attend")
                                   .set_attn_scale(scale)
                                   .set_generate_stats(true)
                                   .set_causal_mask(true));
        lay_out(s, y->set_output(true), Y, C);
        lay_out_statistics(s, lse->set_output(true));
        return;
    }
    tensor y = input(g, s, "y", Y, C), dy = input(g, s, "dy", DY, C);
    tensor lse = g.tensor(fe::graph::Tensor_attributes().set_name("lse"));
    lay_out_statistics(s, *lse);
    auto [dq, dk, dv] = g.sdpa_backward(q, k, v, y, dy, lse,
                                        fe::graph::SDPA_backward_attributes()
                                            .set_name("attend_back")
                                            .set_attn_scale(scale)
                                            .set_causal_mask(true)
                                            .set_deterministic_algorithm(s->deterministic));
    lay_out(s, dq->set_output(true), DQ, 3 * C);
    lay_out(s, dk->set_output(true), DK, 3 * C);
    lay_out(s, dv->set_output(true), DV, 3 * C);
}

/* Makes the plan that cuDNN's heuristics prefer. */
static fe::error_t build(const struct attend_cudnn *a, fe::graph::Graph &g,
                         const struct attend_shape *s)
{
    g.set_io_data_type(fe::DataType_t::BFLOAT16).set_intermediate_data_type(fe::DataType_t::FLOAT);
    g.set_compute_data_type(fe::DataType_t::FLOAT).set_sm_version(a->sm);
    if (a->device)
        g.set_device_properties(a->device);
    describe(g, s);
    fe::error_t e = g.validate();
    if (e.is_good())
        e = g.build_operation_graph(a->handle);
    if (e.is_good())
        e = g.create_execution_plans({fe::HeurMode_t::A});
    if (e.is_good() && s->deterministic)
        g.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
    if (e.is_good())
        e = g.check_support();
    return e.is_good() ? g.build_plans() : e;
}

/* ---- the library ---------------------------------------------------------------------------- */

static void cudnn_close(struct attend_cudnn *a)
{
    if (!a)
        return;
    char unused[8];
    (void)guard(unused, sizeof unused, 0, [&] {
        a->plans.clear();
        return a->handle ? (int)fe::detail::destroy_handle(a->handle) : 0;
    });
    delete a;
}

static int open_device(struct attend_cudnn *a, void *stream, const char *description, char *why,
                       size_t why_size)
{
    if (description) {
        std::string text = description;
        a->device = std::make_shared<fe::DeviceProperties>();
        fe::error_t e = a->device->deserialize({text.begin(), text.end()});
        return e.is_bad() ? refuse(why, why_size, -ENOTSUP, "cuDNN: " + e.get_message()) : 0;
    }
    cudnnStatus_t rc = fe::detail::create_handle(&a->handle);
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = fe::detail::set_stream(a->handle, (cudaStream_t)stream);
    return rc == CUDNN_STATUS_SUCCESS
               ? 0
               : refuse(why, why_size, -ENOTSUP,
                        std::string("cudnnCreate: ") + fe::detail::get_error_string(rc));
}

static int load_libraries(char *why, size_t why_size)
{
    setenv(CUDART_VARIABLE, CUDART, 0);
    for (const char *name : {(const char *)getenv(CUDART_VARIABLE), "libcudnn.so.9"}) {
        fe::cudnn_dlhandle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (fe::cudnn_dlhandle)
            continue;
        std::string error = dlerror();
        if (error.find(std::string(name) + ": cannot open") == 0)
            error = std::string(name) +
                    " was not found (try: LD_LIBRARY_PATH, or pip install nvidia-cudnn-cu" +
                    CUDA_MAJOR + ")";
        return refuse(why, why_size, -ENOTSUP, error);
    }
    return 0;
}

static int cudnn_open(struct attend_cudnn **out, int sm, void *stream, const char *description,
                      char *why, size_t why_size)
{
    if (load_libraries(why, why_size) < 0)
        return -ENOTSUP;
    return guard(why, why_size, -ENOTSUP, [&] {
        struct attend_shape any = {1, 2, 1, 8, 0, 0};
        std::unique_ptr<attend_cudnn, void (*)(attend_cudnn *)> a(new attend_cudnn(), cudnn_close);
        a->sm = sm;
        a->version = (int)fe::detail::get_backend_version();
        if (!attend_cudnn_takes(a->version, sm, &any, why, why_size))
            return -ENOTSUP;
        int rc = open_device(a.get(), stream, description, why, why_size);
        if (rc == 0)
            *out = a.release();
        return rc;
    });
}

static int cudnn_version(const struct attend_cudnn *a)
{
    return a->version;
}

static int cudnn_plan(struct attend_cudnn *a, const struct attend_shape *s, size_t *workspace,
                      char *why, size_t why_size)
{
    if (!attend_cudnn_takes(a->version, a->sm, s, why, why_size))
        return -ENOTSUP;
    return guard(why, why_size, -ENOTSUP, [&] {
        plan p = {*s, std::make_unique<fe::graph::Graph>()};
        fe::error_t e = build(a, *p.graph, s);
        int64_t bytes = 0;
        if (e.is_good())
            e = p.graph->get_workspace_size(bytes);
        if (e.is_bad())
            return refuse(why, why_size, -ENOTSUP, "cuDNN: " + e.get_message());
        *workspace = (size_t)bytes;
        a->plans.push_back(std::move(p));
        return (int)a->plans.size() - 1;
    });
}

static int cudnn_run(struct attend_cudnn *a, int number, const struct attend_arrays *x,
                     void *workspace, char *why, size_t why_size)
{
    return guard(why, why_size, -EIO, [&] {
        const plan &p = a->plans[(size_t)number];
        const size_t C = (size_t)p.of.H * (size_t)p.of.D * 2; /* bytes */
        char *qkv = (char *)x->qkv, *dqkv = (char *)x->dqkv;  /* cuDNN does not write to qkv */
        std::unordered_map<int64_t, void *> at = {
            {Q, qkv}, {K, qkv + C}, {V, qkv + 2 * C}, {Y, x->y}, {LSE, x->lse}};
        if (p.of.backward) {
            at[DY] = (void *)x->dy;
            for (int i = 0; i < 3; i++)
                at[DQ + i] = dqkv + (size_t)i * C;
        }
        fe::error_t e = p.graph->execute(a->handle, at, workspace);
        return e.is_bad() ? refuse(why, why_size, -EIO, "cuDNN: " + e.get_message()) : 0;
    });
}

extern "C" __attribute__((visibility("default")))
const struct attend_cudnn_library attend_cudnn_library = {
    ATTEND_CUDNN_ABI, {CUDART, "libcudnn.so.9"}, cudnn_open, cudnn_close, cudnn_version, cudnn_plan,
    cudnn_run,
};
