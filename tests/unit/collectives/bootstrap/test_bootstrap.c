#include "collectives/bootstrap/bootstrap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "tests/unit/test.h"

/* Returns a free port; listens on it if `fd` is given. */
static int some_port(int *fd)
{
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    CHECK(bind(s, (struct sockaddr *)&at, len) == 0 && listen(s, 16) == 0);
    CHECK(getsockname(s, (struct sockaddr *)&at, &len) == 0);
    if (fd)
        *fd = s;
    else
        close(s);
    return ntohs(at.sin_port);
}

static void set_job(const char *id, int port)
{
    char text[16];
    snprintf(text, sizeof text, "%d", port);
    unsetenv("PMIX_NAMESPACE");
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", text, 1);
    setenv("DROVER_JOB_ID", id, 1);
}

/* A rank that publishes its number `rounds` times. Its exit status: 0, or the fence's error. */
static int meet(int rank, int size, int rounds, int timeout_ms, struct err *e)
{
    struct rank_identity who = {rank, size, rank, size, 0, "RANK"};
    for (int i = 0; i < rounds; i++) {
        struct bootstrap *x = bootstrap_new(&who);
        const struct bootstrap_ops *t = &x->table;
        int mine[3] = {rank, i, rank * 7 + i}, got[3];
        int rc = t->put(t->arg, "other", "x", 1, e);
        if (rc == 0)
            rc = t->put(t->arg, "mine", mine, sizeof mine, e);
        if (rc == 0)
            rc = t->fence(t->arg, timeout_ms, e);
        for (int r = 0; r < size && rc == 0; r++) {
            rc = t->get(t->arg, r, "mine", got, sizeof got, e);
            if (rc == 0 && (got[0] != r || got[1] != i || got[2] != r * 7 + i))
                rc = err_set(e, -EPROTO, "rank %d said %d %d %d", r, got[0], got[1], got[2]);
        }
        if (rc == 0 && t->get(t->arg, 0, "mine", got, 4, NULL) != -EPROTO)
            rc = err_set(e, -EIO, "another size was given");
        if (rc == 0 && t->get(t->arg, 0, "nothing", got, 4, NULL) != -EPROTO)
            rc = err_set(e, -EIO, "a get returned what no rank has put");
        bootstrap_free(x);
        if (rc < 0)
            return rc;
    }
    return 0;
}

struct rank {
    pid_t pid;
    int out; /* pipe for the text and hint of its error */
};

static struct rank start(int rank, int size, int rounds, int timeout_ms)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct rank r = {.pid = fork(), .out = ends[0]};
    CHECK(r.pid >= 0);
    if (r.pid == 0) {
        struct err e = {0};
        int rc = meet(rank, size, rounds, timeout_ms, &e);
        if (rc < 0)
            (void)!write(ends[1], e.text, strlen(e.text));
        _exit(rc == 0 ? 0 : rc == -ETIMEDOUT ? 3 : rc == -EPROTO ? 4 : 1);
    }
    close(ends[1]);
    return r;
}

