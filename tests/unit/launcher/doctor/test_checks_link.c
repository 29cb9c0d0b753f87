#include "common/strbuf.h"
#include "tests/unit/launcher/doctor/kit_gpu_machine.h"

static const char no_nvlink[] = "gpu all nvlink none\n";

TEST(each_fault_of_a_link_is_found_by_its_check)
{
    static const struct kit_fault faults[] = {
        {"link.nvlink", CHECK_FAIL, "gpu 3 nvlink5 down\n", NULL, NULL,
         "GPU 3: link 5 is inactive; that of GPU 0 leads to an NVSwitch", "reset the GPU"},
        {"link.p2p", CHECK_FAIL, "gpu 1 p2p6 1\n", NULL, NULL, "GPU 1: to GPU 6: chipset",
         "link.acs"},
        {"link.iommu", CHECK_FAIL, NULL, "sys/bus/pci/devices/0000:1b:00.0/iommu_group/type",
         "DMA-FQ\n", "translates addresses (DMA-FQ)", "iommu=pt"},
        {"link.ib", CHECK_FAIL, NULL, "sys/class/infiniband/mlx5_4/ports/1/state", "1: DOWN\n",
         "mlx5_4 port 1 is not active", "cable"},
        {"link.ib", CHECK_FAIL, NULL, "sys/class/infiniband/mlx5_4/ports/1/rate",
         "200 Gb/sec (2X NDR)\n", "mlx5_4 port 1 has 200 Gb/s, the others 400", "cable"},
    };
    kit_check_faults(faults, COUNT_OF(faults));
}

TEST(nvlink_errors_that_grow_are_found)
{
    kit_make("gpu 3 nvlink_errors4 100+5\n");
    kit_run(false);
    kit_check_fault("link.nvlink", CHECK_WARN, "GPU 3: 5 NVLink errors", "nvidia-smi nvlink -s");
    kit_end();
    kit_make("gpu 3 nvlink_errors4 100\n"); /* old ones do not matter */
    kit_run(false);
    kit_check_no_fault(NULL);
    kit_end();
}

TEST(links_that_are_inactive_on_all_gpus_are_not_a_fault)
{
    kit_make("gpu all nvlink17 down\n");
    kit_run(true);
    kit_check_no_fault(NULL);
    CHECK_STR(kit_result_of("link.nvlink")->value, "17 links of each GPU are active");
    kit_end();
}

/* ---- peer access ---------------------------------------------------------------------------- */

TEST(pairs_on_different_sockets_may_have_less_access_than_those_of_one_socket)
{
    AUTO(strbuf) struct strbuf lines = {0};
    strbuf_puts(&lines, no_nvlink);
    for (int i = 0; i < 4; i++)
        for (int k = 4; k < 8; k++)
            strbuf_printf(&lines, "gpu %d p2p%d 3\n", i, k);
    kit_make(strbuf_str(&lines));
    kit_run(false);
    kit_check_no_fault(NULL);
    kit_end();
    strbuf_puts(&lines, "gpu 0 p2p1 3\n"); /* but not this pair */
    kit_make(strbuf_str(&lines));
    kit_run(false);
    kit_check_fault("link.p2p", CHECK_FAIL, "GPU 0: to GPU 1: topology not supported",
                    "link.iommu");
    kit_end();
}

/* ---- PCI Express ---------------------------------------------------------------------------- */

TEST(acs_on_a_bridge_above_gpus_without_nvlink_is_found)
{
    kit_make(no_nvlink);
    kit_put_acs("0000:9c:01.0", 0x1d, 4096);
    kit_run(false);
    kit_check_fault("link.acs", CHECK_FAIL, "ACS is on: 0000:9c:01.0 (control 001d)",
                    "setpci -s 0000:9c:01.0 ECAP_ACS+6.w=0000");
    CHECK(strstr(kit_result_of("link.acs")->advice, "42:01.0") == NULL);
    kit_end();
}

TEST(acs_is_not_judged_in_a_virtual_machine_or_without_permission_and_off_is_ok)
{
    for (int i = 0; i < 4; i++) {
        kit_make(i == 3 ? "" : no_nvlink);
        kit_put_acs("0000:9c:01.0", i == 0 ? 0x10 : 0x1d, i == 1 ? 64 : 4096);
        if (i == 2)
            put(kit.root, "proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor avx2\n\n");
        kit_run(false);
        kit_check_no_fault(NULL);
        const struct check_result *r = kit_result_of("link.acs");
        static const char *const values[] = {"off on 8 bridges", "only root", "a virtual machine",
                                             "NVLink"};
        CHECK_INT(r->state, i == 0 ? CHECK_OK : CHECK_SKIP);
        CHECK_HAS(r->value, values[i]);
        kit_end();
    }
}

TEST(a_malformed_configuration_space_ends_the_search)
{
    kit_make(no_nvlink);
    unsigned char c[4096] = {0};
    memcpy(c + 0x100, "\x01\x00\x01\x10", 4); /* its successor is itself */
    AUTO(free) char *path = xasprintf("%s/sys/bus/pci/devices/0000:9c:01.0/config", kit.root);
    FILE *f = fopen(path, "w");
    CHECK(f && fwrite(c, 1, sizeof c, f) == sizeof c && fclose(f) == 0);
    kit_run(false);
    kit_check_no_fault(NULL);
    CHECK_INT(kit_result_of("link.acs")->state, CHECK_OK);
    kit_end();
}

