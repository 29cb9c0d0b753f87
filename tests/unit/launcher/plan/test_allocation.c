#include "launcher/plan/allocation.h"

#include "common/strbuf.h"
#include "tests/unit/test.h"

static char *shown(const struct hosts *h)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < h->count; i++)
        strbuf_printf(&b, "%s%s:%d", i ? " " : "", h->at[i].name, h->at[i].slots);
    return strbuf_take(&b);
}

static char *names_of(const char *list)
{
    AUTO(strv) char **names = NULL;
    struct err e = {0};
    if (allocation_nodelist(&names, list, &e) < 0)
        return xasprintf("error: %s", e.text);
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; names[i]; i++)
        strbuf_printf(&b, "%s%s", i ? " " : "", names[i]);
    return strbuf_take(&b);
}

TEST(slurms_node_lists_are_expanded)
{
    static const char *const cases[][2] = {
        {"n1", "n1"},
        {"n[1-3]", "n1 n2 n3"},
        {"n[001-003,7],m5", "n001 n002 n003 n7 m5"},
        {"n[09-11]", "n09 n10 n11"},
        {"n[8-11]", "n8 n9 n10 n11"},
        {"a,b[1],c[2-2]-x", "a b1 c2-x"},
        {"r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"},
        {"gpu-[1,3-4].cluster", "gpu-1.cluster gpu-3.cluster gpu-4.cluster"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *got = names_of(cases[i][0]);
        CHECK_STR(got, cases[i][1]);
    }
}

TEST(malformed_node_lists_are_refused)
{
    static const char *const bad[] = {"",     ",",      "n[",       "n]",       "n[]",   "n[1-]",
                                      "n[a]", "n[3-1]", "n[1--2]",  "n[1,]",    "a,,b",  "n[1-2",
                                      "a,",   "n[1]]",  "n[1-2-3]", "n[1][2]]", "0]n[1]"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(free) char *got = names_of(bad[i]);
        if (strncmp(got, "error: ", 7) != 0)
            FAIL("'%s' was taken for '%s'", bad[i], got);
    }
}

TEST(no_text_of_such_letters_breaks_the_reader_of_node_lists)
{
    static const char letters[] = "n012[],-";
    const char *given = getenv("DROVER_TEST_SEED");
    unsigned seed = given ? (unsigned)atoi(given) : (unsigned)getpid();
    fprintf(stderr, "# DROVER_TEST_SEED=%u\n", seed);
    srand(seed);
    for (int i = 0; i < 20000; i++) {
        char text[14] = "";
        for (int k = 0, n = rand() % (int)(sizeof text - 1); k < n; k++)
            text[k] = letters[(size_t)rand() % (sizeof letters - 1)];
        AUTO(strv) char **names = NULL;
        struct err e = {0};
        if (allocation_nodelist(&names, text, &e) < 0)
            CHECK(e.text[0] && !names);
        else if (!names || !names[0][0] || strpbrk(names[0], "[],"))
            FAIL("'%s' was taken", text);
    }
}

TEST(a_list_has_up_to_16384_names_of_128_characters)
{
    AUTO(strv) char **names = NULL;
    CHECK_INT(allocation_nodelist(&names, "n[0-16382],m", NULL), 0);
    CHECK_INT(strv_len(names), 16384);
    CHECK_STR(names[16382], "n16382");
    CHECK_STR(names[16383], "m");
    AUTO(free) char *more = names_of("n[0-16383],m");
    CHECK_HAS(more, "more than 16384 hosts");

    static const char bracket[] = "[1]";
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < 128; i++)
        strbuf_puts(&b, bracket);
    AUTO(free) char *longest = names_of(strbuf_str(&b));
    CHECK_INT(strlen(longest), 128);
    for (int i = 128; i < 100000; i++) /* as deep as the stack would be */
        strbuf_puts(&b, bracket);
    AUTO(free) char *deep = names_of(strbuf_str(&b));
    CHECK_HAS(deep, "too long");
}

