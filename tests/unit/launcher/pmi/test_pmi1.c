/* pmi1: lines of MPICH's ranks and the answers; whole lines, pieces, and invalid ones. */
#include "launcher/pmi/pmi1.h"

#include <errno.h>
#include <time.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

enum { RANKS = 3, NUMBERS = 4 /* of ranks in the whole job */ };

struct fixture {
    struct pmi1 *p;
    struct strbuf said[RANKS];
    int joined[NUMBERS], finalized[NUMBERS], spawns, aborted, code;
    bool barrier;               /* all ranks of the node are in it, and it has not ended */
    struct strbuf puts;         /* its data */
    enum exchange_type request; /* about a name */
    int request_rank;
    uint64_t request_id;
    char service[64], port[64];
};

static void on_say(void *arg, int rank, const char *text, size_t len)
{
    struct fixture *f = arg;
    CHECK(len > 0 && text[len - 1] == '\n');
    strbuf_add(&f->said[rank], text, len);
}

static void on_rank_event(void *arg, enum rank_event ev, int rank, int code)
{
    struct fixture *f = arg;
    f->joined[rank] += ev == RANK_JOINED;
    f->finalized[rank] += ev == RANK_FINALIZED;
    f->spawns += ev == RANK_SPAWNS;
    if (ev != RANK_ABORTED)
        return;
    f->aborted = rank;
    f->code = code;
}

static void on_barrier(struct fixture *f, const char *data, size_t len)
{
    CHECK(!f->barrier);
    f->barrier = true;
    strbuf_reset(&f->puts);
    strbuf_add(&f->puts, data, len);
}

static void end_barrier(struct pmi1 *p, const char *data, size_t len)
{
    pmi1_deliver(p,
                 &(struct exchange_message){.type = EXCHANGE_FENCE_DONE, .data = data, .len = len});
}

static void on_exchange(void *arg, const struct exchange_message *m)
{
    struct fixture *f = arg;
    CHECK_INT(m->kind, EXCHANGE_PMI1);
    if (m->type == EXCHANGE_FENCE) {
        on_barrier(f, m->data, m->len);
        return;
    }
    CHECK_INT((int)m->key_count, 1);
    f->request = m->type;
    f->request_rank = m->rank;
    f->request_id = m->id;
    snprintf(f->service, sizeof f->service, "%s", m->keys[0]);
    snprintf(f->port, sizeof f->port, "%.*s", (int)m->len, m->data);
}

static const struct pmi1_events ev = {on_say, on_exchange};
static const struct rank_events of_ranks = {.event = on_rank_event};

static struct fixture *start(void)
{
    int nodes[RANKS] = {0}, local[RANKS] = {0, 1, 2};
    const struct job_map map = {.job_id = (char *)"job-1",
                                .node_count = 1,
                                .rank_nodes = nodes,
                                .ranks = RANKS,
                                .local = local,
                                .local_count = RANKS};
    struct fixture *f = xzalloc(sizeof *f);
    f->p = pmi1_new(&map, &ev, f, &of_ranks, f);
    f->aborted = -1;
    return f;
}

static void stop(struct fixture *f)
{
    for (int i = 0; i < RANKS; i++)
        strbuf_free(&f->said[i]);
    strbuf_free(&f->puts);
    pmi1_free(f->p);
    free(f);
}

/* Returns the answer to the rank. */
static const char *ask(struct fixture *f, int rank, const char *text)
{
    struct err e = {0};
    strbuf_reset(&f->said[rank]);
    if (pmi1_recv(f->p, rank, text, strlen(text), &e) < 0)
        FAIL("'%s': %s", text, e.text);
    return strbuf_str(&f->said[rank]);
}

