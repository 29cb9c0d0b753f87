#include "launcher/pmi/pmix_job_info.h"

#include <errno.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/node/cpu_list.h"
#include "launcher/pmi/pmix_loader.h"

enum { JOB_KEYS = 14, RANK_KEYS_MAX = 7 };

/* The nodes that have ranks. PMIx's maps cannot describe others. */
struct nodes {
    int *id;    /* per node of the map: its number here, or -1 */
    int *ranks; /* per node of the map: how many ranks were counted */
    int count;
};

static void free_nodes(struct nodes *n)
{
    free(n->id);
    free(n->ranks);
}

/* Makes the maps of libpmix: "a,b" and "0,1;2,3". */
static void write_maps(const struct job_map *map, struct nodes *n, struct strbuf *names,
                       struct strbuf *ranks)
{
    AUTO(free) struct strbuf *of = xcalloc((size_t)map->node_count, sizeof *of);
    for (int i = 0; i < map->ranks; i++)
        strbuf_printf(&of[map->rank_nodes[i]], "%s%d", of[map->rank_nodes[i]].len ? "," : "", i);
    n->id = xcalloc((size_t)map->node_count, sizeof *n->id);
    n->ranks = xcalloc((size_t)map->node_count, sizeof *n->ranks);
    for (int i = 0; i < map->node_count; i++) {
        n->id[i] = of[i].len ? n->count++ : -1;
        if (of[i].len) {
            strbuf_printf(names, "%s%s", names->len ? "," : "", map->nodes[i]);
            strbuf_printf(ranks, "%s%s", ranks->len ? ";" : "", of[i].data);
        }
        strbuf_free(&of[i]);
    }
}

static int load_maps(pmix_info_t *names, pmix_info_t *ranks, const struct job_map *map,
                     struct nodes *n, struct err *e)
{
    AUTO(strbuf) struct strbuf all_names = {0};
    AUTO(strbuf) struct strbuf all_ranks = {0};
    AUTO(free) char *name_map = NULL;
    AUTO(free) char *rank_map = NULL;
    write_maps(map, n, &all_names, &all_ranks);
    pmix_status_t rc = PMIx_generate_regex(strbuf_str(&all_names), &name_map);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_generate_ppn(strbuf_str(&all_ranks), &rank_map);
    if (rc != PMIX_SUCCESS)
        return err_set(e, -EIO, "PMIx: describe the job's nodes: %s", PMIx_Error_string(rc));
    PMIX_INFO_LOAD(names, PMIX_NODE_MAP, name_map, PMIX_REGEX);
    PMIX_INFO_LOAD(ranks, PMIX_PROC_MAP, rank_map, PMIX_REGEX);
    return 0;
}

static int load_job(pmix_info_t *info, const struct job_map *map, struct nodes *n, const char *dir,
                    struct err *e)
{
    AUTO(strbuf) struct strbuf peers = {0};
    for (int i = 0; i < map->local_count; i++)
        strbuf_printf(&peers, "%s%d", i ? "," : "", map->local[i]);
    int rc = load_maps(&info[0], &info[1], map, n, e);
    if (rc < 0)
        return rc;
    uint32_t size = (uint32_t)map->ranks, local = (uint32_t)map->local_count;
    uint32_t nodes = (uint32_t)n->count, id = (uint32_t)n->id[map->node];
    pmix_rank_t leader = (pmix_rank_t)map->local[0];
    PMIX_INFO_LOAD(&info[2], PMIX_UNIV_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[3], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[4], PMIX_LOCAL_SIZE, &local, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[5], PMIX_LOCAL_PEERS, strbuf_str(&peers), PMIX_STRING);
    PMIX_INFO_LOAD(&info[6], PMIX_MAX_PROCS, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[7], PMIX_NODE_SIZE, &local, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[8], PMIX_NUM_NODES, &nodes, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[9], PMIX_LOCALLDR, &leader, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&info[10], PMIX_JOBID, map->job_id, PMIX_STRING);
    PMIX_INFO_LOAD(&info[11], PMIX_TMPDIR, dir, PMIX_STRING);
    PMIX_INFO_LOAD(&info[12], PMIX_NSDIR, dir, PMIX_STRING);
    PMIX_INFO_LOAD(&info[13], PMIX_NODEID, &id, PMIX_UINT32);
    return 0;
}

