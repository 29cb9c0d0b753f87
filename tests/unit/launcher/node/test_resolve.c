/* resolve: addresses of names, found in threads; closing early does not wait for them. */
#include "launcher/node/resolve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/test.h"

enum { NAMES = 40 };

struct seen {
    uv_loop_t loop;
    struct resolve *r;
    int answers, found, failed;
    bool close_at_first;
};

static void on_found(void *arg, int i, int status, const struct addrinfo *found)
{
    struct seen *s = arg;
    s->answers++;
    if (status != 0) {
        CHECK_INT(i, NAMES - 1);
        CHECK(!found);
        s->failed++;
    } else {
        const struct sockaddr_in *a = (const struct sockaddr_in *)found->ai_addr;
        CHECK_INT(a->sin_family, AF_INET);
        CHECK_INT(ntohl(a->sin_addr.s_addr), 0x7f000000 + i + 1);
        s->found++;
    }
    if (s->close_at_first || s->answers == NAMES)
        resolve_close(TAKE(s->r));
}

/* Numeric addresses, so that no name server is queried; the last one is not a valid name. */
static char **names(void)
{
    char **v = NULL;
    for (int i = 0; i < NAMES - 1; i++)
        strv_push(&v, xasprintf("127.0.0.%d", i + 1));
    strv_push(&v, xstrdup("not a name"));
    return v;
}

/* LeakSanitizer counts the memory of a thread that is still starting when the process exits. */
static void wait_for_threads(void)
{
    struct stat tasks;
    do {
        usleep(1000);
        CHECK_INT(stat("/proc/self/task", &tasks), 0);
    } while (tasks.st_nlink > 3); /* ".", ".." and the main thread */
}

static void look_up(struct seen *s)
{
    AUTO(strv) char **v = names();
    struct err e = {0};
    uv_loop_init(&s->loop);
    if (resolve_open(&s->r, &s->loop, v, on_found, s, &e) < 0)
        FAIL("%s", e.text);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&s->loop), 0);
    wait_for_threads();
}

TEST(every_name_is_answered_once_with_its_addresses_or_a_reason)
{
    struct seen s = {0};
    look_up(&s);
    CHECK_INT(s.found, NAMES - 1);
    CHECK_INT(s.failed, 1);
}

TEST(who_closes_hears_no_more)
{
    struct seen s = {.close_at_first = true};
    look_up(&s);
    CHECK_INT(s.answers, 1);
}
