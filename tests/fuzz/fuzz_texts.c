/* Parsers of texts that users, launchers, trials and ranks write: host files, rank files,
 * allocations, lists of CPUs, durations, sizes, MCA parameter files, command lines, metrics,
 * records, PMI-1, error files, shapes of models, requests to the dashboard and to /metrics. No
 * crash, no leak; what is refused has a message.
 *
 * The first byte of an input selects the parser: the letter of its row. As a test: the files of
 * tests/fuzz/corpus/texts, changed at random from a printed seed (DROVER_FUZZ_SEED,
 * DROVER_FUZZ_RUNS). With clang -fsanitize=fuzzer -DFUZZ_ENGINE: libFuzzer's entry point. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "collectives/bench/cmd/cmd_bench_opts.h"
#include "common/byte_size.h"
#include "common/duration.h"
#include "common/host_port.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/opt.h"
#include "common/yaml.h"
#include "hpo/reader/json_scan.h"
#include "hpo/reader/sweep_columns.h"
#include "hpo/samplers/sweep_file.h"
#include "hpo/trial/metric_guess.h"
#include "hpo/trial/metric_parse.h"
#include "launcher/client/report_packet.h"
#include "launcher/estimate/estimate.h"
#include "launcher/estimate/model_config.h"
#include "launcher/estimate/safetensors.h"
#include "launcher/io/metric_mapping.h"
#include "launcher/metrics/metrics_request.h"
#include "launcher/node/cpu_list.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/hostfile.h"
#include "launcher/plan/mca_params.h"
#include "launcher/pmi/pmi1.h"
#include "launcher/run/run_options.h"
#include "launcher/watch/failure_cause.h"
#include "serve/serve_command.h"
#include "serve/serve_request.h"

enum { WORDS_MAX = 64, RANKS = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* `text` is NUL-terminated, and may be changed. */
typedef int (*read_fn)(char *text, size_t len, struct err *e);

static int read_hostfile(char *text, size_t len, struct err *e)
{
    AUTO(hosts) struct hosts *h = NULL;
    return hostfile_parse(&h, "file", text, e);
}

static int read_host_list(char *text, size_t len, struct err *e)
{
    AUTO(hosts) struct hosts *h = xzalloc(sizeof *h);
    return hostfile_list(h, text, e);
}

static int read_rankfile(char *text, size_t len, struct err *e)
{
    struct rankfile *f = NULL;
    int rc = hostfile_parse_ranks(&f, "file", text, NULL, e);
    hostfile_free_ranks(f);
    return rc;
}

static int read_cpu_list(char *text, size_t len, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    return cpu_list_parse(set, text, e);
}

static int read_duration(char *text, size_t len, struct err *e)
{
    double s;
    return duration_parse(&s, text, e);
}

static int read_byte_size(char *text, size_t len, struct err *e)
{
    uint64_t n;
    return byte_size_parse(&n, text, e);
}

static int read_nodelist(char *text, size_t len, struct err *e)
{
    AUTO(strv) char **names = NULL;
    return allocation_nodelist(&names, text, e);
}

/* The lines of the text, up to WORDS_MAX. */
static int split(char **words, char *text)
{
    int n = 0;
    for (char *word; n < WORDS_MAX && (word = strsep(&text, "\n"));)
        words[n++] = word;
    words[n] = NULL;
    return n;
}

static int read_slurm(char *text, size_t len, struct err *e)
{
    char *env[WORDS_MAX + 1];
    AUTO(hosts) struct hosts *h = NULL;
    split(env, text);
    return allocation_slurm(&h, env, e);
}

static int read_lsf(char *text, size_t len, struct err *e)
{
    AUTO(hosts) struct hosts *h = NULL;
    return allocation_lsf(&h, text, e);
}

static int read_sge(char *text, size_t len, struct err *e)
{
    AUTO(hosts) struct hosts *h = NULL, *names = NULL;
    (void)allocation_lines(&names, "file", text, false, NULL);
    return allocation_lines(&h, "file", text, true, e);
}

