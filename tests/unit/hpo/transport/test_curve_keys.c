/* test_curve_keys - the keys of a sweep: made once, written for workers, readable for the user
 * only. */
#include "hpo/transport/curve_keys.h"

#include <sys/stat.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static char dir[64];

static char *in_dir(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static void make_dir(void)
{
    strcpy(dir, "/tmp/test_curve_keys.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
}

static void remove_dir(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    CHECK_INT(system(cmd), 0);
}

static bool equal(const void *a, const void *b)
{
    return memcmp(a, b, CURVE_KEYS_BYTES) == 0;
}

TEST(keys_are_made_once_and_a_workers_key_fits_the_coordinators)
{
    make_dir();
    struct err e = {0};
    struct curve_keys server, worker, again, given;
    CHECK_INT(curve_keys_of_sweep(&server, &worker, dir, &e), 0);
    CHECK_INT(curve_keys_of_sweep(&again, &worker, dir, &e), 0);
    CHECK(memcmp(&server, &again, sizeof server) == 0);
    CHECK(equal(server.other, worker.own) && equal(worker.other, server.own));
    CHECK(!equal(server.own, worker.own) && !equal(server.secret, server.own));

    AUTO(free) char *path = in_dir("worker.key"), *endpoint = NULL;
    CHECK_INT(curve_keys_give(&worker, dir, "tcp://[::1]:4711", &e), 0);
    CHECK_INT(curve_keys_give(&worker, dir, "tcp://c01:4711", &e), 0); /* replaces the file */
    CHECK_INT(curve_keys_read(&given, &endpoint, path, &e), 0);
    CHECK_STR(endpoint, "tcp://c01:4711");
    CHECK(memcmp(&given, &worker, sizeof given) == 0);
    remove_dir();
}

TEST(a_key_file_is_readable_for_its_owner_only)
{
    make_dir();
    struct err e = {0};
    struct curve_keys server, worker;
    umask(0);
    CHECK_INT(curve_keys_of_sweep(&server, &worker, dir, &e), 0);
    CHECK_INT(curve_keys_give(&worker, dir, "tcp://c01:1", &e), 0);
    const char *const names[] = {"server.key", "worker.key"};
    for (int i = 0; i < 2; i++) {
        AUTO(free) char *path = in_dir(names[i]), *endpoint = NULL;
        struct stat st;
        CHECK_INT(stat(path, &st), 0);
        CHECK_INT(st.st_mode & 0777, 0600);
        CHECK_INT(chmod(path, 0640), 0);
        int rc = i ? curve_keys_read(&worker, &endpoint, path, &e)
                   : curve_keys_of_sweep(&server, &worker, dir, &e);
        CHECK_INT(rc, -EPERM);
        CHECK_HAS(e.text, path);
        CHECK_HAS(e.hint, "chmod 600");
        CHECK(endpoint == NULL);
    }
    remove_dir();
}

TEST(an_invalid_key_is_rejected_and_not_quoted)
{
    static const char digits[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    static const char *const formats[] = {"",
                                          "drover-worker",
                                          "drover-worker tcp://c:1 %s",
                                          "drover-server tcp://c:1 %s %s",
                                          "drover-worker tcp://c:1 %s %.63s",
                                          "drover-worker tcp://c:1 %s %.63sg",
                                          "drover-worker tcp://c:1 %s %s0",
                                          "drover-worker tcp://c:1 %s %s more"};
    struct curve_keys k;
    struct err e = {0};
    char *endpoint = NULL;
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        char text[512];
        snprintf(text, sizeof text, formats[i], digits, digits);
        if (curve_keys_parse(&k, &endpoint, text, "HERE", &e) != -EBADMSG)
            FAIL("accepted: %s", text);
        CHECK_HAS(e.text, "HERE");
        CHECK(!strstr(e.text, "0011"));
        CHECK(endpoint == NULL);
    }
    char text[512];
    snprintf(text, sizeof text, "drover-worker tcp://c:1 %s %s\n", digits, digits);
    CHECK_INT(curve_keys_parse(&k, &endpoint, text, "HERE", &e), 0);
    free(endpoint);
}

TEST(a_damaged_server_key_is_not_replaced)
{
    make_dir();
    struct err e = {0};
    struct curve_keys server, worker;
    AUTO(free) char *path = in_dir("server.key");
    CHECK_INT(curve_keys_of_sweep(&server, &worker, dir, &e), 0);
    CHECK_INT(truncate(path, 100), 0);
    CHECK_INT(curve_keys_of_sweep(&server, &worker, dir, &e), -EBADMSG);
    CHECK_HAS(e.text, "server.key");
    remove_dir();
}

TEST(endpoints_that_only_this_machine_can_reach)
{
    const char *const here[] = {"ipc:///tmp/x", "tcp://127.0.0.1:1", "tcp://127.9.9.9:1",
                                "tcp://localhost:1", "tcp://[::1]:1"};
    const char *const elsewhere[] = {
        "tcp://10.0.0.1:1",  "tcp://127.0.0.1.evil.org:1", "tcp://c01:1",       "tcp://0.0.0.0:1",
        "tcp://1.127.0.1:1", "tcp://localhost.evil:1",     "udp://127.0.0.1:1", ""};
    for (size_t i = 0; i < COUNT_OF(here); i++)
        CHECK(curve_keys_here(here[i]));
    for (size_t i = 0; i < COUNT_OF(elsewhere); i++)
        CHECK(!curve_keys_here(elsewhere[i]));
}
