#include "launcher/place/place_job.h"

#include "launcher/place/place_select.h"
#include "tests/unit/launcher/place/kit_place.h"

TEST(a_flat_file_is_read)
{
    AUTO(place_job)
    struct place_job *j = kit_job_of("framework: pytorch\ngpu_type: a100\nbatch_size: 256\n"
                                     "precision: fp16\ndistributed: true\n");
    CHECK_STR(j->framework, "pytorch");
    CHECK_STR(j->gpu_type, "a100");
    CHECK_INT(j->batch, 256);
    CHECK_INT(j->model.precision, ESTIMATE_FP16);
    CHECK_INT(j->gpus_min, 2);
    CHECK_INT(j->gpus_max, PLACE_GPUS_MAX);
    CHECK(!j->has_model);
    CHECK_INT(strv_len(j->notes), 1);
    CHECK_HAS(j->notes[0], "names no model");
}

TEST(a_file_with_sections_is_read)
{
    AUTO(place_job)
    struct place_job *j =
        kit_job_of("task: {type: training, framework: paddlepaddle, model_name: ernie-gram,\n"
                   "       sequence_length: 512, batch_size_per_gpu: 16, num_gpus_estimate: auto}\n"
                   "resource_policy: {memory_threshold: 0.85, allow_mixed_precision: true,\n"
                   "                  distributed_strategy: ddp,\n"
                   "                  preferred_devices: [A100-SXM4-40GB, V100-32GB, RTX_3090]}\n"
                   "scheduler: {algorithm: rl_based, timeout: 300}\n");
    CHECK_STR(j->framework, "paddlepaddle");
    CHECK(j->has_model);
    CHECK_INT(j->model.seq, 512);
    CHECK_INT(j->model.precision, ESTIMATE_FP16);
    CHECK_INT(j->model.zero, 0);
    struct estimate need;
    CHECK_INT(place_select_need(&need, j, 4, NULL), 0);
    CHECK_INT(need.o.batch, 16);
    CHECK_INT(j->gpus_min, 1);
    CHECK_INT(j->gpus_max, PLACE_GPUS_MAX);
    CHECK_INT(strv_len(j->preferred), 3);
    CHECK_STR(j->preferred[2], "RTX_3090");
    CHECK(j->memory_threshold > 0.849 && j->memory_threshold < 0.851);
    CHECK(j->timeout_s > 299 && j->timeout_s < 301);
    CHECK_INT(strv_len(j->notes), 1);
    CHECK_HAS(j->notes[0], "algorithm: rl_based has no effect");
}

TEST(the_keys_of_all_sections_are_read_at_the_top_too)
{
    AUTO(place_job)
    struct place_job *j = kit_job_of(
        "memory: 24G\nnum_gpus: 4\nexcluded_devices: 3\nlabels: [own, rack-a]\n"
        "shared: yes\nmixed_models: true\ngoal: performance\narrangement: spread\n"
        "timeout: 5m\ndistributed_strategy: fsdp\nimage: a/b:c\nrecompute: true\noffload: on\n"
        "offload_params: on\nloss: fused\n");
    CHECK_INT(j->memory_bytes, 24 * GIB);
    CHECK_INT(j->gpus_min, 4);
    CHECK_INT(j->gpus_max, 4);
    CHECK_STR(j->excluded[0], "3"); /* an index is a word */
    CHECK_INT(strv_len(j->labels), 2);
    CHECK(j->shared && j->mixed_models);
    CHECK_INT(j->goal, PLACE_PERFORMANCE);
    CHECK_INT(j->arrangement, PLACE_SPREAD);
    CHECK_INT(j->timeout_s, 300);
    CHECK_INT(j->model.zero, 3);
    CHECK(j->model.recompute && j->model.offload && j->model.offload_params);
    CHECK_INT(j->model.loss, ESTIMATE_LOSS_FUSED);
    CHECK_STR(j->image, "a/b:c");
    CHECK_INT(strv_len(j->notes), 0);
}

TEST(recompute_has_the_words_of_estimate_or_a_truth_value)
{
    AUTO(place_job) struct place_job *block = kit_job_of("recompute: block\n");
    AUTO(place_job) struct place_job *selective = kit_job_of("recompute: selective\n");
    AUTO(place_job) struct place_job *none = kit_job_of("recompute: false\n");
    CHECK(block->model.recompute && !block->model.selective);
    CHECK(selective->model.selective && !selective->model.recompute);
    CHECK(!none->model.selective && !none->model.recompute);
}

