/* The kernels of examples/digits: against double, and the back end against that of the CPU. */
#include "examples/digits/mlp_cuda.cu"
#include "tests/cudahost/kit_device.h"

static double activation(double z)
{
    return 0.5 * z * (1 + tanh(0.7978845608 * (z + 0.044715 * z * z * z)));
}

static const int sizes[][2] = {{1, 1}, {1, 31}, {3, 33}, {5, 64}, {2, 1000}, {257, 1}};

TEST(gelu_and_its_slope_at_awkward_sizes)
{
    for (auto &s : sizes) {
        size_t n = (size_t)s[0] * (size_t)s[1];
        std::vector<float> z = kit_floats(n);
        on_device<float> dz(z), a(n), delta(std::vector<float>(n, 1));
        on_device<int> sample(std::vector<int>((size_t)s[0], 4));
        LAUNCH(activate_all, blocks(n), THREADS, kit_stream(), a, dz, sample, n, s[1], MLP_GELU, 0,
               7);
        LAUNCH(slope_all, blocks(n), THREADS, kit_stream(), delta, dz, sample, n, s[1], MLP_GELU, 0,
               7);
        std::vector<float> got = a.get(), slope = delta.get();
        for (size_t i = 0; i < n; i++) {
            double x = z[i], h = 1e-4;
            CHECK_NEAR(got[i], activation(x), 1e-6);
            CHECK_NEAR(slope[i], (activation(x + h) - activation(x - h)) / (2 * h), 1e-5);
        }
    }
}

TEST(dropout_keeps_the_mean_and_the_slope_has_the_same_mask)
{
    size_t rows = 100, width = 33, n = rows * width;
    std::vector<int> samples(rows);
    for (size_t i = 0; i < rows; i++)
        samples[i] = (int)i;
    on_device<float> z(std::vector<float>(n, 1)), a(n), delta(std::vector<float>(n, 1));
    on_device<int> sample(samples);
    LAUNCH(activate_all, blocks(n), THREADS, kit_stream(), a, z, sample, n, (int)width, MLP_RELU,
           0.25f, 7);
    LAUNCH(slope_all, blocks(n), THREADS, kit_stream(), delta, z, sample, n, (int)width, MLP_RELU,
           0.25f, 7);
    std::vector<float> got = a.get(), slope = delta.get();
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK(got[i] == slope[i]);
        sum += got[i];
    }
    CHECK_NEAR(sum / (double)n, 1, 0.05);
}

TEST(the_loss_and_its_gradient_are_those_of_a_softmax)
{
    for (auto &s : sizes) {
        int rows = s[0], classes = s[1];
        size_t n = (size_t)rows * (size_t)classes;
        std::vector<float> z = kit_floats(n);
        std::vector<int> label((size_t)rows);
        for (int i = 0; i < rows; i++)
            label[(size_t)i] = i * 7 % classes;
        on_device<float> dz(z), delta(n), loss((size_t)rows);
        on_device<int> right((size_t)rows), labels(label);
        LAUNCH(loss_rows, blocks((size_t)rows), THREADS, kit_stream(), delta, loss, right, dz,
               labels, rows, classes, 0.1f, 0.5f);
        std::vector<float> d = delta.get(), l = loss.get();
        std::vector<int> r = right.get();
        for (int i = 0; i < rows; i++) {
            const float *row = &z[(size_t)(i * classes)];
            double sum = 0, total = 0;
            int best = 0;
            for (int j = 0; j < classes; j++) {
                sum += exp((double)row[j]);
                best = row[j] > row[best] ? j : best;
            }
            for (int j = 0; j < classes; j++) {
                double target = 0.1 / classes + (j == label[(size_t)i] ? 0.9 : 0);
                total += target * (log(sum) - row[j]);
                CHECK_NEAR(d[(size_t)(i * classes + j)], (exp((double)row[j]) / sum - target) * 0.5,
                           1e-6);
            }
            CHECK_NEAR(l[(size_t)i], total, 1e-5);
            CHECK_INT(r[(size_t)i], best == label[(size_t)i]);
        }
    }
}

TEST(sums_over_columns_and_losses)
{
    for (auto &s : sizes) {
        size_t rows = (size_t)s[0], width = (size_t)s[1];
        std::vector<float> v = kit_floats(rows * width);
        on_device<float> dv(v), out(width), one(1);
        LAUNCH(sum_columns, blocks(width), THREADS, kit_stream(), out, dv, s[0], s[1]);
        LAUNCH(sum_losses, 1, 1, kit_stream(), one, dv, (int)(rows * width), 2.0f);
        std::vector<float> got = out.get();
        double all = 0;
        for (size_t j = 0; j < width; j++) {
            double sum = 0;
            for (size_t i = 0; i < rows; i++)
                sum += v[i * width + j];
            CHECK_NEAR(got[j], sum, 1e-4);
            all += sum;
        }
        CHECK_NEAR(one.get()[0], 2 * all, 1e-4);
    }
}

static const struct mlp_config config = {
    3, {64, 33, 20, 10}, MLP_GELU, MLP_ADAMW, 0, .01f, .3f, .1f, 3, 17, 0};

/* Returns the state after three steps, and the loss and the number of correct samples. */
static std::vector<float> train(const struct mlp_backend *b, const struct mlp_config *c)
{
    struct mlp *m;
    char why[200];
    size_t n = mlp_params(c);
    std::vector<float> x = kit_floats(17 * 64), state = kit_floats(3 * n, 5);
    std::vector<int> label(17), sample(17);
    for (int i = 0; i < 17; i++) {
        label[(size_t)i] = i * 3 % 10;
        sample[(size_t)i] = i * 7;
    }
    for (size_t i = 0; i < 3 * n; i++)
        state[i] = i < n ? state[i] * .1f : 0;
    if (b->open(&m, c, why, sizeof why) < 0)
        FAIL("%s", why);
    CHECK_INT(b->load(m, state.data()), 0);
    struct mlp_batch batch = {x.data(), label.data(), sample.data(), 17, 1, 1 / 17.f};
    for (int step = 1; step <= 3; step++) {
        CHECK_INT(b->gradient(m, &batch), 0);
        CHECK_INT(b->update(m, .01f, step), 0);
    }
    double loss;
    int right;
    CHECK_INT(b->save(m, state.data()), 0);
    CHECK_INT(b->evaluate(m, &batch, &loss, &right), 0);
    b->close(m);
    state.push_back((float)loss);
    state.push_back((float)right);
    return state;
}

static void compare(const struct mlp_config *c)
{
    std::vector<float> cpu = train(&mlp_cpu, c), cuda = train(&mlp_cuda, c);
    for (size_t i = 0; i < cpu.size(); i++)
        CHECK_NEAR(cuda[i], cpu[i], 1e-5);
}

TEST(three_steps_change_the_weights_as_on_the_cpu_adamw)
{
    compare(&config);
}

TEST(three_steps_change_the_weights_as_on_the_cpu_momentum)
{
    struct mlp_config c = config;
    c.optimizer = MLP_MOMENTUM;
    c.activation = MLP_TANH;
    c.momentum = .9f;
    compare(&c);
}

TEST(the_order_of_the_threads_changes_no_bit)
{
    kit_check_orders([] { return train(&mlp_cuda, &config); });
}
