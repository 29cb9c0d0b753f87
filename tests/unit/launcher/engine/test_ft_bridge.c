/* ft_bridge: when its process is started, and what its end means. PYTHON_EXEC names a stand-in for
 * Python; tests/e2e/test_ft_launcher.py runs the real one. */
#include "launcher/engine/ft_bridge.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/test.h"

enum { RANKS = 3 };

static int packets[RANKS];
static char last[64];

static void on_packet(void *arg, int rank, const char *json, size_t len)
{
    uv_loop_t *loop = arg;
    packets[rank]++;
    snprintf(last, sizeof last, "%.*s", (int)len, json);
    if (packets[0] && packets[1] && packets[2])
        uv_stop(loop);
}

static void on_limit(uv_timer_t *t)
{
    uv_stop(t->loop);
}

/* Runs the loop until each rank has a packet, or for `ms`. */
static void run(uv_loop_t *loop, uint64_t ms)
{
    uv_timer_t limit;
    uv_timer_init(loop, &limit);
    uv_timer_start(&limit, on_limit, ms, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&limit, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
}

static struct ft_bridge *open_bridge(uv_loop_t *loop, const char *python)
{
    struct report_channel_events ev = {.packet = on_packet, .arg = loop};
    static struct err e;
    struct ft_bridge *b = NULL;
    char exec[64], *env[] = {exec, NULL};
    snprintf(exec, sizeof exec, "PYTHON_EXEC=%s", python);
    memset(packets, 0, sizeof packets);
    CHECK_INT(uv_loop_init(loop), 0);
    if (ft_bridge_open(&b, loop, "{}", env, RANKS, &ev, &e) < 0)
        FAIL("%s", e.text);
    return b;
}

static void close_bridge(uv_loop_t *loop, struct ft_bridge *b)
{
    ft_bridge_close(b);
    uv_run(loop, UV_RUN_DEFAULT); /* ends: no handle is left */
    CHECK_INT(uv_loop_close(loop), 0);
}

static int connect_to(const struct ft_bridge *b, int rank)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *path = ft_bridge_socket(b, rank);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    free(path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -errno : fd;
}

TEST(no_process_is_started_before_a_client_connects)
{
    uv_loop_t loop;
    struct ft_bridge *b = open_bridge(&loop, "/bin/false"); /* its end would be seen */
    run(&loop, 50);
    CHECK_INT(packets[0] + packets[1] + packets[2], 0);
    close_bridge(&loop, b);
}

TEST(if_the_process_ends_all_clients_count_as_disconnected_and_others_cannot_connect)
{
    uv_loop_t loop;
    struct ft_bridge *b = open_bridge(&loop, "/bin/false");
    int client = connect_to(b, 1);
    CHECK(client >= 0);
    run(&loop, 30000);
    for (int i = 0; i < RANKS; i++)
        CHECK_INT(packets[i], 1);
    CHECK_STR(last, "{\"kind\":\"disconnect\"}");
    CHECK_INT(connect_to(b, 0), -ECONNREFUSED);
    close(client);
    close_bridge(&loop, b);
}

TEST(a_python_that_cannot_be_started_refuses_the_clients)
{
    uv_loop_t loop;
    struct ft_bridge *b = open_bridge(&loop, "/none/python3");
    int client = connect_to(b, 2);
    CHECK(client >= 0);
    run(&loop, 100);
    char byte;
    CHECK(recv(client, &byte, 1, 0) <= 0);
    CHECK_INT(connect_to(b, 0), -ECONNREFUSED);
    close(client);
    close_bridge(&loop, b);
}

TEST(closing_ends_a_process_that_runs)
{
    uv_loop_t loop;
    struct ft_bridge *b = open_bridge(&loop, "/usr/bin/yes"); /* runs until it is killed */
    int devnull = open("/dev/null", O_WRONLY), out = dup(2);
    int client = connect_to(b, 0);
    CHECK(client >= 0 && devnull >= 0 && dup2(devnull, 2) == 2); /* where it writes */
    run(&loop, 200);
    dup2(out, 2);
    close(out);
    close(devnull);
    CHECK_INT(packets[0], 0);
    close(client);
    close_bridge(&loop, b);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST(the_check_tells_how_to_install_the_extension)
{
    struct err e = {0};
    setenv("PYTHON_EXEC", "/bin/true", 1);
    CHECK_INT(ft_bridge_check(&e), 0);
    setenv("PYTHON_EXEC", "/bin/false", 1);
    CHECK_INT(ft_bridge_check(&e), -ENOENT);
    CHECK_HAS(e.text, "/bin/false has no module nvidia_resiliency_ext");
    CHECK_STR(e.hint, "pip install nvidia-resiliency-ext");
    setenv("PYTHON_EXEC", "/none/python3", 1);
    CHECK_INT(ft_bridge_check(&e), -ENOENT);
    CHECK_HAS(e.text, "/none/python3: ");
}
