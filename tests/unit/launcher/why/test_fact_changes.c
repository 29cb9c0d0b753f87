/* test_fact_changes - the change that broke a run is among the first, however much noise there is.
 */
#include "launcher/why/fact_changes.h"

#include "common/rng.h"
#include "common/strbuf.h"
#include "tests/unit/test.h"

enum { EARLIER_MAX = 12, FIRST = 3, ENOUGH = 36 };

/* A change that breaks a run; good NULL: the fact is new; bad NULL: it is gone. */
struct planted {
    const char *fact, *good, *bad, *cause;
};

static const struct planted planted[] = {
    {"command --batch-size", "32", "128", "CUDA out of memory. Tried to allocate 2.00 GiB"},
    {"command --seq-len", "2048", "8192", "out of GPU memory"},
    {"command --activation-checkpointing", "given", NULL, "out of GPU memory"},
    {"command --zero-stage", "3", "1", "out of GPU memory"},
    {"variable PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", NULL, "out of GPU memory"},
    {"variable CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7", "0,1,2,3", "out of GPU memory"},
    {"command --workers", "8", "64", "host memory: the kernel killed the rank to free memory"},
    {"node shm_bytes", "135291469824", "67108864", "a bus error: most often /dev/shm is too small"},
    {"node memory_bytes", "540000000000", "64000000000", "out of host memory"},
    {"command --data", "/data/v1", "/data/v2",
     "FileNotFoundError: [Errno 2] No such file or directory: '/data/v2/train.bin'"},
    {"directory", "/home/u/exp", "/home/u", "Python does not find the program"},
    {"variable DATA_ROOT", "/data/imagenet", "/dta/imagenet",
     "FileNotFoundError: [Errno 2] No such file or directory: '/dta/imagenet/train'"},
    {"variable HF_HOME", "/data/hf", NULL, "access to a file or directory is denied"},
    {"command --output", "/scratch/u/out", "/home/u/out", "the disk quota is exceeded"},
    {"variable TMPDIR", "/scratch/tmp", "/tmp", "a disk is full"},
    {"file configs/model.yaml", "111 2043", "222 2041", "KeyError: 'hidden_size'"},
    {"git changes of model/attention.py", NULL, "+3 -1 lines (aabbccdd)",
     "RuntimeError: shape mismatch in model/attention.py"},
    {"file train.py", "333 9120", "444 9133", "NameError: name 'optimzer' is not defined"},
    {"variable PYTHONPATH", "/home/u/lib", NULL, "a Python module is missing"},
    {"variable VIRTUAL_ENV", "/home/u/venv", "/home/u/venv2", "a Python module is missing"},
    {"variable LD_LIBRARY_PATH", "/opt/cuda/lib64", NULL, "a shared library is missing"},
    {"library libstdc++", "/usr/lib/libstdc++.so.6.0.30 (1800 KiB of code)",
     "/opt/conda/lib/libstdc++.so.6.0.25 (1500 KiB of code)",
     "the program needs a newer C or C++ library than this node has"},
    {"version driver", "NVRM version: 550.54.15", "NVRM version: 470.82.01",
     "the driver is older than the program's CUDA version"},
    {"library libcudart", "/opt/cuda/lib64/libcudart.so.12.4.127 (700 KiB of code)",
     "/opt/cuda/lib64/libcudart.so.11.8.89 (650 KiB of code)",
     "the program was built for other GPUs"},
    {"plan node 1 hardware", "AMD EPYC 7763 with 8 x NVIDIA H100",
     "AMD EPYC 7763 with 8 x NVIDIA V100", "no kernel image is available for execution"},
    {"variable NCCL_SOCKET_IFNAME", "ib0", "ib9",
     "NCCL_SOCKET_IFNAME does not name an interface that is up"},
    {"variable NCCL_IB_DISABLE", NULL, "1", "not all ranks joined a collective in time"},
    {"library libnccl", "/usr/lib/libnccl.so.2.21.5 (90000 KiB of code)",
     "/usr/lib/libnccl.so.2.18.3 (70000 KiB of code)", "nodes have different NCCL versions"},
    {"variable NCCL_PROTO", NULL, "LL128", "ranks disagree about a collective"},
    {"variable GLOO_SOCKET_IFNAME", "eth0", "docker0", "gloo: ranks could not reach each other"},
    {"variable MASTER_ADDR", "10.0.0.1", "10.9.0.1",
     "rank 0 did not answer at MASTER_ADDR:MASTER_PORT"},
    {"command --bucket-mb", "25", "1000", "the job hangs: rank 3 waits in all_reduce"},
    {"plan ranks", "16", "15", "the job hangs: all ranks wait"},
    {"command --learning-rate", "0.0003", "0.3", "train.py: error: argument --learning-rate: bad"},
    {"command --precision", "bf16", "fp16", "the loss is nan"},
    {"command --grad-clip", "1.0", NULL, "the job was stopped: loss is not finite"},
    {"variable OMP_NUM_THREADS", "16", "1", "ended well after 2h, 1.9 times slower than before"},
    {"plan node 0 cpus", "[\"0-15\",\"16-31\"]", "[\"0\",\"1\"]", "1.4 times slower"},
    {"variable MODEL_FLAVOUR", "base", "extra", "exited with status 1"},
    {"node open_files", "1048576", "1024", "exited with status 1"},
};

