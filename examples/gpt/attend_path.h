/* attend_path - what computes attention on a GPU: cuDNN, if it takes the shape, or the kernels of
 * attend.cuh. Part of gpt_cuda.cu; its host code. */
#pragma once

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "attend_cudnn.h"
#include "ops.h"

enum { ATTEND_PLANS = 64 };

struct attend_plan {
    struct attend_shape of;
    int number; /* of run(); negative: cuDNN refuses the shape */
    size_t workspace;
};

/* Zeros are a path that has not been opened. */
struct attend_path {
    enum ops_attention how;
    int opened; /* 1: cudnn is open; negative: it cannot be, for the reason `why` */
    const struct attend_cudnn_library *library;
    struct attend_cudnn *cudnn;
    struct attend_plan plans[ATTEND_PLANS];
    int planned;
    char why[200]; /* the first reason against cuDNN */
};

extern "C" {
__attribute__((visibility("default"))) void *(*ops_cuda_load)(const char *name);
}

/* Loads the library from the folder that this code is in. */
static const struct attend_cudnn_library *attend_load(char *why, size_t why_size)
{
    char path[PATH_MAX];
    Dl_info self;
    const char *slash =
        dladdr((const void *)attend_load, &self) ? strrchr(self.dli_fname, '/') : NULL;
    int folder = slash ? (int)(slash + 1 - self.dli_fname) : 0;
    snprintf(path, sizeof path, "%.*sattend_cudnn.so", folder, folder ? self.dli_fname : "");
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct attend_cudnn_library *l =
        (const struct attend_cudnn_library *)(lib ? dlsym(lib, ATTEND_CUDNN_SYMBOL) : NULL);
    if (l && l->abi == ATTEND_CUDNN_ABI)
        return l;
    if (lib)
        snprintf(why, why_size, "%s is of another version (try: build all again)", path);
    else
        snprintf(why, why_size, "built without cuDNN's headers (try: scripts/setup --with-cuda)");
    return NULL;
}

static void attend_open(struct attend_path *p, int sm, void *stream)
{
    if (p->opened)
        return;
    p->library = attend_load(p->why, sizeof p->why);
    for (size_t i = 0;
         p->library && ops_cuda_load && i < sizeof p->library->needs / sizeof *p->library->needs;
         i++)
        (void)ops_cuda_load(p->library->needs[i]); /* open() says if it is missing */
    p->opened =
        p->library && p->library->open(&p->cudnn, sm, stream, NULL, p->why, sizeof p->why) == 0
            ? 1
            : -1;
}

static void attend_close(struct attend_path *p)
{
    if (p->cudnn)
        p->library->close(p->cudnn);
}

/* Returns the plan of a pass, which the first call for each shape makes, or NULL: the kernels of
 * attend.cuh compute it. */
static const struct attend_plan *attend_find(struct attend_path *p, int B, int T, int C, int H,
                                             int backward)
{
    struct attend_shape s = {B, T, H, C / H, backward, p->how == OPS_ATTEND_SAME_BITS};
    if (p->how == OPS_ATTEND_OWN || p->opened != 1)
        return NULL;
    int i = 0;
    while (i < p->planned && memcmp(&p->plans[i].of, &s, sizeof s) != 0)
        i++;
    struct attend_plan *q = &p->plans[i];
    if (i == ATTEND_PLANS)
        return NULL;
    if (i == p->planned) {
        char why[sizeof p->why] = "";
        *q = {s, p->library->plan(p->cudnn, &s, &q->workspace, why, sizeof why), q->workspace};
        p->planned++;
        if (q->number < 0 && !p->why[0])
            snprintf(p->why, sizeof p->why, "%s", why);
    }
    return q->number < 0 ? NULL : q;
}
