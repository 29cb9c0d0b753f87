/* test_seldom - what strangers cause fills no log. */
#include "hpo/transport/log_throttle.h"

#include "common/log.h"
#include "tests/unit/test.h"

/* What a thousand calls from now_ms on, one each 100 ms, write to stderr. */
static void write_log(char *text, size_t size, int calls)
{
    FILE *f = tmpfile();
    int keep = dup(2);
    struct log_throttle s = {0};
    log_open("t");
    dup2(fileno(f), 2);
    for (int i = 0; i < calls; i++)
        log_throttle_warn(&s, 5 + 100 * (uint64_t)i, "event %d", i);
    dup2(keep, 2);
    close(keep);
    rewind(f);
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
}

TEST(the_first_is_named_at_once_and_the_next_a_minute_later_with_their_number)
{
    char text[1000];
    write_log(text, sizeof text, 1201);
    CHECK_STR(text, "t: warn: event 0\n"
                    "t: warn: event 600 (599 similar warnings suppressed)\n"
                    "t: warn: event 1200 (599 similar warnings suppressed)\n");
}
