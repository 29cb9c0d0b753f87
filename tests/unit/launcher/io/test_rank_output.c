/* rank_output: lines from arbitrary pieces, every byte once, also while paused. */
#include "launcher/io/rank_output.h"

#include <fcntl.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

struct reader {
    uv_loop_t loop;
    struct rank_output *io;
    int write_fd;
    char scratch[RANK_OUTPUT_READ_BYTES];
    struct strbuf seen; /* every line, followed by <n>, <r> or <-> for its terminator */
    struct strbuf bytes;
    struct strbuf partial_line; /* the last text that on_partial_line() received */
    int lines, pause_every;
    bool ended;
};

static void on_pause_over(uv_idle_t *i)
{
    uv_idle_stop(i);
    uv_close((uv_handle_t *)i, (uv_close_cb)free);
    struct reader *r = i->data;
    if (!r->ended) /* an incomplete last line may request a pause, too */
        rank_output_resume(r->io);
}

static bool on_line(void *arg, const char *text, size_t len)
{
    struct reader *r = arg;
    strbuf_add(&r->seen, text, len);
    strbuf_add(&r->bytes, text, len);
    if (text[len])
        strbuf_putc(&r->bytes, text[len]);
    strbuf_puts(&r->seen, text[len] == '\n' ? "<n>" : text[len] == '\r' ? "<r>" : "<->");
    if (!r->pause_every || ++r->lines % r->pause_every)
        return true;
    uv_idle_t *i = xzalloc(sizeof *i);
    uv_idle_init(&r->loop, i);
    i->data = r;
    uv_idle_start(i, on_pause_over);
    return false;
}

static void on_partial_line(void *arg, const char *text, size_t len)
{
    struct reader *r = arg;
    strbuf_reset(&r->partial_line);
    strbuf_add(&r->partial_line, text, len);
}

static void on_ended(void *arg)
{
    struct reader *r = arg;
    CHECK(!r->ended);
    r->ended = true;
    rank_output_close(r->io);
}

static struct reader *reader_new(int file_fd)
{
    struct reader *r = xzalloc(sizeof *r);
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    uv_loop_init(&r->loop);
    r->write_fd = ends[1];
    static const struct rank_output_events ev = {
        .line = on_line, .partial_line = on_partial_line, .ended = on_ended};
    struct rank_output_source from = {
        .fd = ends[0], .file_fd = file_fd, .scratch = r->scratch, .name = "a test"};
    CHECK_INT(rank_output_open(&r->io, &r->loop, &from, &ev, r, NULL), 0);
    return r;
}

static void reader_free(struct reader *r)
{
    while (uv_run(&r->loop, UV_RUN_NOWAIT))
        ;
    CHECK_INT(uv_loop_close(&r->loop), 0);
    strbuf_free(&r->seen);
    strbuf_free(&r->bytes);
    strbuf_free(&r->partial_line);
    auto_fd(&r->write_fd);
    free(r);
}
AUTO_DEFINE(reader, struct reader *, reader_free)

static void say(struct reader *r, const char *text)
{
    CHECK_INT(write(r->write_fd, text, strlen(text)), strlen(text));
    for (int i = 0; i < 4; i++)
        uv_run(&r->loop, UV_RUN_NOWAIT);
}

static void hang_up(struct reader *r)
{
    close(fd_take(&r->write_fd));
    uv_run(&r->loop, UV_RUN_DEFAULT);
    CHECK(r->ended);
}

TEST(lines_come_whole_however_they_were_written)
{
    AUTO(reader) struct reader *r = reader_new(-1);
    say(r, "one\ntw");
    CHECK_STR(strbuf_str(&r->seen), "one<n>");
    say(r, "o");
    say(r, "\n\nthree\nfo");
    CHECK_STR(strbuf_str(&r->seen), "one<n>two<n><n>three<n>");
    hang_up(r);
    CHECK_STR(strbuf_str(&r->seen), "one<n>two<n><n>three<n>fo<->");
}

TEST(a_progress_bar_moves_and_a_dos_line_stays_one)
{
    AUTO(reader) struct reader *r = reader_new(-1);
    say(r, "\r10%");
    say(r, "\r20%");
    CHECK_STR(strbuf_str(&r->seen), "<r>10%<r>");
    say(r, "\r");
    CHECK_STR(strbuf_str(&r->seen), "<r>10%<r>");
    say(r, "\ndos\r\nx\r");
    CHECK_STR(strbuf_str(&r->seen), "<r>10%<r>20%\r<n>dos\r<n>");
    hang_up(r);
    CHECK_STR(strbuf_str(&r->seen), "<r>10%<r>20%\r<n>dos\r<n>x\r<->");
}