TEST(a_list_of_a_milliard_names_is_refused_at_once)
{
    AUTO(free) char *got = names_of("n[0-999999999]");
    CHECK_HAS(got, "16384");
    AUTO(free) char *nested = names_of("n[0-999999]m[0-999999]");
    CHECK_HAS(nested, "16384");
}

#define ENV(...) ((char *const[]){__VA_ARGS__, NULL})

static char *found(char *const *env)
{
    AUTO(hosts) struct hosts *h = NULL;
    struct err e = {0};
    int rc = allocation_find(&h, env, &e);
    if (rc == 0)
        return xstrdup("none");
    if (rc < 0)
        return xasprintf("error: %s", e.text);
    return shown(h);
}

static void finds(char *const *env, const char *expected)
{
    AUTO(free) char *got = found(env);
    CHECK_STR(got, expected);
}

#define NODES (char *)"SLURM_JOB_NODELIST=n[1-2]"

TEST(slurms_tasks_are_slots)
{
    finds(ENV(NODES, (char *)"SLURM_TASKS_PER_NODE=4(x2)", (char *)"SLURM_NTASKS=8"), "n1:4 n2:4");
    finds(ENV(NODES, (char *)"SLURM_TASKS_PER_NODE=3,1", (char *)"SLURM_NTASKS=4"), "n1:3 n2:1");
    finds(ENV(NODES, (char *)"SLURM_NTASKS_PER_NODE=2"), "n1:2 n2:2");
    finds(ENV((char *)"SLURM_NODELIST=n7", (char *)"SLURM_TASKS_PER_NODE=2"), "n7:2");
    /* in a step on some of the nodes, or a rank of drover there */
    finds(ENV(NODES, (char *)"SLURM_NNODES=1", (char *)"SLURM_TASKS_PER_NODE=2",
              (char *)"SLURM_JOB_CPUS_PER_NODE=8(x2)"),
          "n1:8 n2:8");
}

TEST(with_gpus_one_task_a_node_or_none_asked_for_means_a_slot_a_gpu)
{
    finds(ENV(NODES, (char *)"SLURM_TASKS_PER_NODE=1(x2)", (char *)"SLURM_NTASKS_PER_NODE=1",
              (char *)"SLURM_GPUS_ON_NODE=8"),
          "n1:8 n2:8");
    finds(ENV(NODES, (char *)"SLURM_TASKS_PER_NODE=64(x2)", (char *)"SLURM_GPUS_ON_NODE=8"),
          "n1:8 n2:8");
    finds(ENV(NODES, (char *)"SLURM_TASKS_PER_NODE=4(x2)", (char *)"SLURM_NTASKS=8",
              (char *)"SLURM_GPUS_ON_NODE=8"),
          "n1:4 n2:4");
}

TEST(without_tasks_the_cpus_are_slots_by_as_many_as_a_task_has)
{
    finds(ENV(NODES, (char *)"SLURM_JOB_CPUS_PER_NODE=64(x2)"), "n1:64 n2:64");
    finds(ENV(NODES, (char *)"SLURM_JOB_CPUS_PER_NODE=64,2", (char *)"SLURM_CPUS_PER_TASK=4"),
          "n1:16 n2:1");
    finds(ENV(NODES), "n1:0 n2:0");
}

