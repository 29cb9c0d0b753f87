/* pmi1_server: ranks at the other ends of their sockets. (That MPICH's programs connect through it
 * is tests/e2e/test_run_mpich.py's matter.) */
#include "launcher/pmi/pmi1_server.h"

#include <errno.h>
#include <sys/socket.h>

#include "launcher/node/topo.h"
#include "launcher/plan/env.h"
#include "tests/unit/test.h"

enum { RANKS = 2 };

struct fixture {
    uv_loop_t loop;
    struct topo *topo;
    struct plan *plan;
    struct pmi1_server *s;
    int fd[RANKS];
    char **env[RANKS];
    int joined, finalized, aborted_by, code;
};

static void on_rank_event(void *arg, enum rank_event ev, int rank, int code)
{
    struct fixture *f = arg;
    f->joined += ev == RANK_JOINED || ev == RANK_SPAWNS;
    f->finalized += ev == RANK_FINALIZED;
    if (ev != RANK_ABORTED)
        return;
    f->aborted_by = rank;
    f->code = code;
}

static void start(struct fixture *f)
{
    static const struct rank_events ev = {.event = on_rank_event};
    char *argv[] = {(char *)"true", NULL};
    struct launch_spec spec = {
        .ranks = RANKS, .argv = argv, .oversubscribe = true, .job_id = "job-1"};
    struct err e = {0};
    *f = (struct fixture){.aborted_by = -1};
    uv_loop_init(&f->loop);
    if (topo_load(&f->topo, &e) < 0 || plan_make(&f->plan, &spec, f->topo, environ, &e) < 0)
        FAIL("%s", e.text);
    AUTO(job_map) struct job_map *map = job_map_new(f->plan, 0);
    f->s = pmi1_server_open(&f->loop, map, &ev, f);
    for (int i = 0; i < RANKS; i++)
        CHECK_INT(pmi1_server_rank(f->s, i, &f->fd[i], &f->env[i], NULL), 0);
}

static void stop(struct fixture *f)
{
    pmi1_server_close(f->s);
    CHECK_INT(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&f->loop), 0);
    for (int i = 0; i < RANKS; i++) {
        close(f->fd[i]);
        strv_free(f->env[i]);
    }
    plan_free(f->plan);
    topo_free(f->topo);
}

static void say(struct fixture *f, int rank, const char *text)
{
    CHECK_INT(send(f->fd[rank], text, strlen(text), 0), (long)strlen(text));
}

/* Returns what the rank reads after a turn of the loop; "" if there is nothing, or the socket is
 * closed. */
