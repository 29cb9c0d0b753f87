/* plan_free - frees plans. plan_free() is in an object file of its own, since drover-rank frees
 * plans, but must not link the planner with its topology discovery. */
#include "launcher/plan/plan.h"

void plan_free(struct plan *p)
{
    if (!p)
        return;
    for (int i = 0; p->ranks && i < p->world_size; i++) {
        struct plan_rank *r = &p->ranks[i];
        free(r->gpu_uuid);
        free(r->cpus);
        free(r->mems);
        strv_free(r->env);
        strv_free(r->argv);
        free(r->wdir);
    }
    for (int i = 0; p->nodes && i < p->node_count; i++) {
        free(p->nodes[i].name);
        free(p->nodes[i].hardware);
    }
    free(p->ranks);
    free(p->nodes);
    free(p->job_id);
    free(p->master_addr);
    free(p->wdir);
    strv_free(p->argv);
    strv_free(p->env);
    free(p);
}