static int read_mca_file(char *text, size_t len, struct err *e)
{
    struct mca_params p = {0};
    char path[64], files[128];
    AUTO(fd) int fd = memfd_create("mca-params", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(files, sizeof files, "OMPI_MCA_mca_param_files=%s", path);
    if (write(fd, text, len) != (ssize_t)len)
        abort();
    char *env[] = {files, NULL};
    mca_params_read(&p, env);
    for (size_t i = 0; i < p.count; i++) {
        bool ignored = false;
        AUTO(strv) char **options = mca_params_options(&p, i, &ignored);
    }
    mca_params_free(&p);
    return 0;
}

/* These words name files, which no random text may open. */
static bool names_file(const char *word)
{
    return strstr(word, "file") || strstr(word, "app") || strcmp(word, "-f") == 0 ||
           strcmp(word, "--f") == 0 || strcmp(word, "-") == 0 || strcmp(word, "--am") == 0 ||
           strcmp(word, "--tune") == 0;
}

static bool read_words(char **argv, const char *command, char *text)
{
    argv[0] = (char *)command;
    int n = split(argv + 1, text);
    for (int i = 1; i <= n; i++)
        if (names_file(argv[i]))
            return false;
    return true;
}

static int read_run_options(char *text, size_t len, struct err *e)
{
    char *argv[WORDS_MAX + 2];
    struct run_options o = {0};
    if (!read_words(argv, "run", text))
        return 0;
    int rc = run_options_parse(&o, "drover run", (int)strv_len(argv), argv, e);
    run_options_free(&o);
    return rc;
}

static int read_bench_options(char *text, size_t len, struct err *e)
{
    char *argv[WORDS_MAX + 2];
    struct cmd_bench_opts o = {0};
    if (!read_words(argv, "bench", text))
        return 0;
    int rc = cmd_bench_opts_read(&o, (int)strv_len(argv), argv, e);
    cmd_bench_opts_free(&o);
    return rc;
}

/* The pattern that is proposed is valid. */
static void check_guess(const char *text, size_t len)
{
    AUTO(free) char *line = NULL, *pattern = NULL;
    if (!metric_guess(&line, &pattern, text, len, "val.loss"))
        return;
    AUTO(json) json_t *patterns = json_object();
    AUTO(metric_parse) struct metric_parse *m = NULL;
    json_object_set_new(patterns, "val.loss", json_text(pattern));
    if (metric_parse_new(&m, patterns, NULL) < 0)
        abort();
}

static int read_metric_line(char *text, size_t len, struct err *e)
{
    AUTO(json)
    json_t *patterns =
        json_pack("{s:s,s:s}", "loss", "loss[ =:]+(\\S+)", "acc", "acc[a-z]* ([0-9.e+-]+)");
    AUTO(metric_parse) struct metric_parse *m = NULL;
    int rc = metric_parse_new(&m, patterns, e);
    AUTO(json) json_t *mapped = metric_mapping_read(text, len);
    AUTO(json) json_t *found = m ? metric_parse_from_pattern(m, text, len, e) : NULL;
    check_guess(text, len);
    if ((mapped && !json_is_object(mapped)) || (found && !json_is_object(found)))
        abort();
    return rc;
}

static int read_pattern(char *text, size_t len, struct err *e)
{
    AUTO(json) json_t *patterns = json_object();
    AUTO(metric_parse) struct metric_parse *m = NULL;
    json_object_set_new(patterns, "m", json_text(text));
    int rc = metric_parse_new(&m, patterns, e);
    AUTO(json)
    json_t *found =
        rc == 0 ? metric_parse_from_pattern(m, "step 3 loss=0.5 acc: 1e-3", 25, e) : NULL;
    return rc;
}

static int read_json(char *text, size_t len, struct err *e)
{
    struct json_scan s = json_scan_begin(text);
    struct json_scan_member m;
    while (json_scan_next(&s, &m)) {
        AUTO(json) json_t *value = json_scan_value(m.text, m.len);
        if (m.text < text || m.text + m.len > text + strlen(text))
            abort();
    }
    AUTO(json) json_t *tree = NULL;
    return json_parse(&tree, text, len, e);
}

/* Each line is the digits of kind, trial and lease, and the data. */
static int read_records(char *text, size_t len, struct err *e)
{
    static const char file[] = "method: random\nprogram: t\nmetric: {name: m}\n"
                               "parameters: {x: {min: 0.0, max: 1.0}, y: {values: [a, b]}}\n";
    struct yaml_doc *d = NULL;
    struct spec *spec = NULL;
    if (yaml_read(&d, file, sizeof file - 1, "file", "command", e) < 0 ||
        sweep_file_read(&spec, d, e) < 0)
        abort();
    struct sweep_columns *c = sweep_columns_new(spec);
    int rc = 0;
    int64_t seq = 1;
    for (char *line; rc == 0 && (line = strsep(&text, "\n")); seq++) {
        if (strlen(line) < 3)
            continue;
        struct event_store_row r = {
            .seq = seq,
            .at_ms = seq * 1000,
            .kind = (enum scheduler_record_kind)((unsigned char)line[0] % SCHEDULER_REC_KINDS),
            .trial = (unsigned char)line[1] % 4,
            .lease = (unsigned char)line[2] % 4,
            .data = line + 3,
            .len = strlen(line + 3)};
        rc = sweep_columns_record(c, &r, e);
    }
    for (size_t i = 0; i < c->count; i++)
        json_decref(sweep_columns_trial_json(c, i));
    sweep_columns_free(c);
    spec_free(spec);
    yaml_doc_free(d);
    return rc;
}

static void pmi1_sent(void *arg, int rank, const char *text, size_t len)
{
    if (rank < 0 || rank >= RANKS || len == 0 || text[len - 1] != '\n')
        abort();
}

static void pmi1_event(void *arg, enum rank_event ev, int rank, int code)
{
}

/* What a rank's line asks of the other nodes. */
struct pmi1_asked {
    struct strbuf barrier; /* the values of a barrier */
    uint64_t name;         /* a request about a name; 0: none */
};

static void pmi1_exchange(void *arg, const struct exchange_message *m)
{
    struct pmi1_asked *asked = arg;
    if (m->type == EXCHANGE_FENCE)
        strbuf_add(&asked->barrier, m->data, m->len);
    else
        asked->name = m->id;
}

static void pmi1_end_barrier(struct pmi1 *p, const char *data, size_t len)
{
    pmi1_deliver(p,
                 &(struct exchange_message){.type = EXCHANGE_FENCE_DONE, .data = data, .len = len});
}

/* Answers what a line has asked. */
static void pmi1_reply(struct pmi1 *p, struct pmi1_asked *asked)
{
    const struct exchange_message found = {.type = EXCHANGE_FOUND,
                                           .kind = EXCHANGE_PMI1,
                                           .id = asked->name,
                                           .data = "value",
                                           .len = 5};
    if (asked->name > 0)
        pmi1_deliver(p, &found);
    if (asked->barrier.len > 0)
        pmi1_end_barrier(p, asked->barrier.data, asked->barrier.len);
    asked->barrier.len = 0;
    asked->name = 0;
}

/* Each line begins with the digit of its rank. */
static int read_pmi1(char *text, size_t len, struct err *e)
{
    static const struct pmi1_events ev = {pmi1_sent, pmi1_exchange};
    static const struct rank_events of_ranks = {.event = pmi1_event};
    static char *const nodes[] = {"node", NULL};
    static char *const cpus[] = {"", "", "", NULL};
    static int rank_nodes[RANKS], local[RANKS] = {0, 1, 2};
    const struct job_map map = {.job_id = "job",
                                .nodes = (char **)nodes,
                                .node_count = 1,
                                .rank_nodes = rank_nodes,
                                .ranks = RANKS,
                                .local = local,
                                .local_count = RANKS,
                                .cpus = (char **)cpus};
    struct pmi1_asked asked = {0};
    AUTO(pmi1) struct pmi1 *p = pmi1_new(&map, &ev, &asked, &of_ranks, &asked);
    int rc = 0;
    pmi1_end_barrier(p, text, len);
    for (char *line; rc >= 0 && (line = strsep(&text, "\n"));) {
        int rank = (unsigned char)*line % RANKS;
        size_t n = strlen(line);
        if (n > 0)
            line[n] = '\n'; /* instead of its NUL: the text continues, or ends, there */
        rc = n > 0 ? pmi1_recv(p, rank, line + 1, n, e) : 0;
        pmi1_reply(p, &asked);
    }
    strbuf_free(&asked.barrier);
    return rc;
}

static int read_error_file(char *text, size_t len, struct err *e)
{
    AUTO(free) char *cause = failure_cause_error_file(text);
    (void)report_packet_is_stop(text, len);
    return 0;
}

/* A shape that is accepted has an estimate, or a reason against it. */
static int read_model_config(char *text, size_t len, struct err *e)
{
    struct estimate_opts o = estimate_opts_default();
    struct estimate s;
    int rc = model_config_parse(&o.model, text, len, e);
    rc = rc < 0 ? rc : estimate_job(&s, &o, e);
    if (rc == 0 && (s.low_bytes > s.high_bytes || s.o.model.params < 1))
        abort();
    return rc;
}

static int read_safetensors(char *text, size_t len, struct err *e)
{
    struct safetensors t = {0};
    int rc = safetensors_parse(&t, text, len, 224, e);
    if (rc == 0 && (t.params < 0 || t.largest_layer > t.params))
        abort();
    return rc;
}

/* A request to the dashboard: a path, and the other parts in any line. */
static int read_request(char *text, size_t len, struct err *e)
{
    char *hosts[] = {(char *)"localhost", (char *)"[::1]", NULL};
    char *path = strsep(&text, "\n");
    struct serve_route r = serve_route_of(path, "/a");
    if (r.kind >= SERVE_ROUTE_KINDS || strchr(r.sweep, '/') || strchr(r.file, '/') || r.trial < 0)
        abort();
    for (char *line; (line = strsep(&text, "\n"));) {
        AUTO(json) json_t *command = serve_command_read(line, strlen(line), e);
        struct host_port address;
        int64_t n;
        (void)serve_request_host_ok(line, hosts);
        (void)serve_request_origin_ok(line, path);
        (void)serve_request_cookie_ok(line, "drover_1", "0123");
        if (serve_request_number(&n, line, 0, 9, 0) == 0 && (n < 0 || n > 9))
            abort();
        if (host_port_parse(&address, line, e) < 0 ? !e->text[0] : address.port > 65535)
            abort();
    }
    return 0;
}

/* A request to /metrics, of which each byte may be the last one that has arrived. */
static int read_scrape(char *text, size_t len, struct err *e)
{
    int status = 0;
    for (size_t n = 0; n <= len && n <= METRICS_REQUEST_BYTES_MAX; n++) {
        struct metrics_request r = metrics_request_read(text, n);
        if (status && r.status != status)
            abort(); /* what follows a whole request changes its answer */
        status = r.status;
    }
    return status == 200 ? 0 : err_set(e, -EINVAL, "status %d", status);
}

static const struct {
    char letter;
    read_fn read;
} parsers[] = {
    {'h', read_hostfile},      {'H', read_host_list},    {'r', read_rankfile},
    {'c', read_cpu_list},      {'d', read_duration},     {'b', read_byte_size},
    {'n', read_nodelist},      {'S', read_slurm},        {'l', read_lsf},
    {'g', read_sge},           {'a', read_mca_file},     {'u', read_run_options},
    {'B', read_bench_options}, {'m', read_metric_line},  {'p', read_pattern},
    {'j', read_json},          {'R', read_records},      {'P', read_pmi1},
    {'e', read_error_file},    {'M', read_model_config}, {'s', read_safetensors},
    {'w', read_request},       {'W', read_scrape},
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; len > 0 && i < COUNT_OF(parsers); i++) {
        if (parsers[i].letter != (char)bytes[0])
            continue;
        struct err e = {0};
        AUTO(free) char *text = xstrndup((const char *)bytes + 1, len - 1);
        int rc = parsers[i].read(text, strlen(text), &e);
        if (rc < 0 && !e.text[0])
            abort(); /* an error without a message */
    }
    return 0;
}