TEST(a_line_that_has_begun_is_told_when_nothing_follows_and_comes_whole_later)
{
    AUTO(reader) struct reader *r = reader_new(-1);
    say(r, "one\nna");
    CHECK_INT(r->partial_line.len, 0);
    while (r->partial_line.len < 2)
        uv_run(&r->loop, UV_RUN_ONCE);
    say(r, "me? ");
    while (r->partial_line.len < 6)
        uv_run(&r->loop, UV_RUN_ONCE);
    CHECK_STR(strbuf_str(&r->partial_line), "name? ");
    say(r, "yes\n50%\r");
    while (r->partial_line.len != 4)
        uv_run(&r->loop, UV_RUN_ONCE);
    CHECK_STR(strbuf_str(&r->partial_line), "50%\r");
    CHECK_STR(strbuf_str(&r->seen), "one<n>name? yes<n>");
    hang_up(r);
    CHECK_STR(strbuf_str(&r->seen), "one<n>name? yes<n>50%\r<->");
}

TEST(a_line_whose_end_has_come_is_not_told_as_begun_by_a_loop_that_was_held_up)
{
    AUTO(reader) struct reader *r = reader_new(-1);
    say(r, "tw");
    CHECK_INT(write(r->write_fd, "o\n", 2), 2);
    nanosleep(&(struct timespec){.tv_nsec = 2 * RANK_OUTPUT_SILENCE_MS * 1000000L}, NULL);
    for (int i = 0; i < 4; i++)
        uv_run(&r->loop, UV_RUN_NOWAIT);
    CHECK_INT(r->partial_line.len, 0);
    CHECK_STR(strbuf_str(&r->seen), "two<n>");
    hang_up(r);
}

TEST(an_empty_stream_has_no_line)
{
    AUTO(reader) struct reader *r = reader_new(-1);
    hang_up(r);
    CHECK_STR(strbuf_str(&r->seen), "");
}

/* Random text with lines of random length, some of them long, some ended by '\r'. */
static char *random_text(size_t len, unsigned seed)
{
    char *t = xcalloc(len + 1, 1);
    size_t left = 0;
    for (size_t i = 0; i < len; i++) {
        if (left == 0) {
            left = (size_t)(rand_r(&seed) % 10 ? rand_r(&seed) % 200 : rand_r(&seed) % 200000);
            t[i] = rand_r(&seed) % 8 ? '\n' : '\r';
            continue;
        }
        left--;
        t[i] = (char)('a' + rand_r(&seed) % 26);
    }
    return t;
}

static void all_bytes_come(int pause_every, unsigned seed)
{
    enum { LEN = 3000000 };
    char name[] = "/tmp/drover-test-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0);
    AUTO(reader) struct reader *r = reader_new(fcntl(file, F_DUPFD_CLOEXEC, 0));
    r->pause_every = pause_every;
    AUTO(free) char *text = random_text(LEN, seed);
    fcntl(r->write_fd, F_SETFL, O_NONBLOCK);
    for (size_t at = 0; at < LEN;) {
        size_t want = (size_t)(rand_r(&seed) % 100000) + 1;
        ssize_t n = write(r->write_fd, text + at, want < LEN - at ? want : LEN - at);
        at += n > 0 ? (size_t)n : 0;
        uv_run(&r->loop, UV_RUN_NOWAIT);
    }
    hang_up(r);
    CHECK_INT(r->bytes.len, LEN);
    CHECK(memcmp(r->bytes.data, text, LEN) == 0);
    AUTO(free) char *kept = xcalloc(LEN + 1, 1);
    CHECK_INT(pread(file, kept, LEN + 1, 0), LEN);
    CHECK(memcmp(kept, text, LEN) == 0);
    unlink(name);
    close(file);
}

TEST(every_byte_comes_once_and_stands_in_the_file)
{
    all_bytes_come(0, 1);
}

TEST(pauses_lose_nothing)
{
    all_bytes_come(1, 2);
    all_bytes_come(7, 3);
}

