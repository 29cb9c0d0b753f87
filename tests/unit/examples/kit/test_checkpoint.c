/* The kit's checkpoints: they are read back, damage is found, and a writer that dies or fails
 * leaves the previous one. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "examples/kit/checkpoint.h"
#include "tests/unit/test.h"

enum { STATE = 9, LARGE = 40000 };

struct place {
    char dir[32], path[64], bytes[2048], why[256];
    size_t len;
};

static void place_open(struct place *p)
{
    strcpy(p->dir, "/tmp/test_kit_XXXXXX");
    CHECK(mkdtemp(p->dir) != NULL);
    snprintf(p->path, sizeof p->path, "%s/state.ckpt", p->dir);
}

static void place_close(const struct place *p)
{
    (void)unlink(p->path);
    CHECK_INT(rmdir(p->dir), 0); /* it is empty: no temporary file is left */
}

static struct checkpoint *writer(struct place *p)
{
    struct checkpoint *c = NULL;
    CHECK_INT(checkpoint_open(&c, p->dir, "state.ckpt", p->why, sizeof p->why), 0);
    return c;
}

/* Writes step 77 and keeps the bytes of its file. */
static void write_one(struct place *p)
{
    float state[STATE] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct checkpoint_head h = {.step = 77, .value = 0.1, .bytes = sizeof state};
    checkpoint_add(&h, "layers", "%d", 2);
    checkpoint_add_real(&h, "lr", 0.5f);
    checkpoint_add(&h, "tokens of data", "%d", 1000);
    struct checkpoint *c = writer(p);
    CHECK_INT(checkpoint_save(c, &h, state, p->why, sizeof p->why), 0);
    memset(state, 0, sizeof state); /* the checkpoint has a copy */
    CHECK_INT(checkpoint_close(c, p->why, sizeof p->why), 0);
    FILE *f = fopen(p->path, "r");
    p->len = fread(p->bytes, 1, sizeof p->bytes, f);
    fclose(f);
    CHECK(p->len > sizeof state && p->len < sizeof p->bytes);
}

/* Reads the checkpoint and frees its state. An error names the file. */
static int read_head(struct place *p, struct checkpoint_head *h)
{
    void *state = NULL;
    int rc = checkpoint_read(h, &state, p->dir, "state.ckpt", p->why, sizeof p->why);
    CHECK((rc == 1) == (state != NULL));
    if (rc < 0)
        CHECK_HAS(p->why, p->path);
    free(state);
    return rc;
}

static int read_bytes(struct place *p, const char *bytes, size_t len)
{
    struct checkpoint_head h = {0};
    FILE *f = fopen(p->path, "w");
    CHECK(fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
    return read_head(p, &h);
}

TEST(a_checkpoint_is_read_back_as_it_was)
{
    struct place p = {0};
    struct checkpoint_head h = {0}, head = {0};
    void *state;
    place_open(&p);
    write_one(&p);
    CHECK_INT(checkpoint_read(&h, &state, p.dir, "state.ckpt", p.why, sizeof p.why), 1);
    CHECK_INT(h.step, 77);
    CHECK_NEAR(h.value, 0.1, 0);
    CHECK_STR(checkpoint_get(&h, "lr"), "0.5");
    CHECK_STR(checkpoint_get(&h, "tokens of data"), "1000");
    CHECK_STR(checkpoint_get(&h, "token"), "");
    CHECK_INT(checkpoint_read(&head, NULL, p.dir, "state.ckpt", p.why, sizeof p.why), 1);
    CHECK(memcmp(&h, &head, sizeof h) == 0);
    CHECK_INT(h.bytes, STATE * sizeof(float));
    for (int i = 0; i < STATE; i++)
        CHECK_NEAR(((float *)state)[i], i + 1, 0);
    free(state);
    place_close(&p);
}

TEST(a_checkpoint_with_any_byte_changed_is_damaged)
{
    struct place p = {0};
    place_open(&p);
    write_one(&p);
    for (size_t i = 0; i < p.len; i++) {
        p.bytes[i] ^= 0x10;
        CHECK_INT(read_bytes(&p, p.bytes, p.len), -1);
        CHECK_HAS(p.why, "damaged");
        p.bytes[i] ^= 0x10;
    }
    CHECK_INT(read_bytes(&p, p.bytes, p.len), 1);
    place_close(&p);
}

TEST(a_checkpoint_of_any_other_length_is_damaged)
{
    struct place p = {0};
    place_open(&p);
    write_one(&p);
    for (size_t len = 0; len <= p.len + 9; len++)
        if (len != p.len) {
            CHECK_INT(read_bytes(&p, p.bytes, len), -1);
            CHECK_HAS(p.why, "damaged");
        }
    place_close(&p);
}

TEST(the_first_fact_that_differs_is_named_with_both_values)
{
    static const struct {
        const char *name, *value, *says;
    } rows[] = {
        {"layers", "3", "it has layers 2, the options say 3 (try: --layers=2)"},
        {"lr", "0.25", "it has lr 0.5, the options say 0.25 (try: --lr=0.5)"},
        {"tokens of data", "999", "it has 1000 tokens of data, here are 999"},
        {"heads", "4", "it has no heads, the options say 4"},
    };
    struct place p = {0};
    place_open(&p);
    write_one(&p);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct checkpoint_head h = {.step = -1};
        checkpoint_add(&h, rows[i].name, "%s", rows[i].value);
        CHECK_INT(read_head(&p, &h), -1);
        CHECK_HAS(p.why, rows[i].says);
        CHECK_INT(h.step, -1);
        CHECK_INT(checkpoint_read(&h, NULL, p.dir, "state.ckpt", p.why, sizeof p.why), -1);
        CHECK_HAS(p.why, rows[i].says);
    }
    struct checkpoint_head same = {0};
    checkpoint_add_real(&same, "lr", 0.5f); /* facts that it does not ask for may be anything */
    CHECK_INT(read_head(&p, &same), 1);
    CHECK_INT(same.step, 77);
    CHECK_STR(checkpoint_get(&same, "layers"), "2");
    place_close(&p);
}

