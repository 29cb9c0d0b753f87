#include "launcher/plan/cpu_slots.h"

#include "tests/unit/kit_machine.h"
#include "tests/unit/test.h"

/* xeon-2s: 2 packages of 8 cores, whose threads are i and i + 16. */
TEST(slots_name_cores_cores_of_a_package_and_threads)
{
    static const struct {
        const char *text, *cpus, *error; /* of the two, one is NULL */
    } cases[] = {
        {"0", "0,16", NULL},
        {"1-2,15", "1-2,15,17-18,31", NULL},
        {"1:0,2", "8,10,24,26", NULL},
        {"1:*", "8-15,24-31", NULL},
        {"*", "0-31", NULL},
        {"0:7;1:7", "7,15,23,31", NULL},
        {"p0,17", "0,17", NULL},
        {"P3", "3", NULL},
        {"16", NULL, "core 16: the node of 'xeon-2s' has cores 0 to 15"},
        {"1:8", NULL, "core 8: a package of 'xeon-2s' has cores 0 to 7"},
        {"2:0", NULL, "'xeon-2s' has no package 2"},
        {"x:0", NULL, "package: 'x' is not a number"},
        {"-1:0", NULL, "package: -1 is out of range (at least 0)"},
        {"p32", NULL, "'xeon-2s' has no such CPU that this process may use"},
        {"a", NULL, ""},
        {"", NULL, ""},
        {"0;", NULL, ""},
    };
    AUTO(topo) struct topo *t = machine("xeon-2s");
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err e = {0};
        AUTO(free) char *got = NULL, *prefix = xasprintf("slots '%s': ", cases[i].text);
        int rc = cpu_slots_parse(set, t, cases[i].text, &e);
        CHECK_INT(rc, cases[i].cpus ? 0 : -EINVAL);
        if (rc == 0) {
            CHECK(hwloc_bitmap_list_asprintf(&got, set) > 0);
            CHECK_STR(got, cases[i].cpus);
        } else {
            CHECK_HAS(e.text, prefix);
            CHECK_HAS(e.text, cases[i].error);
        }
    }
}
