/* test_progress_frame - the block of lines that shows a running sweep on a terminal. */
#include "hpo/coordinator/progress_frame.h"

#include <math.h>
#include <stdio.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/io/terminal_text.h"
#include "tests/unit/test.h"

enum { TRIALS = 64 };

static struct progress_frame_trial running[TRIALS], ended[TRIALS];
static double curve[40];
static json_t *params, *long_params;

/* A sweep with 4 running trials and 18 that have ended. */
static struct progress_frame some_sweep(void)
{
    params = json_loads("{\"lr\":0.01,\"act\":\"relu\"}", 0, NULL);
    long_params = json_loads("{\"optimizer\":\"Größe äöü 日本語 \\u001b[2J\\u009b31m\"}", 0, NULL);
    for (int i = 0; i < TRIALS; i++)
        running[i] = (struct progress_frame_trial){.id = 18 + i,
                                                   .state = i % 2 ? "leased" : "running",
                                                   .params = i % 2 ? long_params : params,
                                                   .step = i % 2 ? NAN : 30 + i,
                                                   .value = i % 2 ? NAN : 0.5,
                                                   .share = i % 2 ? NAN : 0.3,
                                                   .seconds = 7.25 + i * 60};
    for (int i = 0; i < TRIALS; i++)
        ended[i] = (struct progress_frame_trial){.id = 17 - i,
                                                 .state = i % 2 ? "failed" : "done",
                                                 .reason = i % 2 ? "exit 1:\nno file" : NULL,
                                                 .params = params,
                                                 .step = i % 2 ? NAN : 100,
                                                 .value = i % 2 ? NAN : 0.25,
                                                 .share = i % 2 ? NAN : 1,
                                                 .seconds = 3725};
    for (size_t i = 0; i < COUNT_OF(curve); i++)
        curve[i] = 1.0 / (double)(i + 1);
    return (struct progress_frame){
        .name = "digits",
        .metric = "loss",
        .mode = "running",
        .counts = {.done = 9, .failed = 9, .running = 4, .total_wanted = 40},
        .seconds = 75,
        .ended_here = 18,
        .best = 17,
        .best_value = 0.25,
        .best_params = params,
        .curve = curve,
        .curve_count = 16,
        .running = running,
        .running_count = 4,
        .running_total = 4,
        .ended = ended,
        .ended_count = 18,
        .workers = 2,
        .slots = 4,
        .gpus = 1,
        .keys = true,
        .utf8 = true};
}

static void free_sweep(void)
{
    json_decref(params);
    json_decref(long_params);
}

/* The frame as one text. Checks that each line fits, and has no control characters. */
static char *drawn(const struct progress_frame *f, int columns, int rows)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(strv) char **lines = progress_frame_lines(f, columns, rows);
    CHECK((int)strv_len(lines) <= rows);
    for (char **line = lines; line && *line; line++) {
        AUTO(strbuf) struct strbuf clean = {0};
        int cells = terminal_text_add(&clean, *line, 9999);
        if (!f->colour) {
            CHECK(cells <= columns);
            CHECK_STR(strbuf_str(&clean), *line);
        }
        strbuf_printf(&b, "%s\n", *line);
    }
    return strbuf_take(&b);
}

#define CHECK_FRAME(f, columns, rows, want)             \
    do {                                                \
        AUTO(free) char *got = drawn(f, columns, rows); \
        CHECK_STR(got, want);                           \
    } while (0)

/* ---- frames --------------------------------------------------------------------------------- */

TEST(what_never_varies_comes_after_what_does)
{
    struct progress_frame f = some_sweep();
    AUTO(json) json_t *other = json_pack("{s:f, s:s}", "lr", 0.02, "act", "relu");
    for (int i = 0; i < 4; i++)
        running[i].params = i ? params : other;
    json_object_clear(params);
    json_object_set_new(params, "act", json_string("relu"));
    json_object_set_new(params, "lr", json_real(0.01));
    AUTO(free) char *got = drawn(&f, 79, 23);
    CHECK_HAS(got, "    18  running         30   30 %          0.5      7.2 s  lr=0.02 act=relu\n");
    CHECK_HAS(got, "    20  running         32   30 %          0.5       2:07  lr=0.01 act=relu\n");
    free_sweep();
}