TEST(a_number_is_stored_with_as_few_digits_as_read_back_the_same)
{
    static const struct {
        float value;
        const char *text;
    } rows[] = {{0.002f, "0.002"},         {0, "0"},
                {1e-8f, "1e-08"},          {16777217, "16777216"},
                {1.0f / 3, "0.33333334"},  {0.1f + 0.2f, "0.3"},
                {1.00000012f, "1.0000001"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct checkpoint_head h = {0};
        checkpoint_add_real(&h, "x", rows[i].value);
        CHECK(strtof(checkpoint_get(&h, "x"), NULL) == rows[i].value);
        CHECK_STR(checkpoint_get(&h, "x"), rows[i].text);
    }
}

TEST(another_version_of_the_format_is_named)
{
    struct place p = {0};
    place_open(&p);
    write_one(&p);
    memcpy(p.bytes, "CKPT0001", 8);
    CHECK_INT(read_bytes(&p, p.bytes, 100), -1); /* its head was shorter */
    CHECK_HAS(p.why, "version 0001");
    CHECK_HAS(p.why, "reads 0002");
    place_close(&p);
}

TEST(what_is_not_a_readable_file_is_an_error_and_what_is_missing_is_not)
{
    struct place p = {0};
    struct checkpoint_head h = {0};
    place_open(&p);
    CHECK_INT(read_head(&p, &h), 0);
    CHECK_INT(mkdir(p.path, 0700), 0);
    CHECK_INT(read_head(&p, &h), -1);
    CHECK_INT(rmdir(p.path), 0);
    CHECK_INT(symlink("state.ckpt", p.path), 0); /* a link to itself */
    CHECK_INT(read_head(&p, &h), -1);
    CHECK_HAS(p.why, strerror(ELOOP));
    place_close(&p);
    CHECK_INT(read_head(&p, &h), 0); /* without its directory */
}

TEST(states_of_any_size_are_saved_and_one_beyond_the_memory_is_an_error)
{
    static char state[20000];
    struct place p = {0};
    struct checkpoint_head h = {0};
    place_open(&p);
    struct checkpoint *c = writer(&p);
    for (int step = 1; step <= 20; step++) {
        h.step = step;
        h.bytes = (uint64_t)(step % 2 ? step : 21 - step) * 1000; /* it grows and shrinks */
        memset(state, step, sizeof state);
        CHECK_INT(checkpoint_save(c, &h, state, p.why, sizeof p.why), 0);
    }
    h.bytes = SIZE_MAX / 2;
    CHECK_INT(checkpoint_save(c, &h, state, p.why, sizeof p.why), -1);
    CHECK_HAS(p.why, strerror(ENOMEM));
    CHECK_INT(checkpoint_close(c, p.why, sizeof p.why), 0);
    CHECK_INT(read_head(&p, &h), 1);
    CHECK_INT(h.step, 20);
    CHECK_INT(h.bytes, 1000);
    CHECK_INT(checkpoint_close(NULL, p.why, sizeof p.why), 0);
    place_close(&p);
}

/* ---- writers that are killed
 * ------------------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* Saves steps `first`, first + 1, ... for ever; every value of a state is its step. After each
 * save() that says that the previous step is on disk, writes that step to `told`. */
static _Noreturn void save_for_ever(struct place *p, int64_t first, int told)
{
    static float state[LARGE];
    struct checkpoint *c = writer(p);
    for (struct checkpoint_head h = {.step = first, .bytes = sizeof state};; h.step++) {
        for (int i = 0; i < LARGE; i++)
            state[i] = (float)h.step;
        int64_t previous = h.step - 1;
        if (checkpoint_save(c, &h, state, p->why, sizeof p->why) < 0 ||
            (previous >= first && write(told, &previous, sizeof previous) != sizeof previous))
            _exit(1);
    }
}

/* `running`: the writer has saved a step before it is killed. */
static void check_killed_once(struct place *p, int64_t *step, long microseconds, int running)
{
    int told[2], status;
    int64_t saved = *step, next;
    CHECK_INT(pipe2(told, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0)
        save_for_ever(p, *step + 1, told[1]);
    close(told[1]);
    if (running) {
        CHECK_INT(read(told[0], &next, sizeof next), sizeof next);
        saved = next;
    }
    struct timespec pause = {.tv_nsec = microseconds * 1000};
    nanosleep(&pause, NULL);
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (read(told[0], &next, sizeof next) == sizeof next)
        saved = next;
    close(told[0]);
    struct checkpoint_head h = {0};
    void *state = NULL;
    int found = checkpoint_read(&h, &state, p->dir, "state.ckpt", p->why, sizeof p->why);
    CHECK_INT(found, saved > 0 ? 1 : found);
    if (found == 0)
        return;
    CHECK_INT(found, 1);
    CHECK(h.step >= saved && h.step <= saved + 2);
    CHECK_INT(h.bytes, LARGE * sizeof(float));
    for (int i = 0; i < LARGE; i++)
        CHECK_NEAR(((float *)state)[i], (double)h.step, 0);
    free(state);
    *step = h.step;
}

TEST(a_writer_that_is_killed_at_any_moment_leaves_a_whole_checkpoint)
{
    enum { KILLS = 150 };
    struct place p = {0};
    uint64_t seed = (uint64_t)time(NULL) ^ (uint64_t)getpid();
    fprintf(stderr, "# seed %llu\n", (unsigned long long)seed);
    int64_t step = 0;
    int cut = 0;
    place_open(&p);
    for (int i = 0; i < KILLS; i++) {
        check_killed_once(&p, &step, (long)(next_random(&seed) % 8000), i % 2);
        char temporary[80];
        snprintf(temporary, sizeof temporary, "%s.new", p.path);
        cut += unlink(temporary) == 0;
    }
    fprintf(stderr, "# %lld steps, %d of %d kills while a file was written\n", (long long)step, cut,
            KILLS);
    CHECK(step > 0);
    CHECK(cut > 0);
    place_close(&p);
}

/* ---- writers that fail
 * ------------------------------------------------------------------------------------ */

TEST(a_full_disk_is_reported_and_leaves_the_previous_checkpoint)
{
    static char state[100000];
    struct place p = {0};
    struct checkpoint_head h = {.step = 78, .bytes = sizeof state};
    struct rlimit was, small = {.rlim_cur = sizeof state / 2};
    place_open(&p);
    write_one(&p);
    struct checkpoint *c = writer(&p);
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &was), 0);
    small.rlim_max = was.rlim_max;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_INT(checkpoint_save(c, &h, state, p.why, sizeof p.why), 0);
    CHECK_INT(checkpoint_save(c, &h, state, p.why, sizeof p.why), -1); /* the previous one failed */
    CHECK_HAS(p.why, p.path);
    CHECK_HAS(p.why, strerror(EFBIG));
    CHECK_INT(read_head(&p, &h), 1);
    CHECK_INT(h.step, 77);
    h = (struct checkpoint_head){.step = 79, .bytes = sizeof state};
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &was), 0);
    CHECK_INT(checkpoint_save(c, &h, state, p.why, sizeof p.why), 0); /* there is room again */
    CHECK_INT(checkpoint_close(c, p.why, sizeof p.why), 0);
    CHECK_INT(read_head(&p, &h), 1);
    CHECK_INT(h.step, 79);
    place_close(&p);
}

