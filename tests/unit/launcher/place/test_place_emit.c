#include "launcher/place/place_emit.h"

#include "tests/unit/launcher/place/kit_place.h"

static char *python[] = {(char *)"python3", (char *)"train.py", (char *)"--name", (char *)"it's",
                         NULL};

/* Returns what is printed for a job on two GPUs; the caller frees it. */
static char *emit_on(int count, bool mig, const char *program, const char *job, char **argv)
{
    struct place_gpu g[] = {kit_gpu(0, "NVIDIA A100 80GB PCIe", 80),
                            kit_gpu(1, "NVIDIA A100 80GB PCIe", 80)};
    g[0].mig = g[1].mig = mig;
    const struct place_choice c = {.gpus = {0, 1}, .count = count};
    AUTO(place_job) struct place_job *j = kit_job_of(job);
    AUTO(strbuf) struct strbuf b = {0};
    struct err e = {0};
    if (place_emit(&b, program, &(struct place_emit_job){j, g, &c, argv}, &e) < 0)
        FAIL("%s", e.text);
    return strbuf_take(&b);
}

TEST(a_command_is_printed_for_each_program)
{
    static char *binary[] = {(char *)"./train", NULL};
    static char *script[] = {(char *)"train.py", NULL};
    const struct {
        int count;
        bool mig;
        const char *program, *job;
        char **argv;
        const char *has;
    } cases[] = {
        {2, false, "docker", "framework: pytorch\n", python,
         "--gpus '\"device=GPU-0000,GPU-0001\"'"},
        {2, false, "docker", "framework: pytorch\n", python,
         " pytorch/pytorch:latest torchrun --nproc-per-node 2 train.py --name 'it'\\''s'\n"},
        {1, false, "docker", "framework: pytorch\n", python,
         " pytorch/pytorch:latest python3 train.py --name"},
        {1, false, "docker", "image: a/b:1\n", script, " a/b:1 python3 train.py\n"},
        {2, false, "docker", "image: a/b:1\n", binary, " a/b:1 mpirun -np 2 ./train\n"},
        {2, false, "docker", "framework: pytorch\n", binary, " mpirun -np 2 ./train\n"},
        {2, false, "docker", "framework: paddlepaddle\n", script,
         " paddlepaddle/paddle:latest python3 -m paddle.distributed.launch --nproc_per_node 2 "
         "train.py\n"},
        {2, false, "sbatch", "gpu_type: a100\n", binary,
         " --nodes 1 --ntasks-per-node 2 --gres gpu:a100:2 --wrap 'drover run -np 2 -- ./train'"},
        {1, false, "sbatch", "framework: x\n", binary, " --gres gpu:1 --wrap "},
        {2, false, "mpirun", "framework: x\n", binary,
         "mpirun -np 2 -x CUDA_VISIBLE_DEVICES=GPU-0000,GPU-0001 ./train\n"},
        {2, true, "mpirun", "framework: x\n", script,
         "mpirun -np 1 -x CUDA_VISIBLE_DEVICES=GPU-0000 python3 train.py : -np 1 -x "
         "CUDA_VISIBLE_DEVICES=GPU-0001 python3 train.py\n"},
        {2, false, "k8s", "framework: pytorch\n", python,
         "nvidia.com/gpu.product: \"NVIDIA-A100-80GB-PCIe\"\n"},
        {2, false, "k8s", "framework: pytorch\n", python, "            - \"it's\"\n"},
        {2, false, "k8s", "framework: pytorch\n", python, "nvidia.com/gpu: \"2\"\n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free)
        char *got =
            emit_on(cases[i].count, cases[i].mig, cases[i].program, cases[i].job, cases[i].argv);
        CHECK_HAS(got, cases[i].has);
    }
}

TEST(what_cannot_be_printed_is_an_error)
{
    static char *none[] = {NULL};
    const struct {
        const char *program;
        char **argv;
        const char *says, *hint;
    } cases[] = {{"docker", python, "no container image", "image: "},
                 {"k8s", python, "no container image", "image: "},
                 {"podman", python, "unknown program 'podman'", "docker"},
                 {"mpirun", none, "the command is missing", "drover place"}};
    const struct place_gpu g[] = {kit_gpu(0, "A", 80)};
    const struct place_choice c = {.count = 1};
    AUTO(place_job) struct place_job *j = kit_job_of("framework: own\n");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        struct err e = {0};
        const struct place_emit_job job = {j, g, &c, cases[i].argv};
        CHECK_INT(place_emit(&b, cases[i].program, &job, &e), -EINVAL);
        CHECK_HAS(e.text, cases[i].says);
        CHECK_HAS(e.hint, cases[i].hint);
    }
}
