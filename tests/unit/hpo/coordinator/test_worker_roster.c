/* test_worker_roster - the list of workers for `sweep show`, and the warning if there are too
 * few. */
#include "hpo/coordinator/worker_roster.h"

#include "common/json.h"
#include "common/log.h"
#include "tests/unit/test.h"

static char root[64];
static struct sweep_dir *dir;
static struct peer_table table, *const peers = &table;

static void in_new_sweep(void)
{
    struct err e = {0};
    strcpy(root, "/tmp/test_worker_roster.XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    const struct sweep_dir_opts ask = {.root = root, .name = "s", .file = "method: random\n"};
    if (sweep_dir_open(&dir, &ask, &e) < 0)
        FAIL("%s", e.text);
}

static void remove_sweep(void)
{
    char cmd[96];
    peer_table_clear(peers);
    sweep_dir_close(dir);
    snprintf(cmd, sizeof cmd, "rm -rf %s", root);
    CHECK_INT(system(cmd), 0);
}

/* The ids in workers.json as "a,b,"; "-": there is no file. */
static const char *written(void)
{
    static char ids[4096];
    AUTO(free) char *path = xasprintf("%s/workers.json", dir->path);
    AUTO(json) json_t *list = json_load_file(path, 0, NULL);
    size_t i, n = 0;
    json_t *w;
    strcpy(ids, list ? "" : "-");
    json_array_foreach (list, i, w)
        n += (size_t)snprintf(ids + n, sizeof ids - n, "%s,",
                              json_string_value(json_object_get(w, "id")));
    return ids;
}

/* Ticks at these times, and returns in `said` what they write to stderr. */
static void tick_at(struct worker_roster *c, char *said, size_t size, const uint64_t *at_ms,
                    size_t count)
{
    FILE *f = tmpfile();
    int keep = dup(2);
    log_open("t");
    dup2(fileno(f), 2);
    for (size_t i = 0; i < count; i++)
        worker_roster_tick(c, peers, dir, at_ms[i]);
    dup2(keep, 2);
    close(keep);
    rewind(f);
    said[fread(said, 1, size - 1, f)] = 0;
    fclose(f);
}

TEST(workers_are_written_when_they_have_changed)
{
    in_new_sweep();
    struct worker_roster c = {.nodes = 1, .own = true};
    peer_table_add(peers, "a")->slots = 3;
    peer_table_add(peers, "b")->lost = true;
    peer_table_add(peers, "c");
    CHECK_INT(worker_roster_count(peers), 2);
    worker_roster_tick(&c, peers, dir, 1000);
    CHECK_STR(written(), "-"); /* they have not changed */
    c.changed = true;
    worker_roster_tick(&c, peers, dir, 2000);
    CHECK_STR(written(), "a,c,");
    CHECK(!c.changed);
    peer_table_find(peers, "a")->lost = true;
    worker_roster_tick(&c, peers, dir, 3000);
    CHECK_STR(written(), "a,c,");
    c.changed = true;
    worker_roster_tick(&c, peers, dir, 4000);
    CHECK_STR(written(), "c,");
    remove_sweep();
}

TEST(totals_count_a_node_once_and_no_lost_worker)
{
    static const struct {
        const char *id, *node;
        int slots, gpus;
        bool lost;
    } rows[] = {{"a", "n1", 2, 4, false},
                {"b", "n1", 1, 4, false},
                {"c", "n2", 3, 1, false},
                {"d", "n3", 9, 8, true}};
    struct peer_table all = {0}, *p = &all;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct peer *w = peer_table_add(p, rows[i].id);
        strcpy(w->node, rows[i].node);
        w->slots = rows[i].slots;
        w->gpus = rows[i].gpus;
        w->lost = rows[i].lost;
    }
    struct worker_roster_totals t = worker_roster_totals(p);
    CHECK_INT(t.workers, 3);
    CHECK_INT(t.slots, 6);
    CHECK_INT(t.gpus, 5);
    peer_table_clear(p);
}

TEST(the_more_workers_the_less_often_they_are_written)
{
    in_new_sweep();
    struct worker_roster c = {.nodes = 1, .own = true, .changed = true, .written_ms = 10000};
    for (int i = 0; i < 1500; i++) {
        AUTO(free) char *id = xasprintf("w%d", i);
        peer_table_add(peers, id)->lost = i > 0;
    }
    worker_roster_tick(&c, peers, dir, 11499);
    CHECK_STR(written(), "-");
    CHECK(c.changed); /* it is written later */
    worker_roster_tick(&c, peers, dir, 11500);
    CHECK_STR(written(), "w0,");
    CHECK_INT(c.written_ms, 11500);
    remove_sweep();
}

TEST(half_a_minute_without_a_worker_is_warned_about_once)
{
    in_new_sweep();
    struct worker_roster c = {.nodes = 1, .lonely_ms = 1000};
    char said[4096];
    tick_at(&c, said, sizeof said, (uint64_t[]){1000, 30999}, 2);
    CHECK_STR(said, "");
    tick_at(&c, said, sizeof said, (uint64_t[]){31000, 32000, 99000}, 3);
    CHECK_HAS(said, "t: warn: no worker is connected; copy /");
    CHECK_HAS(said, dir->path);
    CHECK_HAS(said, "/worker.key to another machine: drover worker --key worker.key");
    CHECK(strchr(said, '\n') == strrchr(said, '\n'));
    remove_sweep();
}

TEST(the_time_without_a_worker_starts_anew_when_the_last_one_is_lost)
{
    in_new_sweep();
    struct worker_roster c = {.nodes = 1, .lonely_ms = 1000};
    char said[4096];
    struct peer *w = peer_table_add(peers, "a");
    tick_at(&c, said, sizeof said, (uint64_t[]){60000}, 1);
    CHECK_STR(said, "");
    w->lost = true;
    tick_at(&c, said, sizeof said, (uint64_t[]){89999}, 1);
    CHECK_STR(said, "");
    tick_at(&c, said, sizeof said, (uint64_t[]){90000}, 1);
    CHECK_HAS(said, "no worker is connected");
    struct worker_roster own = {.nodes = 1, .own = true, .lonely_ms = 1000};
    tick_at(&own, said, sizeof said, (uint64_t[]){100000, 200000}, 2);
    CHECK_STR(said, ""); /* the coordinator reports the failure of its own worker */
    remove_sweep();
}

TEST(too_few_nodes_for_a_trial_are_warned_about)
{
    in_new_sweep();
    struct worker_roster c = {.nodes = 2, .own = true, .lonely_ms = 1000};
    char said[4096];
    snprintf(peer_table_add(peers, "a")->node, 8, "n1");
    snprintf(peer_table_add(peers, "b")->node, 8, "n1");
    tick_at(&c, said, sizeof said, (uint64_t[]){30999, 31000, 99000}, 3);
    CHECK_HAS(said, "a trial needs 2 nodes, but workers are on 1; copy /");
    snprintf(peer_table_add(peers, "c")->node, 8, "n2");
    tick_at(&c, said, sizeof said, (uint64_t[]){100000, 140000}, 2);
    CHECK_STR(said, "");
    remove_sweep();
}
