#include "launcher/pmi/locality.h"

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/node/cpu_list.h"

char *locality_make(hwloc_topology_t topology, hwloc_const_bitmap_t cpus)
{
    static const struct {
        const char *name;
        hwloc_obj_type_t type;
    } types[] = {{"NM", HWLOC_OBJ_NUMANODE}, {"SK", HWLOC_OBJ_PACKAGE}, {"L3", HWLOC_OBJ_L3CACHE},
                 {"L2", HWLOC_OBJ_L2CACHE},  {"L1", HWLOC_OBJ_L1CACHE}, {"CR", HWLOC_OBJ_CORE},
                 {"HT", HWLOC_OBJ_PU}};
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(bitmap) hwloc_bitmap_t found = hwloc_bitmap_alloc();
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        hwloc_bitmap_zero(found);
        for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(topology, types[i].type, o));)
            if (hwloc_bitmap_intersects(o->cpuset, cpus))
                hwloc_bitmap_set(found, o->logical_index);
        char *list = NULL;
        if (!hwloc_bitmap_iszero(found) && hwloc_bitmap_list_asprintf(&list, found) >= 0)
            strbuf_printf(&b, "%s%s%s", b.len ? ":" : "", types[i].name, list);
        free(list);
    }
    return xstrdup(strbuf_str(&b));
}