TEST(finish_delivers_what_is_there_and_does_not_wait_for_the_end)
{
    AUTO(reader) struct reader *r = reader_new(-1);
    say(r, "a\nb");
    CHECK_INT(write(r->write_fd, "c\nd", 3), 3);
    rank_output_finish(r->io);
    CHECK_STR(strbuf_str(&r->seen), "a<n>bc<n>d<->");
    CHECK(r->ended);
}

TEST(finish_waits_for_a_pause_to_end)
{
    AUTO(reader) struct reader *r = reader_new(-1);
    r->pause_every = 1;
    CHECK_INT(write(r->write_fd, "a\nb\nc", 5), 5);
    while (r->lines == 0)
        uv_run(&r->loop, UV_RUN_NOWAIT);
    rank_output_finish(r->io);
    CHECK(!r->ended);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    CHECK(r->ended);
    CHECK_STR(strbuf_str(&r->seen), "a<n>b<n>c<->");
}

TEST(a_full_disk_costs_the_file_but_not_the_lines)
{
    AUTO(reader) struct reader *r = reader_new(open("/dev/full", O_WRONLY | O_CLOEXEC));
    say(r, "a\nb\n");
    CHECK_STR(strbuf_str(&r->seen), "a<n>b<n>");
    hang_up(r);
}

TEST(a_line_of_up_to_1_mib_is_one_line)
{
    enum { LEN = RANK_OUTPUT_LINE_MAX - 1 };
    AUTO(reader) struct reader *r = reader_new(-1);
    AUTO(free) char *text = xcalloc(LEN + 2, 1);
    memset(text, 'x', LEN);
    text[LEN] = '\n';
    fcntl(r->write_fd, F_SETFL, O_NONBLOCK);
    for (size_t at = 0; at <= LEN; uv_run(&r->loop, UV_RUN_NOWAIT)) {
        ssize_t n = write(r->write_fd, text + at, LEN + 1 - at);
        at += n > 0 ? (size_t)n : 0;
    }
    hang_up(r);
    CHECK_INT(r->seen.len, LEN + 3);
    CHECK_STR(strbuf_str(&r->seen) + LEN, "<n>");
}

/* ---- streams whose lines are mixed: their bytes come from rank_output_feed() ---------------- */

struct mixed {
    uv_loop_t loop;
    struct rank_output_group group;
    struct stream {
        struct mixed *of;
        struct rank_output *io;
        int turns;
        bool ended;
    } streams[2];
    char scratch[1];
    struct strbuf seen; /* of both: "0:TEXT<n>" with the length for long ones */
    int partial_lines;
};

static bool on_mixed_line(void *arg, const char *text, size_t len)
{
    struct stream *s = arg;
    strbuf_printf(&s->of->seen, "%d:", (int)(s - s->of->streams));
    if (len < 100)
        strbuf_add(&s->of->seen, text, len);
    else
        strbuf_printf(&s->of->seen, "%zu", len);
    strbuf_puts(&s->of->seen, text[len] ? "<n>" : "<->");
    return true;
}

static void on_mixed_partial_line(void *arg, const char *text, size_t len)
{
    ((struct stream *)arg)->of->partial_lines++;
}

static void on_mixed_turn(void *arg)
{
    ((struct stream *)arg)->turns++;
}

static void on_mixed_ended(void *arg)
{
    struct stream *s = arg;
    s->ended = true;
    rank_output_close(s->io);
}

static struct mixed *mixed_new(void)
{
    static const struct rank_output_events ev = {.line = on_mixed_line,
                                                 .partial_line = on_mixed_partial_line,
                                                 .turn = on_mixed_turn,
                                                 .ended = on_mixed_ended};
    struct mixed *m = xzalloc(sizeof *m);
    uv_loop_init(&m->loop);
    for (int i = 0; i < 2; i++) {
        struct stream *s = &m->streams[i];
        struct rank_output_source from = {
            .fd = -1, .file_fd = -1, .scratch = m->scratch, .name = "a test", .group = &m->group};
        s->of = m;
        CHECK_INT(rank_output_open(&s->io, &m->loop, &from, &ev, s, NULL), 0);
    }
    return m;
}

static void mixed_free(struct mixed *m)
{
    for (int i = 0; i < 2; i++)
        if (!m->streams[i].ended)
            rank_output_feed_end(m->streams[i].io);
    uv_run(&m->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&m->loop), 0);
    strbuf_free(&m->seen);
    free(m);
}
AUTO_DEFINE(mixed, struct mixed *, mixed_free)