/* ---- a user's runs -------------------------------------------------------------------------- */

static void set(json_t *facts, char *name, char *value)
{
    json_object_set_new(facts, name, json_string(value));
    free(name);
    free(value);
}

/* Some 400 facts that stay. */
static json_t *stable_facts(void)
{
    json_t *facts = json_object();
    for (size_t i = 0; i < COUNT_OF(planted); i++)
        if (planted[i].good)
            set(facts, xstrdup(planted[i].fact), xstrdup(planted[i].good));
    for (int i = 0; i < 190; i++)
        set(facts, xasprintf("variable SETTING_%c%c", 'A' + i % 26, 'A' + i / 26),
            xasprintf("/opt/setting/%d", i));
    for (int i = 0; i < 110; i++)
        set(facts, xasprintf("library lib%c%c", 'a' + i % 26, 'a' + i / 26),
            xasprintf("/usr/lib/lib%d.so.%d (%d KiB of code)", i, i % 5, 40 + i));
    for (int i = 0; i < 12; i++)
        set(facts, xasprintf("command --setting-%c", 'a' + i), xasprintf("%d", i));
    set(facts, xstrdup("git commit"), xstrdup("0a"));
    return facts;
}

/* Sets what differs in each run, and now and then what differs in some. */
static void add_noise(json_t *facts, struct rng *r, int run)
{
    static const char *const always[] = {
        "variable SSH_CLIENT",       "variable SSH_CONNECTION", "variable SSH_AUTH_SOCK",
        "variable XDG_SESSION_ID",   "variable WINDOWID",       "variable SLURM_JOB_ID",
        "variable SLURM_JOBID",      "variable SLURM_STEP_ID",  "variable SLURM_NODELIST",
        "variable MASTER_PORT",      "variable HOSTNAME",       "variable PARENT_PID",
        "variable VSCODE_IPC_HOOK",  "variable INVOCATION_ID",  "variable START_TIMESTAMP",
        "variable KRB5CCNAME",       "variable TMUX",           "plan node 0 name",
        "plan node 1 name",          "command --run-name",      "command --seed",
        "variable WANDB_RUN_ID",     "variable JOURNAL_STREAM", "metric loss at first",
        "metric grad_norm at first", "metric tokens at first",  "speed seconds in all"};
    for (size_t i = 0; i < COUNT_OF(always); i++)
        set(facts, xstrdup(always[i]),
            xasprintf("%llu", 1000 + (unsigned long long)rng_below(r, 60000)));
    if (rng_unit(r) < 0.7)
        set(facts, xstrdup("git changes of train.py"),
            xasprintf("+%d -1 lines (%08x)", run, (unsigned)rng_u64(r)));
    if (rng_unit(r) < 0.5)
        set(facts, xstrdup("git commit"), xasprintf("%llx", (unsigned long long)rng_u64(r)));
    if (rng_unit(r) < 0.3)
        set(facts, xstrdup("command --warmup"), xasprintf("%d", 100 * (int)rng_below(r, 5)));
    if (rng_unit(r) < 0.3)
        set(facts, xstrdup("variable OLDPWD"), xasprintf("/home/u/%d", (int)rng_below(r, 4)));
    for (int i = 0; i < 2; i++) /* of what seldom changes, something always does */
        set(facts,
            xasprintf("variable SETTING_%c%c", 'A' + (int)rng_below(r, 26),
                      'A' + (int)rng_below(r, 7)),
            xasprintf("/opt/new/%d", run));
    if (rng_unit(r) < 0.2)
        set(facts, xstrdup("variable EDITOR_THEME"), xasprintf("%d", (int)rng_below(r, 3)));
}

/* Returns the place of the planted change, the first one being 1; 0: it is not found. */
static int place_of(const struct planted *p, int runs, uint64_t stream)
{
    struct rng r;
    struct fact_history earlier[EARLIER_MAX];
    AUTO(json) json_t *facts = stable_facts();
    rng_seed(&r, 53, stream);
    for (int i = 0; i < runs; i++) {
        add_noise(facts, &r, i);
        earlier[i] = (struct fact_history){json_copy(facts), .same_program = i % 4 != 2};
    }
    add_noise(facts, &r, runs);
    if (p->bad)
        set(facts, xstrdup(p->fact), xstrdup(p->bad));
    else
        json_object_del(facts, p->fact);
    const struct fact_question q = {.good = earlier[runs - 1].facts,
                                    .bad = facts,
                                    .earlier = earlier,
                                    .earlier_count = (size_t)runs,
                                    .cause = p->cause,
                                    .text = p->cause};
    AUTO(json) json_t *changes = fact_changes_find(&q);
    json_t *c;
    size_t i;
    int place = 0;
    json_array_foreach (changes, i, c)
        if (strcmp(json_string_value(json_object_get(c, "fact")), p->fact) == 0)
            place = (int)i + 1;
    for (int k = 0; k < runs; k++)
        json_decref(earlier[k].facts);
    return place;
}