TEST(a_directory_is_created_and_one_that_cannot_be_is_an_error)
{
    struct place p = {0};
    struct checkpoint *c = NULL;
    char inner[64], longer[5000];
    place_open(&p);
    snprintf(inner, sizeof inner, "%s/new", p.dir);
    CHECK_INT(checkpoint_open(&c, inner, "a", p.why, sizeof p.why), 0);
    CHECK_INT(checkpoint_close(c, p.why, sizeof p.why), 0);
    CHECK_INT(rmdir(inner), 0);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    fclose(fopen(p.path, "w"));
    const struct {
        const char *below;
        int error;
    } rows[] = {{"/missing/new", ENOENT}, {"/state.ckpt", ENOTDIR}, {"/state.ckpt/new", ENOTDIR}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(inner, sizeof inner, "%s%s", p.dir, rows[i].below);
        c = NULL;
        CHECK_INT(checkpoint_open(&c, inner, "a", p.why, sizeof p.why), -1);
        CHECK(c == NULL);
        CHECK_HAS(p.why, inner);
        CHECK_HAS(p.why, strerror(rows[i].error));
    }
    CHECK_INT(checkpoint_open(&c, longer, "a", p.why, sizeof p.why), -1);
    CHECK_INT(checkpoint_open(&c, "/proc/new", "a", p.why, sizeof p.why), -1);
    CHECK_HAS(p.why, "/proc/new/a");
    place_close(&p);
}
