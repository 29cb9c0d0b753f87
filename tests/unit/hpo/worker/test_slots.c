/* test_slots - which slot a trial gets, and which slots foreign processes block. */
#include "hpo/worker/slots.h"

#include "tests/unit/test.h"

/* A node of 8 cores with `gpus_there` GPUs, divided for trials that need `gpus` each. */
static struct slots *cut(int gpus_there, double gpus)
{
    char dir[64], xml[96], list[96], command[96];
    snprintf(dir, sizeof dir, "/tmp/test_slots.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    snprintf(xml, sizeof xml, "%s/node.xml", dir);
    snprintf(list, sizeof list, "%s/node.gpus.json", dir);
    snprintf(command, sizeof command, "rm -r %s", dir);
    hwloc_topology_t h;
    hwloc_topology_init(&h);
    CHECK_INT(hwloc_topology_set_synthetic(h, "core:8 pu:1"), 0);
    hwloc_topology_load(h);
    CHECK_INT(hwloc_topology_export_xml(h, xml, 0), 0);
    hwloc_topology_destroy(h);
    FILE *f = fopen(list, "w");
    for (int i = 0; i < gpus_there; i++)
        fprintf(f,
                "%s{\"index\":%d,\"uuid\":\"GPU-%d\",\"name\":\"x\",\"bus_id\":\"0000:%02d:00.0\"}",
                i ? "," : "[", i, i, i + 1);
    fputs(gpus_there ? "]\n" : "[]\n", f);
    fclose(f);
    AUTO(topo) struct topo *t = NULL;
    struct slots *p = NULL;
    struct err e = {0};
    const struct node_slice_opts want = {.need = {.ranks = 1, .gpus = gpus}};
    if (topo_load_file(&t, xml, &e) < 0 || slots_new(&p, t, &want, &e) < 0)
        FAIL("%s", e.text);
    CHECK_INT(system(command), 0);
    return p;
}

static const int owners[16]; /* their addresses represent trials */

static const char *take(struct slots *p, int i)
{
    const struct node_slice *s = slots_acquire(p, &owners[i]);
    return s ? s->gpus : "none";
}

TEST(a_trial_gets_the_gpus_with_the_fewest_trials)
{
    AUTO(slots) struct slots *p = cut(2, 0.34); /* two per GPU */
    CHECK_INT(slots_usable(p), 4);
    CHECK_STR(take(p, 0), "GPU-0");
    CHECK_STR(take(p, 1), "GPU-1");
    CHECK_STR(take(p, 2), "GPU-0");
    slots_release(p, &owners[1], 0);
    CHECK_STR(take(p, 3), "GPU-1");
    CHECK_STR(take(p, 4), "GPU-1");
    CHECK_STR(take(p, 5), "none");
    slots_release(p, &owners[5], 0); /* it has no slot */
    CHECK_STR(take(p, 5), "none");
}

TEST(a_node_without_gpus_has_slots_too)
{
    AUTO(slots) struct slots *p = cut(0, 0);
    CHECK(!slots_have_gpus(p));
    for (int i = 0; i < 8; i++)
        CHECK(slots_acquire(p, &owners[i]));
    CHECK(!slots_acquire(p, &owners[8]));
    CHECK(!slots_set_foreign(p, NULL, 0, 0));
    CHECK_INT(slots_usable(p), 8);
}

TEST(a_gpu_of_a_foreign_process_is_left_out_and_used_again)
{
    AUTO(slots) struct slots *p = cut(3, 1);
    const struct foreign_gpu_process bob[] = {{"GPU-1", true, "process 4711 of bob (train)"},
                                              {"GPU-9", true, "not ours"}};
    AUTO(free) char *said = slots_set_foreign(p, bob, 2, 100);
    CHECK_STR(said, "GPU-1 is left out: process 4711 of bob (train)");
    CHECK_INT(slots_usable(p), 2);
    CHECK(!slots_set_foreign(p, bob, 2, 200)); /* once */
    CHECK_STR(take(p, 0), "GPU-0");
    CHECK_STR(take(p, 1), "GPU-2");
    CHECK_STR(take(p, 2), "none");
    AUTO(free) char *again = slots_set_foreign(p, NULL, 0, 300);
    CHECK_STR(again, "GPU-1 is used again");
    CHECK_STR(take(p, 2), "GPU-1");
}

TEST(a_running_trial_stays_next_to_a_foreign_process_and_no_other_starts)
{
    AUTO(slots) struct slots *p = cut(1, 1);
    const struct foreign_gpu_process bob = {"GPU-0", true, "process 1"};
    CHECK_STR(take(p, 0), "GPU-0");
    AUTO(free) char *said = slots_set_foreign(p, &bob, 1, 0);
    CHECK(said);
    CHECK_INT(slots_usable(p), 1);
    slots_release(p, &owners[0], 5);
    CHECK_INT(slots_usable(p), 0);
    CHECK_STR(take(p, 0), "none");
}

TEST(memory_in_use_is_foreign_only_if_no_trial_can_be_its_user)
{
    AUTO(slots) struct slots *p = cut(2, 0.5);
    const struct foreign_gpu_process some = {"GPU-0", false, "3 GiB of its memory are in use"};
    CHECK_STR(take(p, 0), "GPU-0");
    CHECK(!slots_set_foreign(p, &some, 1, 100));
    slots_release(p, &owners[0], 150);
    CHECK(!slots_set_foreign(p, &some, 1, 149)); /* it ran when the driver was asked */
    CHECK(!slots_set_foreign(p, &some, 1, 150));
    AUTO(free) char *said = slots_set_foreign(p, &some, 1, 151);
    CHECK_STR(said, "GPU-0 is left out: 3 GiB of its memory are in use");
    CHECK_INT(slots_usable(p), 2);
    CHECK_STR(take(p, 0), "GPU-1");
}