TEST(what_is_malformed_is_named_by_its_variable)
{
    static const char *const bad[][2] = {
        {"SLURM_JOB_NODELIST=n[1", "SLURM_JOB_NODELIST 'n[1'"},
        {"LSB_MCPU_HOSTS=a 4 b", "LSB_MCPU_HOSTS"},
        {"LSB_MCPU_HOSTS=a x", "LSB_MCPU_HOSTS"},
        {"LSB_MCPU_HOSTS=a 4 -oProxyCommand=x 4",
         "LSB_MCPU_HOSTS: invalid host name '-oProxyCommand=x'"},
        {"LSB_MCPU_HOSTS=a 65536 a 1", "host 'a': more than 65536 slots"},
        {"SLURM_JOB_NODELIST=n1,-oX=[1-2]", "invalid host name '-oX=1'"},
        {"SLURM_JOB_NODELIST=n1;x", "invalid host name 'n1;x'"},
        {"PBS_NODEFILE=/no/such/file", "PBS_NODEFILE: host file '/no/such/file'"},
        {"PE_HOSTFILE=/dev/null", "PE_HOSTFILE: '/dev/null': no host is listed"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(free) char *got = found(ENV((char *)bad[i][0]));
        CHECK_HAS(got, "error: ");
        CHECK_HAS(got, bad[i][1]);
    }
    static const char *const counts[] = {"2",       "2(x3)",  "x",       "2(x1),",       "2(x",
                                         "2(x2),1", "-1(x2)", "1(x0),1", "99999999(x2)", ""};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        AUTO(free) char *entry = xasprintf("SLURM_TASKS_PER_NODE=%s", counts[i]);
        AUTO(free) char *got = found(ENV(NODES, entry));
        if (i != 1 && strncmp(got, "error: SLURM_TASKS_PER_NODE: ", 29) != 0)
            FAIL("'%s' was taken: %s", counts[i], got);
    }
}

static char *file_with(const char *text)
{
    char path[] = "/tmp/test_alloc.XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    return xstrdup(path);
}

TEST(files_and_lists_of_other_systems_are_read)
{
    static const struct {
        const char *variable, *text, *expected;
    } cases[] = {
        {"PBS_NODEFILE", "c1\nc1\nc2\n", "c1:2 c2:1"},
        {"LSB_DJOB_HOSTFILE", "c1\nc2\nc2", "c1:1 c2:2"},
        {"PE_HOSTFILE", "c1 4 all.q@c1 UNDEFINED\nc2 2 all.q@c2 <NULL>\n", "c1:4 c2:2"},
        {"OMPI_MCA_orte_default_hostfile", "w-0.w slots=8\nw-1.w slots=8\n", "w-0.w:8 w-1.w:8"},
        {"PRTE_MCA_prte_default_hostfile", "w slots=1", "w:1"},
        {"HYDRA_HOST_FILE", "w-0:2\nw-1:2\n", "w-0:2 w-1:2"},
        {"I_MPI_HYDRA_HOST_FILE", "w-0:2\n", "w-0:2"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *path = file_with(cases[i].text);
        AUTO(free) char *entry = xasprintf("%s=%s", cases[i].variable, path);
        finds(ENV(entry), cases[i].expected);
        unlink(path);
    }
    AUTO(free) char *names = file_with("c1\n$(x)\n");
    AUTO(free) char *entry = xasprintf("PBS_NODEFILE=%s", names);
    AUTO(free) char *got = found(ENV(entry));
    CHECK_HAS(got, ":2: invalid host name '$(x)'");
    unlink(names);
    finds(ENV((char *)"LSB_MCPU_HOSTS=c1 4 c2 2"), "c1:4 c2:2");
    finds(ENV((char *)"PATH=/bin", (char *)"PBS_NODEFILE="), "none");
    finds(NULL, "none");
}

TEST(slurm_comes_first_and_knows_its_nodes)
{
    finds(ENV((char *)"LSB_MCPU_HOSTS=c1 4", NODES, (char *)"SLURM_TASKS_PER_NODE=1(x2)"),
          "n1:1 n2:1");
    AUTO(hosts) struct hosts *in = xzalloc(sizeof *in), *out = xzalloc(sizeof *out);
    hosts_add(in, "n2", 1, 0);
    hosts_add(out, "n2", 1, 0);
    hosts_add(out, "n3", 1, 0);
    CHECK(allocation_slurm_has(ENV(NODES), in));
    CHECK(!allocation_slurm_has(ENV(NODES), out));
    CHECK(!allocation_slurm_has(NULL, in));
    out->at[1].here = true;
    CHECK(allocation_slurm_has(ENV(NODES), out));
}
