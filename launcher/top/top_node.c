#include "launcher/top/top_node.h"

void top_node_end(struct top_node *n)
{
    free(n->gpus);
    free(n->processes);
    free(n->jobs);
    *n = (struct top_node){0};
}

/* Appends an entry of `size` bytes to the array. */
static void *add(void **array, int *count, size_t size)
{
    *array = xrealloc(*array, (size_t)*count + 1, size);
    return (char *)*array + (size_t)(*count)++ * size;
}

struct top_process *top_node_add_process(struct top_node *n)
{
    void *array = n->processes;
    struct top_process *p = add(&array, &n->process_count, sizeof *p);
    n->processes = array;
    *p = (struct top_process){
        .memory_bytes = TOP_UNKNOWN, .trial = TOP_UNKNOWN, .rank = TOP_UNKNOWN};
    return p;
}

struct top_job *top_node_add_job(struct top_node *n)
{
    void *array = n->jobs;
    struct top_job *j = add(&array, &n->job_count, sizeof *j);
    n->jobs = array;
    *j = (struct top_job){.trial = TOP_UNKNOWN};
    return j;
}

struct gpu_sample *top_node_add_gpu(struct top_node *n)
{
    void *array = n->gpus;
    struct gpu_sample *g = add(&array, &n->gpu_count, sizeof *g);
    n->gpus = array;
    *g = (struct gpu_sample){0};
    return g;
}