/* Feeds the first stream with a line that does not end. */
static void begin_long_line(struct mixed *m)
{
    AUTO(free) char *text = xcalloc(RANK_OUTPUT_LINE_MAX, 1);
    memset(text, 'x', RANK_OUTPUT_LINE_MAX);
    CHECK(rank_output_feed(m->streams[0].io, text, RANK_OUTPUT_LINE_MAX));
    CHECK_STR(strbuf_str(&m->seen), "0:1048576<->");
    CHECK(!rank_output_feed(m->streams[1].io, "b\nc", 3));
    CHECK_STR(strbuf_str(&m->seen), "0:1048576<->");
}

TEST(while_a_long_line_comes_in_pieces_the_other_streams_wait)
{
    AUTO(mixed) struct mixed *m = mixed_new();
    begin_long_line(m);
    CHECK(rank_output_feed(m->streams[0].io, "end\nd\n", 6));
    while (m->streams[1].turns == 0)
        uv_run(&m->loop, UV_RUN_ONCE);
    CHECK_STR(strbuf_str(&m->seen), "0:1048576<->0:end<n>0:d<n>1:b<n>");
    CHECK(rank_output_feed(m->streams[1].io, "\n", 1));
    CHECK_STR(strbuf_str(&m->seen), "0:1048576<->0:end<n>0:d<n>1:b<n>1:c<n>");
}

TEST(a_long_line_that_pauses_lets_the_others_continue)
{
    AUTO(mixed) struct mixed *m = mixed_new();
    begin_long_line(m);
    while (m->streams[1].turns == 0)
        uv_run(&m->loop, UV_RUN_ONCE);
    CHECK_STR(strbuf_str(&m->seen), "0:1048576<->1:b<n>");
}

TEST(a_stream_that_ends_in_another_ones_turn_ends_after_it)
{
    AUTO(mixed) struct mixed *m = mixed_new();
    begin_long_line(m);
    rank_output_feed_end(m->streams[1].io);
    CHECK(!m->streams[1].ended);
    rank_output_feed_end(m->streams[0].io);
    CHECK(m->streams[0].ended);
    while (!m->streams[1].ended)
        uv_run(&m->loop, UV_RUN_ONCE);
    CHECK_STR(strbuf_str(&m->seen), "0:1048576<->1:b<n>1:c<->");
}

TEST(a_paused_stream_keeps_its_turn)
{
    AUTO(mixed) struct mixed *m = mixed_new();
    begin_long_line(m);
    rank_output_pause(m->streams[0].io);
    CHECK(rank_output_feed(m->streams[0].io, "end\n", 4));
    uv_run(&m->loop, UV_RUN_NOWAIT);
    CHECK_STR(strbuf_str(&m->seen), "0:1048576<->");
    rank_output_resume(m->streams[0].io);
    while (m->streams[1].turns == 0)
        uv_run(&m->loop, UV_RUN_ONCE);
    CHECK_STR(strbuf_str(&m->seen), "0:1048576<->0:end<n>1:b<n>");
}

static void on_tick(uv_timer_t *t)
{
}

/* Runs the loop for this time; returns its time. */
static int64_t loop_ms(struct mixed *m, int64_t ms)
{
    int64_t begin = (int64_t)uv_now(&m->loop);
    while ((int64_t)uv_now(&m->loop) < begin + ms && uv_run(&m->loop, UV_RUN_ONCE))
        ;
    return (int64_t)uv_now(&m->loop);
}

TEST(a_line_that_has_begun_waits_while_others_write_but_not_for_ever)
{
    AUTO(mixed) struct mixed *m = mixed_new();
    uv_timer_t tick; /* keeps uv_run() from sleeping longer than a tick */
    uv_timer_init(&m->loop, &tick);
    uv_timer_start(&tick, on_tick, 20, 20);
    int64_t begin = loop_ms(m, 20), shown = 0;
    CHECK(rank_output_feed(m->streams[0].io, "begun", 5));
    while (m->partial_lines == 0) {
        CHECK(rank_output_feed(m->streams[1].io, "b\n", 2));
        shown = loop_ms(m, 20);
    }
    CHECK(shown - begin >= RANK_OUTPUT_TURN_MS);
    CHECK(rank_output_feed(m->streams[0].io, "\nagain", 6));
    begin = loop_ms(m, 1);
    while (m->partial_lines == 1)
        shown = loop_ms(m, 1);
    CHECK(shown - begin < RANK_OUTPUT_TURN_MS); /* the others are silent */
    uv_close((uv_handle_t *)&tick, NULL);
}