TEST(an_optimizer_may_have_the_name_that_transformers_has)
{
    AUTO(place_job)
    struct place_job *j =
        kit_job_of("model_name: Qwen/Qwen3-8B\noptimizer: paged_adamw_8bit\nnum_gpus: 1\n");
    CHECK_INT(j->model.optimizer, ESTIMATE_ADAM_8BIT);
    CHECK(j->model.paged && j->has_model);
}

TEST(a_model_is_also_given_by_its_number_of_parameters)
{
    struct estimate need;
    AUTO(place_job) struct place_job *j = kit_job_of("params: 1.5B\nbatch_size: 256\n");
    CHECK(j->has_model);
    CHECK_INT(j->model.model.params, 1500000000);
    CHECK_INT(j->model.model.kind, MODEL_PARAMS_ONLY);
    CHECK_INT(place_select_need(&need, j, 3, NULL), 0);
    CHECK_INT(need.o.batch, 86); /* the largest share of 256 */
    AUTO(place_job) struct place_job *unknown = kit_job_of("model_name: my-own-net\n");
    CHECK(!unknown->has_model);
    CHECK_HAS(unknown->notes[0], "unknown model 'my-own-net', so memory is not estimated");
}

TEST(bad_files_are_errors_with_a_position_and_a_suggestion)
{
    static const struct {
        const char *text, *says, *hint;
    } cases[] = {
        {"framwork: pytorch\n", "1:1: unknown key 'framwork'", "framework"},
        {"framework: pytorch\ntsk: {}\n", "2:1: unknown key 'tsk'", "task"},
        {"task: {timeout: 3}\n", "unknown key 'timeout' in task", "scheduler: {timeout"},
        {"task: {batch_sise: 3}\n", "unknown key 'batch_sise' in task", "batch_size"},
        {"task: 3\n", "task must be a mapping", ""},
        {"- 1\n", "a job file must be a mapping", ""},
        {"batch_size: big\n", "batch_size must be a number", ""},
        {"batch_size: 0\n", "batch_size must be a number", ""},
        {"memory_threshold: 1.2\n", "memory_threshold must be a share", ""},
        {"memory_threshold: 0\n", "memory_threshold must be a share", ""},
        {"shared: 1\n", "shared must be true or false", ""},
        {"timeout: soon\n", "timeout must be a duration", ""},
        {"preferred_devices: []\nlabels: {a: 1}\n", "labels must be a word or a list", ""},
        {"labels: ['']\n", "labels must be a word or a list", ""},
        {"goal: speed\n", "goal: unknown word 'speed'", "cost, performance"},
        {"arrangement: spred\n", "arrangement: unknown word", "spread"},
        {"distributed_strategy: zero4\n", "unknown word 'zero4'", "zero1"},
        {"type: trainig\n", "type: unknown word 'trainig'", "training"},
        {"num_gpus: 0\n", "num_gpus", "auto"},
        {"num_gpus: many\n", "num_gpus", "auto"},
        {"num_gpus: 65\n", "num_gpus", "auto"},
        {"num_gpus: 1\ndistributed: true\n", "distributed: true with one GPU", "false"},
        {"batch_size: 1\nbatch_size_per_gpu: 1\n", "exclude each other", ""},
        {"params: 7Q\n", "7Q", ""},
        {"params: 7Bn\n", "7Bn", ""},
        {"params: -1\n", "-1", ""},
        {"params: nan\n", "nan", ""},
        {"memory: much\n", "memory", ""},
        {"memory: 0\n", "memory: 0: not more than 0", ""},
        {"labels: [a]\nresource_policy: {labels: [b]}\n", "labels is given twice", ""},
        {"config: /no/such/file.json\n", "/no/such/file.json", ""},
        {"precision: fp99\n", "precision", ""},
        {"recompute: blok\n", "recompute: unknown recompute 'blok'", "block"},
        {"loss: fusd\n", "loss: unknown loss 'fusd'", "fused"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct place_job *j = NULL;
        struct err e = {0};
        if (kit_job(&j, cases[i].text, &e) == 0)
            FAIL("accepted: %s", cases[i].text);
        CHECK_HAS(e.text, cases[i].says);
        CHECK_HAS(e.hint, cases[i].hint);
    }
}
