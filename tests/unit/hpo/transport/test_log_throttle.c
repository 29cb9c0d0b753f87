/* test_log_throttle - events that peers cause at will do not fill the log. */
#include "hpo/transport/log_throttle.h"

#include "common/log.h"
#include "tests/unit/test.h"

/* Returns what a thousand calls write to stderr, one per 100 ms. */
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

TEST(the_first_is_logged_at_once_and_the_next_after_a_minute_with_the_number_of_others)
{
    char text[1000];
    write_log(text, sizeof text, 1201);
    CHECK_STR(text, "t: warn: event 0\n"
                    "t: warn: event 600 (599 similar warnings suppressed)\n"
                    "t: warn: event 1200 (599 similar warnings suppressed)\n");
}
