#include "launcher/pmi/pmix_job_info.h"

#include <errno.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/pmi/pmix_loader.h"

enum { JOB_KEYS = 13, NODE_MAP = 4, PROC_MAP = 5 };

/* Fills info[0...JOB_KEYS-1]. From the two maps, libpmix derives the data of each rank, such as its
 * host and its local rank. Otherwise it would need all these data (PMIX_PROC_DATA). */
static int fill(pmix_info_t *info, const char *job, int ranks, const char *node, const char *dir,
                struct err *e)
{
    AUTO(strbuf) struct strbuf peers = {0};
    for (int i = 0; i < ranks; i++)
        strbuf_printf(&peers, "%s%d", i ? "," : "", i);
    AUTO(free) char *nodes = NULL;
    AUTO(free) char *procs = NULL;
    pmix_status_t rc = PMIx_generate_regex(node, &nodes);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_generate_ppn(strbuf_str(&peers), &procs);
    if (rc != PMIX_SUCCESS)
        return err_set(e, -EIO, "PMIx: describe the job's nodes: %s", PMIx_Error_string(rc));
    uint32_t size = (uint32_t)ranks, one = 1;
    pmix_rank_t leader = 0;
    PMIX_INFO_LOAD(&info[0], PMIX_UNIV_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[2], PMIX_LOCAL_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[3], PMIX_LOCAL_PEERS, strbuf_str(&peers), PMIX_STRING);
    PMIX_INFO_LOAD(&info[NODE_MAP], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[PROC_MAP], PMIX_PROC_MAP, procs, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[6], PMIX_MAX_PROCS, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[7], PMIX_NODE_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[8], PMIX_NUM_NODES, &one, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[9], PMIX_LOCALLDR, &leader, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&info[10], PMIX_JOBID, job, PMIX_STRING);
    PMIX_INFO_LOAD(&info[11], PMIX_TMPDIR, dir, PMIX_STRING);
    PMIX_INFO_LOAD(&info[12], PMIX_NSDIR, dir, PMIX_STRING);
    return 0;
}

int pmix_job_info_make(pmix_info_t **out, size_t *n, const char *job, int ranks, const char *node,
                       const char *dir, struct err *e)
{
    pmix_info_t *info;
    PMIX_INFO_CREATE(info, JOB_KEYS); /* zeroed */
    int rc = fill(info, job, ranks, node, dir, e);
    if (rc < 0) {
        PMIX_INFO_FREE(info, JOB_KEYS);
        return rc;
    }
    *out = info;
    *n = JOB_KEYS;
    return 0;
}
