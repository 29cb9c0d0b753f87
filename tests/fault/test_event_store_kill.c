/* test_store_kill - a writer is killed with SIGKILL at random moments: what it had said to be
 * committed is there, no turn is there in part, nothing is there twice, and the next one goes on.
 */
#include "hpo/store/event_store.h"

#include <sqlite3.h>
#include <time.h>

#include "common/json.h"
#include "tests/unit/test.h"

enum { TURN_MAX = 5 };

/* Each turn appends 1 to TURN_MAX records with `bytes` of data: trial is the record's number, lease
 * the turn's, msg how many the turn has. Says the number of records after each commit. */
static void write_until_killed(const char *path, int from, int64_t turn, size_t bytes,
                               int to_parent)
{
    struct err e = {0};
    AUTO(free) char *text = xzalloc(bytes + 1);
    memset(text, 'x', bytes);
    AUTO(json) json_t *data = json_pack("{s:s}", "x", text);
    AUTO(event_store) struct event_store *s = NULL;
    if (event_store_open(&s, path, EVENT_STORE_WRITE, &e) < 0)
        FAIL("%s", e.text);
    for (int n = from;;) {
        int size = 1 + (int)(turn % TURN_MAX);
        for (int i = 0; i < size; i++) {
            struct scheduler_record r = {SCHEDULER_REC_CREATED, 0, n++, turn, data};
            if (event_store_append(s, &r, size, &e) < 0)
                FAIL("%s", e.text);
        }
        if (event_store_commit(s, &e) < 0)
            FAIL("%s", e.text);
        turn++;
        if (write(to_parent, &n, sizeof n) != sizeof n)
            FAIL("write");
    }
}

struct found {
    int records;
    int64_t turn;
    int left; /* of the turn */
};

static int look(void *arg, const struct scheduler_record *r, int64_t msg, struct err *e)
{
    struct found *f = arg;
    CHECK_INT(r->trial, f->records);
    if (f->left == 0) {
        CHECK_INT(r->lease, f->turn + 1);
        f->turn = r->lease;
        f->left = (int)msg;
    }
    CHECK_INT(r->lease, f->turn);
    f->left--;
    f->records++;
    return 0;
}

static struct found read_all(const char *path)
{
    struct err e = {0};
    struct found f = {.turn = -1};
    AUTO(event_store) struct event_store *s = NULL;
    if (event_store_open(&s, path, EVENT_STORE_WRITE, &e) < 0 ||
        event_store_replay(s, look, &f, &e) < 0)
        FAIL("%s", e.text);
    CHECK_INT(f.left, 0); /* no part of a turn */
    return f;
}

static void check_integrity(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_ROW);
    CHECK_STR((const char *)sqlite3_column_text(st, 0), "ok");
    sqlite3_finalize(st);
    sqlite3_close(db);
}

/* Kills writers of one store after less than `commits` of theirs, each time. */
static void kill_writers(int kills, int commits, size_t bytes)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned seed = (unsigned)now.tv_nsec;
    printf("# seed %u\n", seed);
    char dir[] = "/tmp/test_store_kill.XXXXXX", path[64], cmd[64];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/sweep.db", dir);
    struct found f = {.turn = -1};
    for (int i = 0; i < kills; i++) {
        int fds[2], said = f.records, n;
        CHECK_INT(pipe(fds), 0);
        pid_t pid = fork();
        if (pid == 0) {
            close(fds[0]);
            write_until_killed(path, f.records, f.turn + 1, bytes, fds[1]);
        }
        close(fds[1]);
        /* After some commits, and a moment more: anywhere in a turn. */
        for (int k = rand_r(&seed) % commits; k > 0 && read(fds[0], &n, sizeof n) == sizeof n; k--)
            said = n;
        struct timespec moment = {.tv_nsec = rand_r(&seed) % 3000000};
        nanosleep(&moment, NULL);
        kill(pid, SIGKILL);
        while (read(fds[0], &n, sizeof n) == sizeof n)
            said = n;
        close(fds[0]);
        int status;
        waitpid(pid, &status, 0);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        f = read_all(path);
        if (f.records < said)
            FAIL("%d records were said to be committed, %d are there", said, f.records);
        check_integrity(path);
    }
    printf("# %d records in %lld turns\n", f.records, (long long)f.turn + 1);
    CHECK(f.records > kills);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    CHECK_INT(system(cmd), 0);
}

TEST(a_killed_writer_loses_nothing_that_it_had_committed)
{
    kill_writers(40, 6, 2);
}

/* Some 60 pages a turn: SQLite's log is full after 17, and every 17th commit copies it. */
TEST(a_writer_killed_while_its_log_is_copied_loses_nothing)
{
    for (int i = 0; i < 3; i++)
        kill_writers(3, 40, 80000);
}
