#include "launcher/plan/rank_map.h"

#include "common/strbuf.h"
#include "tests/unit/test.h"

/* "aabb": the host of each rank, or "error: …". */
static char *seated(const struct launch_spec *s, const struct rank_map_host *hosts, int count)
{
    struct rank_map *seats = NULL;
    struct err e = {0};
    int n = rank_map_make(&seats, s, hosts, count, &e), last[16] = {0};
    if (n < 0) {
        CHECK_INT(n, -EINVAL);
        CHECK(seats == NULL);
        CHECK(e.hint[0]);
        CHECK_INT(rank_map_make(&seats, s, hosts, count, NULL), -EINVAL);
        return xasprintf("error: %s; try: %s", e.text, e.hint);
    }
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < n; i++) {
        strbuf_puts(&b, hosts[seats[i].host].name);
        CHECK_INT(seats[i].local_rank, last[seats[i].host]++); /* in the order of the ranks */
    }
    free(seats);
    return strbuf_take(&b);
}

static void maps_to(const struct launch_spec *s, const struct rank_map_host *hosts, int count,
                    const char *expected)
{
    AUTO(free) char *got = seated(s, hosts, count);
    CHECK_STR(got, expected);
}

static void refuses(const struct launch_spec *s, const struct rank_map_host *hosts, int count,
                    const char *expected)
{
    AUTO(free) char *got = seated(s, hosts, count);
    CHECK_HAS(got, "error: ");
    CHECK_HAS(got, expected);
}

#define SAID(n, slots_)                                                 \
    {                                                                   \
        .name = n, .slots = (slots_), .slots_given = true, .objects = 1 \
    }
static const struct rank_map_host two[] = {SAID("a", 4), SAID("b", 2)};
static const struct rank_map_host three[] = {SAID("a", 2), SAID("b", 2), SAID("c", 2)};

/* As seated(), for programs with their ranks and, on the two hosts, their slots. */
static void programs_map_to(const struct rank_map_program *programs, int n,
                            const struct rank_map_host *hosts, const char *expected)
{
    struct launch_spec s = {0};
    struct rank_map *map = NULL;
    struct err e = {0};
    int last[2] = {0};
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < n; i++)
        s.ranks += programs[i].ranks;
    int ranks = rank_map_programs(&map, &s, programs, n, hosts, 2, &e);
    for (int i = 0; i < ranks; i++) {
        strbuf_puts(&b, hosts[map[i].host].name);
        CHECK_INT(map[i].local_rank, last[map[i].host]++);
    }
    free(map);
    if (ranks < 0)
        CHECK_HAS(e.text, expected);
    else
        CHECK_STR(strbuf_str(&b), expected);
}

TEST(programs_have_the_hosts_that_they_name_and_share_the_slots)
{
    int on_a[] = {4, 0}, on_b[] = {0, 1}, one_each[] = {1, 1};
    struct rank_map_program p[] = {{1, on_b}, {2, on_a}, {3, NULL}, {1, on_b}};
    programs_map_to(p, 3, two, "baaaab");
    programs_map_to(p, 4, two, "program 4: none of its hosts has a free slot");
    p[0].ranks = 2;
    programs_map_to(p, 1, two, "program 1: cannot map 2 ranks: host 'b' has 1 slot");
    p[0] = (struct rank_map_program){2, one_each};
    programs_map_to(p, 2, two, "abaa");
}

TEST(hosts_are_filled_one_after_the_other)
{
    maps_to(&(struct launch_spec){0}, two, 2, "aaaabb");
    maps_to(&(struct launch_spec){.ranks = 3}, two, 2, "aaa");
    maps_to(&(struct launch_spec){.ranks = 5, .map_by = PLAN_MAP_SLOT}, two, 2, "aaaab");
    maps_to(&(struct launch_spec){.ranks = 5, .map_by = PLAN_MAP_NUMA}, two, 2, "aaaab");
}

TEST(map_by_node_goes_from_host_to_host)
{
    maps_to(&(struct launch_spec){.ranks = 5, .map_by = PLAN_MAP_NODE}, three, 3, "abcab");
    maps_to(&(struct launch_spec){.map_by = PLAN_MAP_NODE}, two, 2, "ababaa");
}

