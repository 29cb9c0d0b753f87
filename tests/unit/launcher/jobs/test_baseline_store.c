/* test_baseline_store - stored baselines: several processes, damaged files, permissions, the
 * limit. */
#include "launcher/jobs/baseline_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "launcher/jobs/history_db.h"
#include "tests/unit/kit_root.h"

enum { WRITERS = 6, ROWS = 8 };

/* Runs a test with a state directory of its own, and removes it. */
static const char *open_state(void)
{
    const char *root = new_root();
    AUTO(free) char *state = xasprintf("%s/not/there/yet", root);
    setenv("XDG_STATE_HOME", state, 1);
    return root;
}

static const char *file(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/drover/%s", getenv("XDG_STATE_HOME"), name);
    return path;
}

static void store(const char *name, const char *hardware, double mean)
{
    struct err e = {0};
    struct baseline m = {.name = (char *)name,
                         .hardware = (char *)hardware,
                         .unit = (char *)"tokens/s",
                         .rate = {mean, 0.1, 20},
                         .step_s = 0.5,
                         .cpu = -1,
                         .gpu = 0.75,
                         .seconds = 9};
    if (baseline_store_put(&m, &e) < 0)
        FAIL("%s", e.text);
    CHECK(m.stored_ms > 0);
}

static struct baseline_list list_of(const char *name)
{
    struct baseline_list l;
    struct err e = {0};
    if (baseline_store_read(&l, name, &e) < 0)
        FAIL("%s", e.text);
    return l;
}

static size_t count_of(const char *name)
{
    struct baseline_list l = list_of(name);
    size_t n = l.count;
    baseline_store_end(&l);
    return n;
}

TEST(what_is_stored_is_read_back)
{
    const char *root = open_state();
    CHECK_INT(count_of(NULL), 0);
    CHECK_INT(access(file("baselines.db"), F_OK), -1); /* reading creates nothing */
    store("b", "cpu", 3);
    store("a", "gpu", 2);
    store("a", "cpu", 1);
    store("a", "cpu", 1.0 / 3); /* replaces */
    struct baseline_list l = list_of(NULL);
    CHECK_INT(l.count, 3);
    CHECK_STR(l.at[0].name, "a");
    CHECK_STR(l.at[0].hardware, "cpu");
    CHECK_STR(l.at[0].unit, "tokens/s");
    CHECK_NEAR(l.at[0].rate.mean, 1.0 / 3, 0);
    CHECK_NEAR(l.at[0].rate.deviation, 0.1, 0);
    CHECK_INT(l.at[0].rate.n, 20);
    CHECK_NEAR(l.at[0].step_s, 0.5, 0);
    CHECK_NEAR(l.at[0].cpu, -1, 0);
    CHECK_NEAR(l.at[0].gpu, 0.75, 0);
    CHECK_NEAR(l.at[0].seconds, 9, 0);
    CHECK_STR(l.at[2].name, "b");
    baseline_store_end(&l);
    CHECK_INT(count_of("a"), 2);
    CHECK_INT(count_of("A"), 0);
    remove_root(root);
}