static const char *hear(struct fixture *f, int rank)
{
    static char text[256];
    uv_run(&f->loop, UV_RUN_NOWAIT);
    ssize_t n = recv(f->fd[rank], text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

TEST(ranks_get_their_number_and_exchange_values)
{
    struct fixture f;
    start(&f);
    CHECK_STR(env_get(f.env[1], "PMI_RANK"), "1");
    CHECK_STR(env_get(f.env[1], "PMI_SIZE"), "2");
    say(&f, 0, "cmd=init pmi_version=1 pmi_subversion=1\ncmd=put key=a value=b\n");
    CHECK_STR(hear(&f, 0), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
                           "cmd=put_result rc=0 msg=success\n");
    CHECK_INT(f.joined, 1);
    say(&f, 1, "cmd=get key=a\ncmd=barrier_in\n");
    CHECK_STR(hear(&f, 1), "cmd=get_result rc=0 msg=success value=b\n");
    say(&f, 0, "cmd=barrier_in\n");
    CHECK_STR(hear(&f, 0), "cmd=barrier_out\n");
    CHECK_STR(hear(&f, 1), "cmd=barrier_out\n");
    stop(&f);
}

TEST(names_work_on_one_node_without_an_exchange)
{
    struct fixture f;
    start(&f);
    say(&f, 1, "cmd=lookup_name service=sea\n");
    CHECK_STR(hear(&f, 1), "cmd=lookup_result rc=-1 msg=not_found port=unknown\n");
    say(&f, 0, "cmd=publish_name service=sea port=tag#0$\n");
    CHECK_STR(hear(&f, 0), "cmd=publish_result rc=0 msg=success\n");
    say(&f, 1, "cmd=lookup_name service=sea\n");
    CHECK_STR(hear(&f, 1), "cmd=lookup_result rc=0 msg=success port=tag#0$\n");
    say(&f, 0, "cmd=unpublish_name service=sea\n");
    CHECK_STR(hear(&f, 0), "cmd=unpublish_result rc=0 msg=success\n");
    say(&f, 0, "cmd=unpublish_name service=sea\n");
    CHECK_STR(hear(&f, 0), "cmd=unpublish_result rc=-1 msg=not_found\n");
    stop(&f);
}

TEST(a_rank_with_an_invalid_line_is_disconnected_and_the_others_are_served)
{
    struct fixture f;
    start(&f);
    say(&f, 0, "GET / HTTP/1.1\r\n\r\n");
    CHECK_STR(hear(&f, 0), "");
    CHECK_INT(recv(f.fd[0], &(char){0}, 1, MSG_DONTWAIT), 0); /* closed */
    say(&f, 1, "cmd=get_appnum\n");
    CHECK_STR(hear(&f, 1), "cmd=appnum appnum=0\n");
    stop(&f);
}

TEST(a_rank_that_reads_no_answers_is_disconnected)
{
    struct fixture f;
    start(&f);
    const char *ask = "cmd=get_my_kvsname\n";
    int asked = 0;
    for (; asked < 1000000; asked++)
        if (send(f.fd[0], ask, strlen(ask), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
            break;
        else
            uv_run(&f.loop, UV_RUN_NOWAIT);
    CHECK(asked < 1000000);
    stop(&f);
}

TEST(the_last_lines_of_a_rank_that_has_exited_are_read)
{
    struct fixture f;
    start(&f);
    say(&f, 1, "cmd=finalize\ncmd=abort exitcode=5\n");
    CHECK_INT(f.aborted_by, -1);
    pmi1_server_drain(f.s, 1);
    CHECK_INT(f.finalized, 1);
    CHECK_INT(f.aborted_by, 1);
    CHECK_INT(f.code, 5);
    close(f.fd[0]);
    f.fd[0] = -1;
    pmi1_server_drain(f.s, 0);
    pmi1_server_drain(f.s, 0);
    stop(&f);
}

/* ---- two nodes ------------------------------------------------------------------------------ */

static struct strbuf sent; /* data of the last message that the server has sent */
static int sent_count;
static enum exchange_type sent_type;
static uint64_t sent_id;

static void on_exchange(void *arg, const struct exchange_message *m)
{
    CHECK_INT(m->kind, EXCHANGE_PMI1);
    sent_type = m->type;
    sent_id = m->id;
    CHECK_INT((int)m->rank_count, 0);
    strbuf_reset(&sent);
    strbuf_add(&sent, m->data, m->len);
    sent_count++;
}

TEST(barriers_and_lookups_of_several_nodes_end_when_the_exchange_says_so)
{
    static const struct rank_events ev = {on_rank_event, on_exchange};
    int nodes[] = {0, 1, 0, 1}, local[] = {1, 3};
    const struct job_map map = {.job_id = (char *)"job-1",
                                .node_count = 2,
                                .rank_nodes = nodes,
                                .ranks = 4,
                                .node = 1,
                                .local = local,
                                .local_count = 2};
    struct fixture f = {.aborted_by = -1};
    uv_loop_init(&f.loop);
    f.s = pmi1_server_open(&f.loop, &map, &ev, &f);
    for (int i = 0; i < 2; i++)
        CHECK_INT(pmi1_server_rank(f.s, local[i], &f.fd[i], &f.env[i], NULL), 0);
    CHECK_STR(env_get(f.env[1], "PMI_RANK"), "3");
    CHECK_STR(env_get(f.env[1], "PMI_SIZE"), "4");
    say(&f, 0, "cmd=put key=a value=b\ncmd=barrier_in\n");
    CHECK_STR(hear(&f, 0), "cmd=put_result rc=0 msg=success\n");
    CHECK_INT(sent_count, 0);
    say(&f, 1, "cmd=barrier_in\n");
    CHECK_STR(hear(&f, 1), "");
    CHECK_INT(sent_count, 1);
    CHECK_INT(sent_type, EXCHANGE_FENCE);
    CHECK(sent.len == 4 && memcmp(sent.data, "a\0b", 4) == 0);
    const struct exchange_message done = {
        .type = EXCHANGE_FENCE_DONE, .kind = EXCHANGE_PMI1, .data = "c\0d", .len = 4};
    pmi1_server_deliver(f.s, &done);
    CHECK_STR(hear(&f, 0), "cmd=barrier_out\n");
    CHECK_STR(hear(&f, 1), "cmd=barrier_out\n");
    say(&f, 1, "cmd=lookup_name service=sea\n");
    CHECK_STR(hear(&f, 1), "");
    CHECK_INT(sent_type, EXCHANGE_LOOKUP);
    const struct exchange_message found = {
        .type = EXCHANGE_FOUND, .kind = EXCHANGE_PMI1, .id = sent_id, .data = "port", .len = 4};
    pmi1_server_deliver(f.s, &found);
    CHECK_STR(hear(&f, 1), "cmd=lookup_result rc=0 msg=success port=port\n");
    say(&f, 1, "cmd=get key=c\ncmd=abort exitcode=5\n");
    CHECK_STR(hear(&f, 1), "cmd=get_result rc=0 msg=success value=d\n");
    CHECK_INT(f.aborted_by, 3);
    strbuf_free(&sent);
    stop(&f);
}
