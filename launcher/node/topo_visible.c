#include "launcher/node/topo_visible.h"

#include <errno.h>
#include <string.h>

#include "common/plural.h"

bool topo_hides_gpus(const char *word, size_t len)
{
    static const char *const hiding[] = {"", "-1", "none", "void", "NoDevFiles"};
    for (size_t i = 0; i < COUNT_OF(hiding); i++)
        if (strlen(hiding[i]) == len && strncmp(word, hiding[i], len) == 0)
            return true;
    return false;
}

int topo_check_visible(const struct topo *t, const char *list, struct err *e)
{
    const struct gpu *gpu;
    const char *uuid, *word = list ? list + strspn(list, " \t") : "";
    size_t len = strcspn(word, ", \t");
    if (topo_gpu_count(t) == 0 || topo_hides_gpus(word, len) || strncmp(word, "MIG-", 4) == 0 ||
        topo_find_gpu(&gpu, &uuid, t, word, len))
        return 0;
    int n = topo_gpu_count(t);
    err_set(e, -EINVAL, "CUDA_VISIBLE_DEVICES '%s': unknown GPU '%.*s': '%s' has %d GPU%s", list,
            (int)len, word, topo_name(t), n, plural_s(n));
    return err_hint(e, "an index or UUID of `nvidia-smi -L`; -1 hides all GPUs");
}
