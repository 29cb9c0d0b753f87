#include "collectives/bench/analysis/transport_control.h"

#include "common/byte_size.h"
#include "common/mem.h"

const char *const transport_control_env[2] = {"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"};

bool transport_control_next(const struct transport_control *t, struct transport_control_run *out)
{
    if (t->runs == (int)COUNT_OF(t->ok) || (t->runs > 1 && t->ok[t->runs - 1]))
        return false;
    *out = (struct transport_control_run){.small = t->runs == 0 || !t->ok[0], .disabled = t->runs};
    return true;
}

void transport_control_add(struct transport_control *t, bool ok)
{
    t->ok[t->runs++] = ok;
}

void transport_control_text(struct strbuf *out, const struct transport_control *t)
{
    char size[32];
    byte_size_format(size, sizeof size, TRANSPORT_CONTROL_BYTES);
    if (t->ok[1])
        strbuf_puts(out, "P2P between GPUs (NVLink or PCIe) is at fault: the run is right with "
                         "NCCL_P2P_DISABLE=1; check ACS and the IOMMU, and the links with "
                         "nvidia-smi nvlink -s");
    else if (t->ok[2])
        strbuf_puts(out, "shared memory is at fault: the run is right with NCCL_P2P_DISABLE=1 and "
                         "NCCL_SHM_DISABLE=1; check the size of /dev/shm");
    else
        strbuf_puts(out, "neither P2P nor shared memory is at fault: the run fails without them, "
                         "too; check the network and each GPU (NCCL_DEBUG=INFO)");
    if (t->ok[0])
        strbuf_printf(out, "; sizes up to %s are right", size);
}