TEST(rank_by_is_apart_from_map_by)
{
    maps_to(&(struct launch_spec){.ranks = 5, .rank_by = PLAN_MAP_NODE}, three, 3, "abcab");
    maps_to(&(struct launch_spec){.ranks = 5, .rank_by = PLAN_MAP_NODE}, two, 2, "abaaa");
    maps_to(&(struct launch_spec){.ranks = 5, .map_by = PLAN_MAP_NODE, .rank_by = PLAN_MAP_SLOT},
            three, 3, "aabbc");
}

TEST(a_number_to_each_host_is_kept)
{
    maps_to(&(struct launch_spec){.per_node = 2}, three, 3, "aabbcc");
    maps_to(&(struct launch_spec){.per_node = 2, .ranks = 3}, three, 3, "aab");
    maps_to(&(struct launch_spec){.per_node = 1, .ranks = 2}, three, 3, "ab");
    struct launch_spec ppr = {.map_by = PLAN_MAP_PPR, .ppr = 1, .ppr_of = PLAN_MAP_NODE};
    maps_to(&ppr, three, 3, "abc");
    struct rank_map_host packages[] = {{"a", 8, true, 0, 2}, {"b", 8, true, 0, 2}};
    ppr.ppr_of = PLAN_MAP_PACKAGE;
    maps_to(&ppr, packages, 2, "aabb");
}

TEST(more_ranks_than_slots_are_refused_with_the_cure)
{
    refuses(&(struct launch_spec){.ranks = 7}, two, 2,
            "cannot map 7 ranks: the 2 hosts have 6 slots");
    refuses(&(struct launch_spec){.ranks = 7}, two, 2, "-H a:4,b:4");
    refuses(&(struct launch_spec){.ranks = 7}, two, 2, "--oversubscribe");
    refuses(&(struct launch_spec){.ranks = 9}, two, 1, "cannot map 9 ranks: host 'a' has 4 slots");
    refuses(&(struct launch_spec){.per_node = 3}, two, 2,
            "cannot map 3 ranks per host: host 'b' has 2 slots");
    refuses(&(struct launch_spec){.per_node = 1, .ranks = 4}, three, 3,
            "1 per host are 3 on 3 hosts");
}

TEST(oversubscribed_ranks_are_spread_evenly_up_to_max_slots)
{
    struct launch_spec s = {.ranks = 8, .oversubscribe = true};
    maps_to(&s, two, 2, "aaaaabbb");
    struct rank_map_host limited[] = {{"a", 4, true, 4, 1}, {"b", 2, true, 5, 1}};
    maps_to(&s, limited, 2, "aaaabbbb");
    s.ranks = 10;
    refuses(&s, limited, 2, "cannot map 10 ranks: the 2 hosts have at most 9 slots");
    maps_to(&(struct launch_spec){.per_node = 3, .oversubscribe = true}, two, 2, "aaabbb");
}

TEST(slots_that_nobody_has_said_are_a_wish_and_no_limit)
{
    struct rank_map_host open[] = {{"a", 2, false, 0, 1}, {"b", 2, false, 0, 1}};
    maps_to(&(struct launch_spec){0}, open, 2, "aabb");
    maps_to(&(struct launch_spec){.ranks = 6}, open, 2, "aaabbb");
    maps_to(&(struct launch_spec){.per_node = 3}, open, 2, "aaabbb");
    struct rank_map_host mixed[] = {SAID("a", 2), {"b", 2, false, 0, 1}};
    maps_to(&(struct launch_spec){.ranks = 6}, mixed, 2, "aabbbb");
}

TEST(where_nobody_knows_the_slots_ranks_are_spread_evenly_or_asked_for)
{
    struct rank_map_host unknown[] = {{"a", 0, false, 0, 1}, {"b", 0, false, 0, 1}};
    maps_to(&(struct launch_spec){.ranks = 5}, unknown, 2, "aaabb");
    maps_to(&(struct launch_spec){.per_node = 2}, unknown, 2, "aabb");
    refuses(&(struct launch_spec){0}, unknown, 2, "the number of ranks is unknown");
}