TEST(a_terminal_of_80_by_24)
{
    struct progress_frame f = some_sweep();
    CHECK_FRAME(&f, 79, 23,
                "digits  running  1 min 15 s  2 workers  4 slots  1 GPU\n"
                "████████████░░░░░░░░░░░░░░░  45 %  14.4 trials/min  about 1 min 32 s left\n"
                "18 of 40 trials: 9 done, 9 failed, 4 running\n"
                "best  trial 17  loss 0.25  lr=0.01 act=relu\n"
                "      █▄▃▂▂▂▂▁▁▁▁▁▁▁▁▁  1 to 0.0625\n"
                " trial  state         step  share        value       time\n"
                "    18  running         30   30 %          0.5      7.2 s  lr=0.01 act=relu\n"
                "    19  leased                                       1:07  optimizer=Größe äöü \n"
                "    20  running         32   30 %          0.5       2:07  lr=0.01 act=relu\n"
                "    21  leased                                       3:07  optimizer=Größe äöü \n"
                "    17  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "    16  failed                                    1:02:05  exit 1:\\nno file  lr\n"
                "    15  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "    14  failed                                    1:02:05  exit 1:\\nno file  lr\n"
                "    13  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "    12  failed                                    1:02:05  exit 1:\\nno file  lr\n"
                "    11  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "    10  failed                                    1:02:05  exit 1:\\nno file  lr\n"
                "     9  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "     8  failed                                    1:02:05  exit 1:\\nno file  lr\n"
                "     7  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "     6  failed                                    1:02:05  exit 1:\\nno file  lr\n"
                "q stop   Q stop now   p pause   ? help\n");
    free_sweep();
}