TEST(an_iommu_is_fine_if_it_is_off_or_passes_addresses_through)
{
    static const char type[] = "sys/bus/pci/devices/0000:1b:00.0/iommu_group/type";
    kit_make("");
    AUTO(free) char *file = xasprintf("%s/%s", kit.root, type);
    CHECK_INT(unlink(file), 0); /* an older kernel: its command line tells */
    kit_run(true);
    CHECK_STR(kit_result_of("link.iommu")->value, "passes addresses through");
    put(kit.root, "proc/cmdline", "root=/dev/sda1\n");
    kit_run(true);
    kit_check_fault("link.iommu", CHECK_FAIL, "no iommu=pt in /proc/cmdline", "iommu=pt");
    AUTO(free) char *remove = xasprintf("rm -r '%s/sys/class/iommu'", kit.root);
    CHECK_INT(system(remove), 0);
    kit_run(true);
    CHECK_STR(kit_result_of("link.iommu")->value, "off");
    kit_end();
}

/* ---- RDMA ----------------------------------------------------------------------------------- */

TEST(gpudirect_needs_peermem_or_dma_buf)
{
    static const struct {
        const char *release, *module;
        bool peermem;
        enum check_state state;
    } cases[] = {
        {"6.8.0", "Open Kernel Module for x86_64", true, CHECK_OK},
        {"6.8.0", "Open Kernel Module for x86_64", false, CHECK_OK},
        {"5.11.0", "Open Kernel Module for x86_64", false, CHECK_FAIL},
        {"6.8.0", "x86_64 Kernel Module", false, CHECK_FAIL},
        {"5.4.0", "x86_64 Kernel Module", true, CHECK_OK},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kit_make("");
        AUTO(free)
        char *version = xasprintf("NVRM version: NVIDIA UNIX %s  580.65.06  x\n", cases[i].module);
        put(kit.root, "proc/sys/kernel/osrelease", cases[i].release);
        put(kit.root, "proc/driver/nvidia/version", version);
        AUTO(free) char *remove = xasprintf("rm -r '%s/sys/module/nvidia_peermem'", kit.root);
        if (!cases[i].peermem)
            CHECK_INT(system(remove), 0);
        kit_run(false);
        CHECK_INT(kit_result_of("link.gdr")->state, cases[i].state);
        if (cases[i].state == CHECK_FAIL)
            kit_check_fault("link.gdr", CHECK_FAIL, "neither nvidia-peermem nor dma-buf",
                            "modprobe nvidia-peermem");
        kit_end();
    }
}

TEST(errors_of_a_port_that_grow_are_found)
{
    kit_make("");
    pid_t writer = fork();
    AUTO(free)
    char *counters = xasprintf("%s/sys/class/infiniband/mlx5_3/ports/1/counters", kit.root);
    AUTO(free) char *next = xasprintf("%s/next", counters);
    AUTO(free) char *counter = xasprintf("%s/link_downed", counters);
    for (int i = 4; writer == 0;
         i++) { /* until the test ends it; a reader never sees a half file */
        AUTO(free) char *text = xasprintf("%d\n", i);
        kit_put_port(3, "ports/1/counters/next", text);
        CHECK_INT(rename(next, counter), 0);
        usleep(1000);
    }
    kit_run(false);
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    kit_check_fault("link.ib", CHECK_WARN, "mlx5_3 port 1: ", "cable");
    kit_end();
}

TEST(a_counter_that_cannot_be_read_has_no_value)
{
    kit_make("");
    kit_put_port(3, "ports/1/counters/symbol_error", "");
    kit_run(false);
    kit_check_no_fault(NULL);
    CHECK_INT(kit_result_of("link.ib")->state, CHECK_OK);
    kit_end();
}

TEST(soft_devices_without_hardware_are_not_rdma_devices)
{
    kit_make("");
    AUTO(free) char *remove = xasprintf("rm -r '%s/sys/class/infiniband'/*", kit.root);
    CHECK_INT(system(remove), 0);
    put(kit.root, "sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n");
    kit_run(false);
    kit_check_no_fault(NULL);
    CHECK_STR(kit_result_of("link.ib")->value, "no RDMA device");
    CHECK_STR(kit_result_of("link.gdr")->value, "no RDMA device");
    kit_end();
}

/* Loads the recorded machine with adapters, without those whose names are `without`. */
static struct topo *fabric(const char *without)
{
    AUTO(free) char *xml = xasprintf("%s/fabric.xml", kit.root);
    AUTO(free)
    char *command =
        xasprintf("cp tests/plan/machines/dgx-a100-fabric.gpus.json '%s/fabric.gpus.json' && "
                  "sed '/name=\"mlx5_[%s]\"/d' tests/plan/machines/dgx-a100-fabric.xml > '%s'",
                  kit.root, without, xml);
    struct topo *t = NULL;
    CHECK_INT(system(command), 0);
    CHECK_INT(topo_load_file(&t, xml, NULL), 0);
    return t;
}

TEST(a_gpu_without_an_adapter_on_its_socket_is_found)
{
    static const char *const without[] = {"x", "4567"};
    for (int i = 0; i < 2; i++) {
        kit_make("");
        topo_free(kit.topo);
        kit.topo = fabric(without[i]);
        kit.env.topo = kit.topo;
        kit_run(false);
        if (i == 0) {
            kit_check_no_fault(NULL);
            CHECK_INT(kit_result_of("link.near")->state, CHECK_OK);
        } else {
            kit_check_fault("link.near", CHECK_WARN, "the nearest RDMA device is on another socket",
                            "NCCL_IB_HCA");
            CHECK(strstr(kit_result_of("link.near")->value, "GPU 0") == NULL);
            CHECK_HAS(kit_result_of("link.near")->value, "GPU 7");
        }
        kit_end();
    }
}