static int end_of(struct rank r, char *text)
{
    int status, n = 0, got;
    while ((got = (int)read(r.out, text + n, 511 - (size_t)n)) > 0)
        n += got;
    text[n] = '\0';
    close(r.out);
    CHECK(waitpid(r.pid, &status, 0) == r.pid);
    if (n)
        printf("# %s\n", text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ranks_see_what_all_have_put_round_after_round)
{
    struct rank all[5];
    char text[512];
    set_job("rounds", some_port(NULL));
    for (int r = 4; r >= 0; r--) /* rank 0 connects last */
        all[r] = start(r, 5, 4, 10000);
    for (int r = 0; r < 5; r++)
        CHECK_INT(end_of(all[r], text), 0);
}

/* Gathers twice, and only waits in between. */
static int gather(int rank, int size)
{
    struct rank_identity who = {rank, size, rank, size, 0, "RANK"};
    for (int i = 0; i < 2; i++) {
        int mine[2] = {rank, i}, all[8] = {0};
        CHECK_INT(bootstrap_gather(&who, mine, sizeof mine, all, 10000, NULL), 0);
        for (int r = 0; r < size; r++)
            CHECK(all[2 * r] == r && all[2 * r + 1] == i);
        CHECK_INT(bootstrap_gather(&who, "", 1, NULL, 10000, NULL), 0);
    }
    return 0;
}

TEST(a_gather_gives_every_rank_what_all_have_put_and_one_rank_needs_no_server)
{
    set_job("gather", some_port(NULL));
    int status;
    pid_t others[2];
    for (int r = 1; r < 3; r++)
        if ((others[r - 1] = fork()) == 0)
            _exit(gather(r, 3));
    CHECK_INT(gather(0, 3), 0);
    for (int i = 0; i < 2; i++)
        CHECK(waitpid(others[i], &status, 0) == others[i] && status == 0);
    unsetenv("MASTER_ADDR");
    CHECK_INT(gather(0, 1), 0);
}

TEST(missing_ranks_are_named_with_their_node_at_every_rank)
{
    struct rank all[2];
    char text[512], host[128] = "";
    gethostname(host, sizeof host - 1);
    set_job("missing", some_port(NULL));
    setenv("LOCAL_WORLD_SIZE", "4", 1);
    for (int r = 0; r < 2; r++)
        all[r] = start(r, 4, 1, 300);
    AUTO(free) char *want = xasprintf("missing: node %.63s: ranks 2-3", host);
    for (int r = 0; r < 2; r++) {
        CHECK_INT(end_of(all[r], text), 3);
        CHECK_HAS(text, want);
    }
}

TEST(a_rank_whose_own_deadline_is_short_is_told_too_and_ends_the_wait_of_all)
{
    char text[512];
    set_job("short", some_port(NULL));
    struct rank zero = start(0, 3, 1, 15000), one = start(1, 3, 1, 300);
    CHECK_INT(end_of(one, text), 3);
    CHECK_HAS(text, "rank 1 on node ");
    CHECK_HAS(text, "missing: rank 2");
    CHECK_INT(end_of(zero, text), 3);
    CHECK_HAS(text, "exited or timed out; missing: rank 2");
}

TEST(where_rank_0_stays_away_that_is_said)
{
    char text[512];
    set_job("nobody", some_port(NULL));
    CHECK_INT(end_of(start(1, 2, 1, 200), text), 3);
    CHECK_HAS(text, "rank 0 does not answer at 127.0.0.1");
}

TEST(a_rank_of_another_size_is_turned_away_and_named)
{
    char text[512];
    set_job("size", some_port(NULL));
    struct rank zero = start(0, 2, 1, 600);
    CHECK_INT(end_of(start(1, 3, 1, 5000), text), 4);
    CHECK_HAS(text, "world size 3 at rank 1 on node");
    CHECK_INT(end_of(zero, text), 3);
    CHECK_HAS(text, "missing: rank 1; rejected: world size 3 at rank 1");
}

TEST(a_rank_that_is_there_twice_is_turned_away_and_the_others_go_on)
{
    char text[512], other[512];
    set_job("twice", some_port(NULL));
    struct rank zero = start(0, 3, 1, 10000);
    struct rank one = start(1, 3, 1, 10000), again = start(1, 3, 1, 10000);
    /* Either may be accepted first, so the one that ends first is the rejected one. */
    struct pollfd p[2] = {{one.out, POLLIN, 0}, {again.out, POLLIN, 0}};
    CHECK(poll(p, 2, 10000) > 0);
    bool first = p[0].revents;
    CHECK_INT(end_of(first ? one : again, text), 4);
    CHECK_HAS(text, "connected twice");
    struct rank two = start(2, 3, 1, 10000);
    CHECK_INT(end_of(first ? again : one, other), 0);
    CHECK_INT(end_of(two, text), 0);
    CHECK_INT(end_of(zero, text), 0);
}

static int connect_to(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (;;) {
        int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(s, (struct sockaddr *)&to, sizeof to) == 0)
            return s;
        close(s);
        poll(NULL, 0, 5);
    }
}

TEST(scanners_and_garbage_are_no_ranks_and_harm_nobody)
{
    char text[512], garbage[4096];
    memset(garbage, 0xa5, sizeof garbage);
    int port = some_port(NULL);
    char chosen[16];
    snprintf(chosen, sizeof chosen, "%d", port);
    set_job("garbage", port);
    setenv("DROVER_BOOT_PORT", chosen, 1);
    struct rank zero = start(0, 2, 1, 10000);
    for (int i = 0; i < 200; i++) { /* more keys than fit at once */
        int s = connect_to(port);
        if (i % 2)
            (void)!send(s, garbage, i % 3 ? sizeof garbage : 5, MSG_NOSIGNAL);
        if (i % 4)
            close(s);
    }
    CHECK_INT(end_of(start(1, 2, 1, 10000), text), 0);
    CHECK_INT(end_of(zero, text), 0);
}

TEST(torchs_port_is_not_touched_and_two_jobs_on_one_port_do_not_mix)
{
    char text[512];
    int torch = -1, port = some_port(&torch);
    struct rank all[2][2];
    for (int r = 1; r >= 0; r--)
        for (int j = 0; j < 2; j++) {
            set_job(j ? "this" : "that", port);
            all[j][r] = start(r, 2, 2, 10000);
        }
    for (int j = 0; j < 2; j++)
        for (int r = 0; r < 2; r++)
            CHECK_INT(end_of(all[j][r], text), 0);
    struct pollfd p = {.fd = torch, .events = POLLIN};
    CHECK_INT(poll(&p, 1, 0), 0);
}

TEST(a_rank_that_nobody_told_where_rank_0_is_says_so)
{
    struct err e = {0};
    set_job("none", 1);
    unsetenv("MASTER_PORT");
    CHECK_INT(meet(0, 2, 1, 1000, &e), -ENOTSUP);
    CHECK_HAS(e.text, "MASTER_ADDR and MASTER_PORT are not set");
    CHECK_HAS(e.hint, "drover run");
    setenv("MASTER_PORT", "70000", 1);
    CHECK_INT(meet(0, 2, 1, 1000, &e), -EINVAL);
    CHECK_HAS(e.text, "MASTER_PORT: invalid port '70000'");
}