TEST(a_terminal_of_100_by_30_with_more_running_trials_than_fit)
{
    struct progress_frame f = some_sweep();
    f.running_count = TRIALS;
    f.running_total = 100;
    f.ended_count = 20;
    CHECK_FRAME(&f, 99, 29,
                "digits  running  1 min 15 s  2 workers  4 slots  1 GPU\n"
                "█████████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░  45 %  14.4 trials/min  about 1 "
                "min 32 s left\n"
                "18 of 40 trials: 9 done, 9 failed, 4 running\n"
                "best  trial 17  loss 0.25  lr=0.01 act=relu\n"
                "      █▄▃▂▂▂▂▁▁▁▁▁▁▁▁▁  1 to 0.0625\n"
                " trial  state         step  share        value       time\n"
                "    18  running         30   30 %          0.5      7.2 s  lr=0.01 act=relu\n"
                "    19  leased                                       1:07  optimizer=Größe äöü "
                "日本語 \\x1b[2J\\x9b31\n"
                "    20  running         32   30 %          0.5       2:07  lr=0.01 act=relu\n"
                "    21  leased                                       3:07  optimizer=Größe äöü "
                "日本語 \\x1b[2J\\x9b31\n"
                "    22  running         34   30 %          0.5       4:07  lr=0.01 act=relu\n"
                "    23  leased                                       5:07  optimizer=Größe äöü "
                "日本語 \\x1b[2J\\x9b31\n"
                "    24  running         36   30 %          0.5       6:07  lr=0.01 act=relu\n"
                "    25  leased                                       7:07  optimizer=Größe äöü "
                "日本語 \\x1b[2J\\x9b31\n"
                "    26  running         38   30 %          0.5       8:07  lr=0.01 act=relu\n"
                "    27  leased                                       9:07  optimizer=Größe äöü "
                "日本語 \\x1b[2J\\x9b31\n"
                "    28  running         40   30 %          0.5      10:07  lr=0.01 act=relu\n"
                "    29  leased                                      11:07  optimizer=Größe äöü "
                "日本語 \\x1b[2J\\x9b31\n"
                "    30  running         42   30 %          0.5      12:07  lr=0.01 act=relu\n"
                "    31  leased                                      13:07  optimizer=Größe äöü "
                "日本語 \\x1b[2J\\x9b31\n"
                "        86 more trials are running\n"
                "    17  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "    16  failed                                    1:02:05  exit 1:\\nno file  "
                "lr=0.01 act=relu\n"
                "    15  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "    14  failed                                    1:02:05  exit 1:\\nno file  "
                "lr=0.01 act=relu\n"
                "    13  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "    12  failed                                    1:02:05  exit 1:\\nno file  "
                "lr=0.01 act=relu\n"
                "    11  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "q stop   Q stop now   p pause   ? help\n");
    free_sweep();
}

TEST(a_terminal_of_200_by_50_shows_whole_parameters)
{
    struct progress_frame f = some_sweep();
    f.running_count = f.running_total = 2;
    f.ended_count = 2;
    f.curve_count = 40;
    f.counts.total_wanted = -1;
    CHECK_FRAME(&f, 199, 49,
                "digits  running  1 min 15 s  2 workers  4 slots  1 GPU\n"
                "14.4 trials/min\n"
                "18 trials: 9 done, 9 failed, 4 running\n"
                "best  trial 17  loss 0.25  lr=0.01 act=relu\n"
                "      █▄▃▃▂▂▂▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  1 to 0.025\n"
                " trial  state         step  share        value       time\n"
                "    18  running         30   30 %          0.5      7.2 s  lr=0.01 act=relu\n"
                "    19  leased                                       1:07  optimizer=Größe äöü "
                "日本語 \\x1b[2J\\x9b31m\n"
                "    17  done           100  100 %         0.25    1:02:05  lr=0.01 act=relu\n"
                "    16  failed                                    1:02:05  exit 1:\\nno file  "
                "lr=0.01 act=relu\n"
                "q stop   Q stop now   p pause   ? help\n");
    free_sweep();
}

TEST(a_terminal_of_40_by_10_has_fewer_columns)
{
    struct progress_frame f = some_sweep();
    CHECK_FRAME(&f, 39, 9,
                "digits  running  1 min 15 s  2 workers \n"
                "███░░░░░  45 %  14.4 trials/min  about \n"
                "18 of 40 trials: 9 done, 9 failed, 4 ru\n"
                "best  trial 17  loss 0.25  lr=0.01 act=\n"
                "trial  state          value       time\n"
                "   18  running          0.5      7.2 s \n"
                "        3 more trials are running\n"
                "   17  done            0.25    1:02:05 \n"
                "q stop   Q stop now   p pause   ? help\n");
    free_sweep();
}

TEST(the_smallest_terminal_shows_the_title)
{
    struct progress_frame f = some_sweep();
    f.name = "日本語";
    CHECK_FRAME(&f, 5, 1, "日本 \n");
    free_sweep();
}

TEST(long_names_and_ascii)
{
    struct progress_frame f = some_sweep();
    f.utf8 = false;
    f.name = "a-very-long-name-of-a-sweep-that-fills-the-first-line-and-more";
    f.mode = "paused";
    f.ended_count = 0;
    f.best_params = long_params;
    CHECK_FRAME(&f, 59, 12,
                "a-very-long-name-of-a-sweep-that-fills-the-first-line-and-m\n"
                "###-----  45 %  14.4 trials/min  about 1 min 32 s left\n"
                "18 of 40 trials: 9 done, 9 failed, 4 running\n"
                "best  trial 17  loss 0.25  optimizer=Größe äöü 日本語 \\x1b[\n"
                "      #-,...._________  1 to 0.0625\n"
                "trial  state          value       time\n"
                "   18  running          0.5      7.2 s  lr=0.01 act=relu\n"
                "   19  leased                     1:07  optimizer=Größe äöü\n"
                "   20  running          0.5       2:07  lr=0.01 act=relu\n"
                "   21  leased                     3:07  optimizer=Größe äöü\n"
                "q stop   Q stop now   p resume   ? help\n");
    free_sweep();
}

TEST(the_keys_are_explained)
{
    struct progress_frame f = some_sweep();
    f.help = true;
    CHECK_FRAME(&f, 79, 23,
                "digits  running  1 min 15 s  2 workers  4 slots  1 GPU\n"
                "████████████░░░░░░░░░░░░░░░  45 %  14.4 trials/min  about 1 min 32 s left\n"
                "18 of 40 trials: 9 done, 9 failed, 4 running\n"
                "best  trial 17  loss 0.25  lr=0.01 act=relu\n"
                "      █▄▃▂▂▂▂▁▁▁▁▁▁▁▁▁  1 to 0.0625\n"
                "q  start no new trials, and end when the running ones have ended\n"
                "Q  like Ctrl-C: running trials return to the queue; again: kill them\n"
                "p  start no new trials until p is pressed again; running trials continue\n"
                "?  show or hide this help\n"
                "q stop   Q stop now   p pause   ? help\n");
    free_sweep();
}

TEST(a_sweep_without_values_or_trials)
{
    struct progress_frame f = some_sweep();
    f = (struct progress_frame){
        .name = "s", .mode = "running", .best = -1, .keys = false, .counts = {.total_wanted = 4}};
    CHECK_FRAME(&f, 79, 23,
                "s  running  0.0 s\n"
                "---------------------------  0 %  0 trials/min\n"
                "0 of 4 trials\n");
    free_sweep();
}

TEST(colours_are_whole_sequences_and_do_not_change_the_text)
{
    struct progress_frame f = some_sweep();
    AUTO(free) char *plain = drawn(&f, 79, 23);
    f.colour = true;
    AUTO(free) char *coloured = drawn(&f, 79, 23);
    AUTO(strbuf) struct strbuf b = {0};
    int open = 0;
    for (const char *c = coloured; *c; c++) {
        if (*c != '\033') {
            strbuf_putc(&b, *c);
            continue;
        }
        open += c[2] == 'm' ? -1 : 1;
        CHECK(open == 0 || open == 1);
        c = strchr(c, 'm');
    }
    CHECK_INT(open, 0);
    CHECK_HAS(coloured, "\033[31mfailed   \033[m");
    CHECK_STR(strbuf_str(&b), plain);
    free_sweep();
}

TEST(every_size_is_kept)
{
    struct progress_frame f = some_sweep();
    f.running_count = TRIALS;
    f.running_total = 1000;
    for (int rows = 1; rows < 40; rows++) {
        for (int columns = 1; columns < 130; columns += 3) {
            AUTO(free) char *text = drawn(&f, columns, rows);
            CHECK(*text);
        }
    }
    free_sweep();
}