char *pmix_job_info_locality(hwloc_topology_t topology, hwloc_const_bitmap_t cpus)
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

/* Returns where a local rank is bound, or NULL if it is not bound. The caller frees the result. */
static char *find_locality(const struct job_map *map, int index, hwloc_topology_t topology)
{
    if (!*map->cpus[index])
        return NULL;
    AUTO(bitmap) hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    return cpu_list_parse(cpus, map->cpus[index], NULL) < 0
               ? NULL
               : pmix_job_info_locality(topology, cpus);
}

/* The application number and the locality matter only on the rank's own node. */
static void load_rank(pmix_info_t *info, const struct job_map *map, int rank, struct nodes *n,
                      hwloc_topology_t topology)
{
    int node = map->rank_nodes[rank];
    pmix_rank_t number = (pmix_rank_t)rank;
    uint16_t on_node = (uint16_t)n->ranks[node]++;
    uint32_t id = (uint32_t)n->id[node], app = 0;
    pmix_info_t *keys;
    size_t k = 0;
    PMIX_INFO_CREATE(keys, RANK_KEYS_MAX);
    PMIX_INFO_LOAD(&keys[k++], PMIX_RANK, &number, PMIX_PROC_RANK); /* the first one, by libpmix */
    PMIX_INFO_LOAD(&keys[k++], PMIX_NODEID, &id, PMIX_UINT32);
    PMIX_INFO_LOAD(&keys[k++], PMIX_LOCAL_RANK, &on_node, PMIX_UINT16);
    PMIX_INFO_LOAD(&keys[k++], PMIX_NODE_RANK, &on_node, PMIX_UINT16);
    PMIX_INFO_LOAD(&keys[k++], PMIX_HOSTNAME, map->nodes[node], PMIX_STRING);
    if (node == map->node) {
        AUTO(free) char *locality = find_locality(map, on_node, topology);
        PMIX_INFO_LOAD(&keys[k++], PMIX_APPNUM, &app, PMIX_UINT32);
        if (locality)
            PMIX_INFO_LOAD(&keys[k++], PMIX_LOCALITY_STRING, locality, PMIX_STRING);
    }
    pmix_data_array_t *array = xzalloc(sizeof *array);
    *array = (pmix_data_array_t){.type = PMIX_INFO, .size = k, .array = keys};
    PMIX_LOAD_KEY(info->key, PMIX_PROC_DATA);
    info->value.type = PMIX_DATA_ARRAY;
    info->value.data.darray = array;
}

/* Returns true if libpmix can derive all data of the ranks from the maps, which is faster: no rank
 * is bound. If it gets data of one rank, it derives none. */
static bool maps_suffice(const struct job_map *map)
{
    for (int i = 0; i < map->local_count; i++)
        if (*map->cpus[i])
            return false;
    return true;
}

int pmix_job_info_make(pmix_info_t **out, size_t *n, const struct job_map *map,
                       hwloc_topology_t topology, const char *dir, struct err *e)
{
    struct nodes nodes = {0};
    size_t ranks = maps_suffice(map) ? 0 : (size_t)map->ranks, count = JOB_KEYS + ranks;
    pmix_info_t *info;
    PMIX_INFO_CREATE(info, count); /* zeroed */
    int rc = load_job(info, map, &nodes, dir, e);
    for (size_t i = 0; rc == 0 && i < ranks; i++)
        load_rank(&info[JOB_KEYS + i], map, (int)i, &nodes, topology);
    free_nodes(&nodes);
    if (rc < 0) {
        PMIX_INFO_FREE(info, count);
        return rc;
    }
    *out = info;
    *n = count;
    return 0;
}