TEST(only_the_user_can_read_the_file)
{
    const char *root = open_state();
    struct stat st;
    umask(0);
    store("a", "cpu", 1);
    CHECK(stat(file("baselines.db"), &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(stat(file(""), &st) == 0 && (st.st_mode & 0777) == 0700);
    CHECK_INT(chmod(file("baselines.db"), 0644), 0);
    store("b", "cpu", 1);
    CHECK(stat(file("baselines.db"), &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK_INT(count_of(NULL), 2);
    CHECK_INT(chmod(file(""), 0777), 0);
    struct err e = {0};
    struct baseline_list l;
    CHECK_INT(baseline_store_read(&l, NULL, &e), -EPERM);
    CHECK_HAS(e.text, "drover");
    remove_root(root);
}

static void write_file(const char *path, const char *bytes, size_t len, off_t at)
{
    AUTO(fd) int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK_INT(pwrite(fd, bytes, len, at), (ssize_t)len);
}

TEST(a_damaged_file_is_set_aside)
{
    static const struct {
        const char *what;
        off_t at;
        size_t len;
    } cases[] = {{"a text", 0, 30}, {"a header", 60, 40}, {"a page of the table", 4096, 4096}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *root = open_state();
        char bytes[4096];
        memset(bytes, '#', sizeof bytes);
        store("a", "cpu", 1);
        write_file(file("baselines.db"), bytes, cases[i].len, cases[i].at);
        write_file(file("baselines.db-journal"), bytes, 100, 0);
        store("b", "cpu", 2);
        if (count_of("b") != 1 || count_of(NULL) != 1)
            FAIL("%s: not a new file", cases[i].what);
        if (access(file("baselines.db.damaged"), F_OK) < 0)
            FAIL("%s: not set aside", cases[i].what);
        remove_root(root);
    }
}

TEST(a_file_of_another_program_is_set_aside_and_a_newer_one_is_refused)
{
    static const struct {
        const char *sql;
        int rc;
    } cases[] = {{"CREATE TABLE theirs(x)", 0},
                 {"PRAGMA application_id=7", 0},
                 {"PRAGMA application_id=1685219432; PRAGMA user_version=99", -ENOTSUP}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *root = open_state();
        store("a", "cpu", 1);
        CHECK_INT(unlink(file("baselines.db")), 0);
        sqlite3 *db = NULL;
        CHECK_INT(sqlite3_open(file("baselines.db"), &db), SQLITE_OK);
        CHECK_INT(sqlite3_exec(db, cases[i].sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        struct err e = {0};
        struct baseline_list l;
        CHECK_INT(baseline_store_read(&l, NULL, &e), cases[i].rc);
        CHECK_INT(l.count, 0);
        CHECK_INT(access(file("baselines.db.damaged"), F_OK) == 0, cases[i].rc == 0);
        remove_root(root);
    }
}

TEST(what_is_not_a_file_is_an_error)
{
    const char *root = open_state();
    store("a", "cpu", 1);
    CHECK_INT(unlink(file("baselines.db")), 0);
    CHECK_INT(mkfifo(file("baselines.db"), 0600), 0);
    struct err e = {0};
    struct baseline_list l;
    CHECK_INT(baseline_store_read(&l, NULL, &e), -EINVAL);
    CHECK_INT(unlink(file("baselines.db")), 0);
    CHECK_INT(symlink("/etc/passwd", file("baselines.db")), 0);
    CHECK_INT(baseline_store_read(&l, NULL, &e), -ELOOP);
    remove_root(root);
}

TEST(without_a_home_directory_there_is_an_error)
{
    struct err e = {0};
    struct baseline m = {.name = (char *)"a", .hardware = (char *)"h", .unit = (char *)""};
    unsetenv("HOME");
    setenv("XDG_STATE_HOME", "relative", 1);
    CHECK_INT(baseline_store_put(&m, &e), -ENOENT);
    CHECK_HAS(e.text, "XDG_STATE_HOME");
    CHECK_INT(count_of(NULL), 0);
}

/* All of them find a damaged file at their start, and one of them sets it aside. */
TEST(several_processes_store_at_the_same_time)
{
    const char *root = open_state();
    store("a", "cpu", 1);
    write_file(file("baselines.db"), "damaged", 7, 0);
    for (int w = 0; w < WRITERS; w++) {
        if (fork() != 0)
            continue;
        for (int i = 0; i < ROWS; i++) {
            char name[32];
            snprintf(name, sizeof name, "w%d-%d", w, i);
            store(name, "cpu", i);
            store("shared", "cpu", w);
        }
        _exit(0);
    }
    for (int w = 0, status; w < WRITERS; w++)
        CHECK(wait(&status) > 0 && status == 0);
    CHECK_INT(count_of("shared"), 1);
    CHECK_INT(count_of(NULL), WRITERS * ROWS + 1);
    remove_root(root);
}

TEST(the_oldest_rows_beyond_the_limit_are_removed)
{
    const char *root = open_state();
    store("first", "cpu", 1);
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(file("baselines.db"), &db), SQLITE_OK);
    CHECK_INT(
        sqlite3_exec(db,
                     "UPDATE baseline SET stored_ms = 1;"
                     "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < "
                     "10002) INSERT INTO baseline SELECT 'n' || i, 'cpu', 's', 1, 1, 1, 1, 1, "
                     "1, 1, i FROM n",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    store("last", "cpu", 1);
    CHECK_INT(count_of(NULL), HISTORY_DB_ROWS_MAX);
    CHECK_INT(count_of("last"), 1);
    CHECK_INT(count_of("first") + count_of("n2") + count_of("n3"), 0);
    CHECK_INT(count_of("n4"), 1);
    remove_root(root);
}
