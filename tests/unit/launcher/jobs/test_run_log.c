/* test_run_log - logs of runs: written in batches, small, found by id or name. */
#include "launcher/jobs/run_log.h"

#include <sqlite3.h>

#include "launcher/jobs/registry.h"
#include "launcher/jobs/run_store.h"
#include "tests/unit/kit_root.h"

static const char *open_state(void)
{
    const char *root = new_root();
    setenv("XDG_STATE_HOME", root, 1);
    return root;
}

static char *path_of(const char *id)
{
    return xasprintf("%s/drover/runs/%s.db", getenv("XDG_STATE_HOME"), id);
}

static void report(struct run_log *l, int rank, double loss)
{
    run_log_add(l, "report", rank, json_pack("{s:f}", "loss", loss));
}

static void commit(struct run_log *l, bool last)
{
    struct err e = {0};
    if (run_log_commit(l, last, &e) < 0)
        FAIL("%s", e.text);
}

static struct run_log *ended(const char *id, const char *name)
{
    struct run_log *l = run_log_new(id);
    run_log_put(l, "name", json_text(name));
    run_log_put(l, "status", json_integer(0));
    commit(l, true);
    return l;
}

static void count_row(void *arg, const char *text)
{
    *(int *)arg = atoi(text);
}

static int count(const char *id, const char *sql)
{
    AUTO(free) char *path = path_of(id);
    const struct run_entry r = {.id = (char *)id, .path = path};
    int n = -1;
    struct err e = {0};
    if (run_store_each(&r, sql, count_row, &n, &e) < 0)
        FAIL("%s", e.text);
    return n;
}

TEST(nothing_is_written_before_the_first_commit)
{
    const char *root = open_state();
    AUTO(run_log) struct run_log *l = run_log_new("drover-1-a");
    report(l, 0, 1);
    AUTO(free) char *dir = xasprintf("%s/drover", root);
    CHECK(access(dir, F_OK) < 0);
    commit(l, false);
    CHECK_INT(count("drover-1-a", "SELECT count(*) FROM record WHERE rank = 0"), 1);
    remove_root(root);
}

TEST(a_reader_delays_a_commit_and_loses_nothing)
{
    const char *root = open_state();
    AUTO(run_log) struct run_log *l = run_log_new("drover-1-a");
    AUTO(free) char *path = path_of("drover-1-a");
    sqlite3 *db = NULL;
    report(l, 0, 1);
    commit(l, false);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM record", NULL, NULL, NULL), SQLITE_OK);
    report(l, 0, 2);
    commit(l, false);
    CHECK_INT(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(count("drover-1-a", "SELECT count(*) FROM record"), 1);
    commit(l, false);
    CHECK_INT(count("drover-1-a", "SELECT count(*) FROM record"), 2);
    sqlite3_close(db);
    remove_root(root);
}

TEST(a_second_run_with_the_same_id_gets_a_file_of_its_own)
{
    const char *root = open_state();
    AUTO(run_log) struct run_log *a = ended("same", "a"), *b = ended("same", "b");
    CHECK_STR(run_log_id(a), "same");
    CHECK(strcmp(run_log_id(b), "same") != 0);
    remove_root(root);
}

TEST(an_id_that_is_a_path_is_refused)
{
    const char *root = open_state();
    AUTO(run_log) struct run_log *l = run_log_new("../x");
    struct err e = {0};
    CHECK_INT(run_log_commit(l, true, &e), -EINVAL);
    remove_root(root);
}

TEST(large_reports_are_thinned_for_every_rank)
{
    const char *root = open_state();
    AUTO(run_log) struct run_log *l = run_log_new("big");
    AUTO(free) char *pad = xzalloc(2001);
    memset(pad, 'x', 2000);
    for (int i = 0; i < 4000; i++) {
        run_log_add(l, "report", i % 8, json_pack("{s:i, s:s}", "step", i / 8, "pad", pad));
        if (i % 400 == 399)
            commit(l, false);
    }
    run_log_put(l, "status", json_integer(0));
    commit(l, true);
    int bytes =
        count("big", "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
    CHECK(bytes < 2 * (4000 * 80 + (64 << 10)));
    CHECK_INT(count("big", "SELECT count(DISTINCT rank) FROM record"), 8);
    remove_root(root);
}

TEST(a_run_is_found_by_id_prefix_or_name)
{
    const char *root = open_state();
    AUTO(run_log) struct run_log *a = ended("drover-11-a", "x"), *b = ended("drover-12-b", "y");
    struct run_list l;
    struct run_entry *r = NULL;
    CHECK_INT(run_store_list(&l, NULL), 0);
    CHECK_INT(run_store_find(&r, &l, "12", NULL), 0);
    CHECK_STR(r->id, "drover-12-b");
    CHECK_STR(run_store_text(r, "state"), "done");
    CHECK_INT(run_store_find(&r, &l, "x", NULL), 0);
    CHECK_STR(r->id, "drover-11-a");
    CHECK_INT(run_store_find(&r, &l, "1", NULL), -EEXIST);
    CHECK_INT(run_store_find(&r, &l, "z", NULL), -ENOENT);
    run_store_end(&l);
    remove_root(root);
}

TEST(a_run_that_has_not_ended_is_running_lost_or_on_another_machine)
{
    const char *root = open_state();
    AUTO(free) char *here = registry_place();
    const struct {
        const char *place, *state;
        int64_t start;
    } cases[] = {{here, "running", (int64_t)registry_own_start()},
                 {here, "lost", 1},
                 {"elsewhere", "running", 1}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *id = xasprintf("run-%zu", i);
        AUTO(run_log) struct run_log *log = run_log_new(id);
        run_log_put(log, "process",
                    json_pack("{s:s, s:i, s:I}", "place", cases[i].place, "pid", (int)getpid(),
                              "start", (json_int_t)cases[i].start));
        commit(log, true);
        struct run_list l;
        struct run_entry *r = NULL;
        CHECK_INT(run_store_list(&l, NULL), 0);
        CHECK_INT(run_store_find(&r, &l, id, NULL), 0);
        CHECK_STR(run_store_text(r, "state"), cases[i].state);
        CHECK_INT(run_store_remove(r, NULL), strcmp(cases[i].state, "lost") == 0 ? 0 : -EBUSY);
        run_store_end(&l);
    }
    remove_root(root);
}