TEST(a_single_change_among_400_facts_is_one_of_the_first_three)
{
    static const int runs[] = {1, 2, 4, EARLIER_MAX};
    AUTO(json) json_t *facts = stable_facts();
    CHECK_INT(COUNT_OF(planted), 40);
    CHECK(json_object_size(facts) > 340);
    for (size_t k = 0; k < COUNT_OF(runs); k++) {
        int found = 0;
        for (size_t i = 0; i < COUNT_OF(planted); i++) {
            int place = place_of(&planted[i], runs[k], i);
            found += place >= 1 && place <= FIRST;
            if (place > FIRST || place == 0)
                printf("# after %d runs, place %d: %s\n", runs[k], place, planted[i].fact);
        }
        printf("# %d of 40 after %d runs\n", found, runs[k]);
        CHECK(found >= ENOUGH);
    }
}

/* ---- single rules --------------------------------------------------------------------------- */

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    CHECK_INT(json_parse(&value, text, strlen(text), NULL), 0);
    return value;
}

/* Returns the facts that differ, in their order, as "fact,fact,". */
static char *order(const char *good, const char *bad, const char *cause, const char *earlier)
{
    AUTO(json) json_t *g = parse(good), *b = parse(bad), *all = parse(earlier);
    struct fact_history h[8];
    const struct fact_question q = {.good = g,
                                    .bad = b,
                                    .earlier = h,
                                    .earlier_count = json_array_size(all),
                                    .cause = cause,
                                    .text = cause};
    for (size_t i = 0; i < json_array_size(all); i++)
        h[i] = (struct fact_history){json_array_get(all, i), .same_program = true};
    AUTO(json) json_t *changes = fact_changes_find(&q);
    json_t *c;
    struct strbuf out = {0};
    size_t i;
    json_array_foreach (changes, i, c)
        strbuf_printf(&out, "%s,", json_string_value(json_object_get(c, "fact")));
    return strbuf_take(&out);
}

TEST(what_relates_to_the_cause_or_is_named_by_it_comes_first)
{
    static const struct {
        const char *good, *bad, *cause, *earlier, *order;
    } cases[] = {
        /* without earlier runs, only the cause tells */
        {"{\"command --lr\": \"1\", \"command --batch\": \"8\"}",
         "{\"command --lr\": \"2\", \"command --batch\": \"9\"}", "out of GPU memory", "[]",
         "command --batch,command --lr,"},
        {"{\"variable A_DIR\": \"/old/x\", \"variable B_DIR\": \"/old/y\"}",
         "{\"variable A_DIR\": \"/new/x\", \"variable B_DIR\": \"/new/y\"}",
         "No such file or directory: '/new/y/z'", "[]", "variable B_DIR,variable A_DIR,"},
        /* what changes each time, or is different in each session, is last */
        {"{\"variable X\": \"1\", \"variable Y\": \"1\"}",
         "{\"variable X\": \"2\", \"variable Y\": \"2\"}", "?",
         "[{\"variable X\": \"3\", \"variable Y\": \"1\"}, {\"variable X\": \"1\", \"variable Y\": "
         "\"1\"}]",
         "variable Y,variable X,"},
        {"{\"variable A_PID\": \"1\", \"variable Y\": \"1\"}",
         "{\"variable A_PID\": \"2\", \"variable Y\": \"2\"}", "?", "[]",
         "variable Y,variable A_PID,"},
        /* a value with which earlier runs ended well is less suspicious */
        {"{\"plan ranks\": \"8\", \"plan gpus\": \"8\"}",
         "{\"plan ranks\": \"4\", \"plan gpus\": \"4\"}", "?",
         "[{\"plan ranks\": \"4\", \"plan gpus\": \"8\"}, {\"plan ranks\": \"8\", \"plan gpus\": "
         "\"8\"}]",
         "plan gpus,plan ranks,"},
        /* a log without a group does not say that it is gone, and a number that is near is equal */
        {"{\"git commit\": \"a\", \"metric loss at first\": \"1.00\"}",
         "{\"metric loss at first\": \"1.05\"}", "?", "[]", ""},
        {"{\"metric loss at first\": \"1.00\"}", "{\"metric loss at first\": \"nan\"}", "?", "[]",
         "metric loss at first,"},
        /* a missing option */
        {"{\"command word 0\": \"a\", \"command --amp\": \"given\"}", "{\"command word 0\": \"a\"}",
         "?", "[]", "command --amp,"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free)
        char *found = order(cases[i].good, cases[i].bad, cases[i].cause, cases[i].earlier);
        CHECK_STR(found, cases[i].order);
    }
}