#ifndef FUZZ_ENGINE
#include <dirent.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

enum { FILES_MAX = 100 };

static const char corpus_dir[] = "tests/fuzz/corpus/texts";
static struct strbuf corpus[FILES_MAX];
static int corpus_size;

static void load_corpus(void)
{
    struct dirent **entries = NULL;
    int n = scandir(corpus_dir, &entries, NULL, alphasort);
    for (int i = 0; i < n && corpus_size < FILES_MAX; i++) {
        AUTO(free) struct dirent *entry = entries[i];
        AUTO(free) char *path = xasprintf("%s/%s", corpus_dir, entry->d_name);
        AUTO(file) FILE *f = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        for (int c; f && (c = getc(f)) != EOF;)
            strbuf_putc(&corpus[corpus_size], (char)c);
        corpus_size += f != NULL;
    }
    free(entries);
    CHECK(corpus_size >= (int)COUNT_OF(parsers));
}

static void drop_corpus(void)
{
    while (corpus_size > 0)
        strbuf_free(&corpus[--corpus_size]);
}

static unsigned long env_number(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

/* Replaces up to eight bytes at a random place, not the first, by a byte, a word, or bytes of
 * another file. */
static void change(struct strbuf *b, unsigned short rng[3])
{
    static const char *const words[] = {
        "",  "0",  "-1", "1e309", "99999999999999999999", "[", "]", "{", "}", "\"", ":", "=", ",",
        "-", "\n", " ",  "\xff"};
    const struct strbuf *other = &corpus[nrand48(rng) % corpus_size];
    size_t at = 1 + (size_t)nrand48(rng) % b->len, from = (size_t)nrand48(rng) % other->len;
    size_t skip = (size_t)nrand48(rng) % 8;
    AUTO(free) char *tail = xstrndup(strbuf_str(b) + at, b->len - at);
    b->len = at;
    if (nrand48(rng) % 4 == 0)
        strbuf_add(b, other->data + from, other->len - from < 16 ? other->len - from : 16);
    else
        strbuf_puts(b, words[(size_t)nrand48(rng) % COUNT_OF(words)]);
    if (skip < strlen(tail))
        strbuf_puts(b, tail + skip);
}

TEST(the_texts_of_the_corpus_are_accepted)
{
    load_corpus();
    for (int i = 0; i < corpus_size; i++)
        for (size_t k = 0; k < COUNT_OF(parsers); k++) {
            struct err e = {0};
            AUTO(free) char *text = xstrndup(strbuf_str(&corpus[i]) + 1, corpus[i].len - 1);
            if (parsers[k].letter == corpus[i].data[0] &&
                parsers[k].read(text, strlen(text), &e) < 0)
                FAIL("%c: %s", parsers[k].letter, e.text);
        }
    drop_corpus();
}

TEST(the_corpus_changed_at_random_does_no_harm)
{
    unsigned long seed = env_number("DROVER_FUZZ_SEED", (unsigned long)time(NULL));
    unsigned long runs = env_number("DROVER_FUZZ_RUNS", 20000);
    printf("# DROVER_FUZZ_SEED=%lu\n", seed);
    load_corpus();
    unsigned short rng[3] = {(unsigned short)seed, (unsigned short)(seed >> 16), 7};
    for (unsigned long i = 0; i < runs; i++) {
        AUTO(strbuf) struct strbuf b = {0};
        const struct strbuf *base = &corpus[i % (unsigned long)corpus_size];
        strbuf_add(&b, base->data, base->len);
        for (long n = nrand48(rng) % 4; n >= 0; n--)
            change(&b, rng);
        LLVMFuzzerTestOneInput((const uint8_t *)strbuf_str(&b), b.len);
    }
    drop_corpus();
}
#endif