TEST(a_rank_gets_its_answers_in_init)
{
    struct fixture *f = start();
    CHECK_STR(ask(f, 1, "cmd=init pmi_version=1 pmi_subversion=1\n"),
              "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    CHECK_INT(f->joined[1], 1);
    CHECK_STR(ask(f, 1, "cmd=get_maxes\n"),
              "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
    CHECK_STR(ask(f, 1, "cmd=get_appnum\n"), "cmd=appnum appnum=0\n");
    CHECK_STR(ask(f, 1, "cmd=get_my_kvsname\n"), "cmd=my_kvsname kvsname=job-1\n");
    CHECK_STR(ask(f, 1, "cmd=get_universe_size\n"), "cmd=universe_size size=3\n");
    CHECK_STR(ask(f, 1, "cmd=get kvsname=job-1 key=PMI_process_mapping\n"),
              "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))\n");
    CHECK_INT(f->finalized[1], 0);
    CHECK_STR(ask(f, 1, "cmd=finalize\n"), "cmd=finalize_ack\n");
    CHECK_INT(f->finalized[1], 1);
    CHECK_INT(f->finalized[0], 0);
    stop(f);
}

/* Returns the mapping of ranks to nodes that pmi1_new() adds. */
static const char *mapping(struct fixture *f, int ranks, int *nodes)
{
    const struct job_map map = {.job_id = (char *)"job-1",
                                .rank_nodes = nodes,
                                .ranks = ranks,
                                .local = (int[]){0},
                                .local_count = 1};
    pmi1_free(f->p);
    f->p = pmi1_new(&map, &ev, f, &of_ranks, f);
    return ask(f, 0, "cmd=get kvsname=job-1 key=PMI_process_mapping\n");
}

TEST(ranks_get_the_mapping_of_ranks_to_nodes)
{
    struct fixture *f = start();
    CHECK_STR(mapping(f, 5, (int[]){0, 0, 1, 0, 2}),
              "cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1),(0,1,1),(2,1,1))\n");
    static int many[1000];
    for (int i = 0; i < 1000; i++)
        many[i] = i;
    CHECK_STR(mapping(f, 1000, many), "cmd=get_result rc=-1 msg=not_found value=unknown\n");
    stop(f);
}

TEST(a_rank_with_another_version_is_rejected_and_has_not_joined)
{
    struct fixture *f = start();
    CHECK_STR(ask(f, 0, "cmd=init pmi_version=2 pmi_subversion=0\n"),
              "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
    CHECK_INT(f->joined[0], 0);
    stop(f);
}

TEST(what_one_rank_puts_another_gets)
{
    struct fixture *f = start();
    CHECK_STR(ask(f, 0, "cmd=put kvsname=job-1 key=bc-0 value=mpi#02008$x=y\n"),
              "cmd=put_result rc=0 msg=success\n");
    CHECK_STR(ask(f, 2, "cmd=get kvsname=job-1 key=bc-0\n"),
              "cmd=get_result rc=0 msg=success value=mpi#02008$x=y\n");
    CHECK_STR(ask(f, 2, "cmd=get kvsname=job-1 key=bc-1\n"),
              "cmd=get_result rc=-1 msg=not_found value=unknown\n");
    stop(f);
}

TEST(a_key_or_a_value_that_is_too_long_or_missing_is_rejected)
{
    struct fixture *f = start();
    const char *refused = "cmd=put_result rc=-1 msg=missing_or_too_long\n";
    AUTO(strbuf) struct strbuf line = {0};
    strbuf_printf(&line, "cmd=put key=a value=%01024d\n", 0);
    CHECK_STR(ask(f, 0, strbuf_str(&line)), refused);
    strbuf_reset(&line);
    strbuf_printf(&line, "cmd=put key=%064d value=a\n", 0);
    CHECK_STR(ask(f, 0, strbuf_str(&line)), refused);
    CHECK_STR(ask(f, 0, "cmd=put key=a\n"), refused);
    strbuf_reset(&line);
    strbuf_printf(&line, "cmd=put key=%063d value=%01023d\n", 1, 2);
    CHECK_STR(ask(f, 0, strbuf_str(&line)), "cmd=put_result rc=0 msg=success\n");
    stop(f);
}

TEST(the_store_is_limited)
{
    struct fixture *f = start();
    const char *answer = "";
    int n = 0;
    for (; n < 10000 && !strstr(answer, "store_is_full"); n++) {
        AUTO(free) char *line = xasprintf("cmd=put key=k%d value=1\n", n);
        answer = ask(f, 0, line);
    }
    CHECK_INT(n, RANKS * 1024); /* with the mapping */
    stop(f);
}

TEST(no_rank_leaves_a_barrier_before_it_has_ended)
{
    struct fixture *f = start();
    for (int again = 0; again < 2; again++) {
        CHECK_STR(ask(f, 2, "cmd=barrier_in\n"), "");
        CHECK_STR(ask(f, 0, "cmd=barrier_in\n"), "");
        CHECK(!f->barrier);
        CHECK_STR(ask(f, 1, "cmd=barrier_in\n"), "");
        CHECK(f->barrier);
        f->barrier = false;
        end_barrier(f->p, NULL, 0);
        for (int i = 0; i < RANKS; i++)
            CHECK_STR(strbuf_str(&f->said[i]), "cmd=barrier_out\n");
    }
    stop(f);
}

static void enter_barrier(struct fixture *f)
{
    f->barrier = false;
    for (int i = 0; i < RANKS; i++)
        ask(f, i, "cmd=barrier_in\n");
    CHECK(f->barrier);
}

TEST(a_barrier_has_the_values_that_were_put_since_the_last_one)
{
    struct fixture *f = start();
    ask(f, 0, "cmd=put key=a value=1\n");
    ask(f, 2, "cmd=put key=b value=\n");
    enter_barrier(f);
    CHECK_INT(f->puts.len, 7);
    CHECK(memcmp(f->puts.data, "a\0001\0b\0", 7) == 0);
    end_barrier(f->p, f->puts.data, f->puts.len);
    enter_barrier(f);
    CHECK_INT(f->puts.len, 0);
    stop(f);
}

TEST(a_barrier_adds_the_values_of_other_nodes)
{
    struct fixture *f = start();
    enter_barrier(f);
    const char data[] = "far\0002\0near\0003\0cut";
    end_barrier(f->p, data, sizeof data - 1);
    CHECK_STR(ask(f, 0, "cmd=get key=far\n"), "cmd=get_result rc=0 msg=success value=2\n");
    CHECK_STR(ask(f, 1, "cmd=get key=near\n"), "cmd=get_result rc=0 msg=success value=3\n");
    CHECK_STR(ask(f, 1, "cmd=get key=cut\n"), "cmd=get_result rc=-1 msg=not_found value=unknown\n");
    stop(f);
}

TEST(a_node_that_has_some_ranks_knows_the_size_of_the_job_and_their_numbers)
{
    int nodes[] = {0, 1, 0, 1}, local[] = {1, 3};
    const struct job_map map = {.job_id = (char *)"job-1",
                                .node_count = 2,
                                .rank_nodes = nodes,
                                .ranks = 4,
                                .node = 1,
                                .local = local,
                                .local_count = 2};
    struct fixture *f = start();
    pmi1_free(f->p);
    f->p = pmi1_new(&map, &ev, f, &of_ranks, f);
    CHECK_STR(ask(f, 0, "cmd=get_universe_size\n"), "cmd=universe_size size=4\n");
    CHECK_STR(ask(f, 0, "cmd=barrier_in\n"), "");
    CHECK(!f->barrier);
    ask(f, 1, "cmd=finalize\n");
    CHECK_INT(f->finalized[3], 1);
    struct err e = {0};
    CHECK_INT(pmi1_recv(f->p, 1, "x\n", 2, &e), -EPROTO);
    CHECK_STR(e.text, "rank 3: unexpected PMI-1 line 'x'");
    stop(f);
}

/* Returns the answer to the request that the rank has made. */
static const char *answer(struct fixture *f, int rank, int status, const char *data)
{
    strbuf_reset(&f->said[rank]);
    pmi1_deliver(f->p, &(struct exchange_message){.type = EXCHANGE_FOUND,
                                                  .kind = EXCHANGE_PMI1,
                                                  .id = f->request_id,
                                                  .status = status,
                                                  .data = data,
                                                  .len = data ? strlen(data) : 0});
    return strbuf_str(&f->said[rank]);
}

TEST(requests_about_names_are_answered_when_the_exchange_has_answered)
{
    struct fixture *f = start();
    CHECK_STR(ask(f, 2, "cmd=publish_name service=sea port=tag#0$\n"), "");
    CHECK_INT(f->request, EXCHANGE_PUBLISH);
    CHECK_INT(f->request_rank, 2);
    CHECK_STR(f->service, "sea");
    CHECK_STR(f->port, "tag#0$");
    CHECK_STR(answer(f, 2, EXCHANGE_OK, NULL), "cmd=publish_result rc=0 msg=success\n");
    CHECK_STR(answer(f, 2, EXCHANGE_OK, NULL), ""); /* once */
    ask(f, 1, "cmd=publish_name service=sea port=x\n");
    CHECK_STR(answer(f, 1, EXCHANGE_DUPLICATE, NULL),
              "cmd=publish_result rc=-1 msg=already_published\n");
    CHECK_STR(ask(f, 0, "cmd=lookup_name service=sea\n"), "");
    CHECK_INT(f->request, EXCHANGE_LOOKUP);
    CHECK_STR(answer(f, 0, EXCHANGE_OK, "tag#0$"),
              "cmd=lookup_result rc=0 msg=success port=tag#0$\n");
    ask(f, 0, "cmd=lookup_name service=sky\n");
    CHECK_STR(answer(f, 0, EXCHANGE_NOT_FOUND, NULL),
              "cmd=lookup_result rc=-1 msg=not_found port=unknown\n");
    ask(f, 2, "cmd=unpublish_name service=sea\n");
    CHECK_INT(f->request, EXCHANGE_UNPUBLISH);
    CHECK_STR(answer(f, 2, EXCHANGE_NOT_FOUND, NULL), "cmd=unpublish_result rc=-1 msg=not_found\n");
    CHECK_STR(ask(f, 2, "cmd=publish_name service=sea\n"),
              "cmd=publish_result rc=-1 msg=missing_or_too_long\n");
    stop(f);
}

TEST(an_answer_that_nobody_waits_for_or_that_is_too_long_does_no_harm)
{
    struct fixture *f = start();
    AUTO(free) char *port = xasprintf("%02000d", 1);
    f->request_id = 99;
    CHECK_STR(answer(f, 0, EXCHANGE_OK, NULL), "");
    ask(f, 0, "cmd=lookup_name service=sea\n");
    CHECK_STR(answer(f, 0, EXCHANGE_OK, port), "");
    CHECK_STR(answer(f, 0, -1, NULL), "cmd=lookup_result rc=-1 msg=failed port=unknown\n");
    stop(f);
}

TEST(an_abort_has_a_rank_and_a_code)
{
    struct fixture *f = start();
    CHECK_STR(ask(f, 2, "cmd=abort exitcode=7 message=why\n"), "");
    CHECK_INT(f->aborted, 2);
    CHECK_INT(f->code, 7);
    stop(f);
}

TEST(a_spawn_is_refused_after_its_last_line)
{
    struct fixture *f = start();
    CHECK_STR(ask(f, 0, "mcmd=spawn\nnprocs=1\nexecname=true\nspawnssofar=1\n"), "");
    CHECK_INT(f->spawns, 0);
    CHECK_STR(ask(f, 0, "mcmd=spawn\nnprocs=1\nexecname=cmd=abort exitcode=3\nendcmd\n"),
              "cmd=spawn_result rc=-1 msg=not_served\n");
    CHECK_INT(f->spawns, 1);
    CHECK_INT(f->aborted, -1);
    CHECK_STR(ask(f, 0, "cmd=get_appnum\n"), "cmd=appnum appnum=0\n");
    stop(f);
}

TEST(lines_may_arrive_in_any_pieces)
{
    struct fixture *f = start();
    const char *text = "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_appnum\n";
    for (size_t i = 0; text[i]; i++)
        CHECK_INT(pmi1_recv(f->p, 0, text + i, 1, NULL), 0);
    CHECK_STR(strbuf_str(&f->said[0]),
              "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=appnum appnum=0\n");
    stop(f);
}

TEST(an_unexpected_line_is_an_error_that_shows_it)
{
    static const char *const lines[] = {"\n",
                                        "GET / HTTP/1.1\n",
                                        "cmd=\n",
                                        "cmd=getmaxes\n",
                                        "cmd=get_maxesx\n",
                                        "cmd=barrier_in\ncmd=barrier_in\n",
                                        "cmd=lookup_name service=a\ncmd=lookup_name service=b\n"};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct fixture *f = start();
        struct err e = {0};
        CHECK_INT(pmi1_recv(f->p, 1, lines[i], strlen(lines[i]), &e), -EPROTO);
        CHECK(strstr(e.text, "rank 1: unexpected PMI-1 line '"));
        stop(f);
    }
    struct fixture *f = start();
    struct err e = {0};
    int rc = 0;
    for (int i = 0; i < 5000 && rc == 0; i++)
        rc = pmi1_recv(f->p, 1, "x", 1, &e);
    CHECK_INT(rc, -EMSGSIZE);
    CHECK_STR(e.text, "rank 1: a line of PMI-1 exceeds 4096 bytes");
    stop(f);
}

TEST(lines_changed_at_random_do_no_harm)
{
    static const char *const corpus[] = {"cmd=init pmi_version=1 pmi_subversion=1\n",
                                         "cmd=get_maxes\n",
                                         "cmd=put kvsname=job-1 key=a value=b\n",
                                         "cmd=get kvsname=job-1 key=a\n",
                                         "cmd=barrier_in\n",
                                         "mcmd=spawn\nnprocs=1\nendcmd\n",
                                         "cmd=publish_name service=a port=b\n",
                                         "cmd=lookup_name service=a\n",
                                         "cmd=abort exitcode=1\n",
                                         "cmd=finalize\n"};
    long seed = getenv("DROVER_FUZZ_SEED") ? atol(getenv("DROVER_FUZZ_SEED")) : (long)time(NULL);
    printf("# DROVER_FUZZ_SEED=%ld\n", seed);
    unsigned short rng[3] = {(unsigned short)seed, (unsigned short)(seed >> 16), 7};
    struct fixture *f = start();
    for (int i = 0; i < 100000; i++) {
        char line[64];
        const char *from = corpus[(size_t)nrand48(rng) % COUNT_OF(corpus)];
        size_t len = strlen(from);
        memcpy(line, from, len);
        for (long n = nrand48(rng) % 3; n > 0; n--)
            line[(size_t)nrand48(rng) % len] = "= \n\0\xff"
                                               "cmd1\\"[nrand48(rng) % 10];
        strbuf_reset(&f->said[i % RANKS]);
        struct err e = {0};
        int rc = pmi1_recv(f->p, i % RANKS, line, len, &e);
        CHECK(rc == 0 || e.text[0]);
        if (f->barrier)
            end_barrier(f->p, f->puts.data, f->puts.len);
        f->barrier = false;
        answer(f, i % RANKS, EXCHANGE_OK, NULL);
        if (rc < 0) { /* as if all were disconnected */
            stop(f);
            f = start();
        }
    }
    stop(f);
}
