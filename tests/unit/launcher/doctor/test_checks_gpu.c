#include <pwd.h>

#include "common/clock.h"
#include "common/strbuf.h"
#include "launcher/doctor/facts/cuda_archs.h"
#include "launcher/gpu/xid.h"
#include "tests/unit/launcher/doctor/kit_gpu_machine.h"

TEST(a_healthy_machine_has_no_fault_and_every_check_has_an_answer)
{
    static const char *const skipped[] = {"drv.cuda", "gpu.arch", "link.near", "link.acs"};
    kit_make("");
    kit_run(false);
    kit_check_no_fault(NULL);
    for (size_t i = 0; i < kit.count; i++) {
        bool may_skip = false; /* no program; no adapters in the topology; NVLink */
        for (size_t k = 0; k < COUNT_OF(skipped); k++)
            may_skip |= strcmp(skipped[k], kit.rows[i].id) == 0;
        if (kit.results[i].state != (may_skip ? CHECK_SKIP : CHECK_OK))
            FAIL("%s: %s: %s", kit.rows[i].id, check_state_name(kit.results[i].state),
                 kit.results[i].value);
    }
    CHECK_STR(kit_result_of("gpu.same")->value,
              "8 x NVIDIA H100 80GB HBM3, VBIOS 96.00.74.00.1C, 81559 MiB, ECC mode 1, 700 W, SM "
              "clock up to 1980 MHz, memory clock up to 2619 MHz");
    kit_end();
}

TEST(each_fault_of_a_gpu_is_found_by_its_check)
{
    static const struct kit_fault faults[] = {
        {"gpu.count", CHECK_FAIL, "gpus 7\n", NULL, NULL, "7 GPUs in NVML", "drain"},
        {"gpu.answers", CHECK_FAIL, "gpu 3 handle error 15\n", NULL, NULL,
         "GPU 3: nvmlDeviceGetHandleByIndex_v2: GPU_IS_LOST", "--gpu-reset"},
        {"gpu.answers", CHECK_FAIL, "gpu 0 temperature error 15\n", NULL, NULL,
         "GPU 0: nvmlDeviceGetTemperature: GPU_IS_LOST", "restart the machine"},
        {"gpu.answers", CHECK_FAIL, "gpu 1 remapped error 999\ngpu 6 fields error 77\n", NULL, NULL,
         "GPU 1: nvmlDeviceGetRemappedRows: UNKNOWN; GPU 6: nvmlDeviceGetFieldValues: error 77",
         "--gpu-reset"},
        {"gpu.answers", CHECK_FAIL, "gpu 2 temperature hang\n", NULL, NULL,
         "GPU 2: nvmlDeviceGetTemperature does not answer within 29", "restart the machine"},
        {"gpu.answers", CHECK_FAIL, "gpu 4 nvlink3 error 999\n", NULL, NULL,
         "GPU 4: nvmlDeviceGetNvLinkState: UNKNOWN", "--gpu-reset"},
        {"gpu.answers", CHECK_FAIL, "gpu 4 temperature 0\ngpu 4 power 0\ngpu 4 clock_sm 0\n", NULL,
         NULL, "GPU 4: temperature, power and clock are 0", "--gpu-reset"},
        {"gpu.ecc", CHECK_FAIL, "gpu 4 ecc_volatile 2\n", NULL, NULL,
         "GPU 4: 2 uncorrected errors since the last reset", "reset the GPU"},
        {"gpu.ecc", CHECK_WARN, "gpu 4 ecc_aggregate 5\n", NULL, NULL,
         "GPU 4: 5 uncorrected errors in its life", "drain"},
        {"gpu.remap", CHECK_FAIL, "gpu 3 remap_pending 1\n", NULL, NULL,
         "GPU 3: the remapping of a row is pending", "when the node is free"},
        {"gpu.remap", CHECK_FAIL, "gpu 3 remap_failed 1\n", NULL, NULL,
         "GPU 3: a row of memory could not be remapped", "--gpu-reset"},
        {"gpu.temp", CHECK_FAIL, "gpu 7 temperature 87\n", NULL, NULL,
         "GPU 7: 87 degrees Celsius, slowdown at 90", "airflow"},
        {"gpu.temp", CHECK_FAIL, "gpu all slowdown error 3\ngpu 7 margin 1\n", NULL, NULL,
         "GPU 7: 35 degrees Celsius, slowdown at 38", "airflow"},
        {"gpu.slow", CHECK_FAIL, "gpu 1 reasons 0x48\n", NULL, NULL,
         "GPU 1: hardware slowdown: temperature", "cooling"},
        {"gpu.slow", CHECK_FAIL, "gpu 1 reasons 0x88\n", NULL, NULL,
         "GPU 1: hardware slowdown: power brake", "power supply"},
        {"gpu.slow", CHECK_FAIL, "gpu 1 reasons 0x8\n", NULL, NULL, "GPU 1: hardware slowdown",
         "power supply"},
        {"gpu.slow", CHECK_WARN, "gpu 1 reasons 0x24\n", NULL, NULL,
         "GPU 1: the driver lowers the clocks: temperature", "cooling"},
        {"gpu.slow", CHECK_WARN, "gpu all power_limit 500000\n", NULL, NULL,
         "GPU 0: power limit 500 W, default 700 W", "lowered the power limit"},
        {"gpu.pcie", CHECK_FAIL, "gpu 2 pcie_width 8\n", NULL, NULL, "GPU 2: 8 of 16 lanes",
         "reseat"},
        {"gpu.pcie", CHECK_WARN, "gpu 2 pcie_gen 2\ngpu 2 reasons 4\n", NULL, NULL,
         "GPU 2: PCIe 2 under load, of 5", "lspci"},
        {"gpu.pcie", CHECK_WARN, "gpu 2 pcie_replays 7+2\n", NULL, NULL, "GPU 2: 2 PCIe replays",
         "reseat"},
        {"gpu.pcie", CHECK_FAIL, NULL, "sys/bus/pci/devices/0000:43:00.0/current_link_width", "4\n",
         "GPU 1: the link below port 0000:42:01.0 has 4 of 16 lanes", "narrow port"},
        {"gpu.busy", CHECK_FAIL, "gpu 6 process 4194300 500\n", NULL, NULL,
         "GPU 6: process 4194300, 500 MiB: a process of the host", "container"},
        {"gpu.busy", CHECK_FAIL, "gpu 6 process 0 9000\n", NULL, NULL,
         "MiB in use without a visible process", "process of the host"},
        {"gpu.mode", CHECK_FAIL, "gpu 0 compute_mode 2\n", NULL, NULL,
         "GPU 0: compute mode is prohibited", "nvidia-smi -c 0"},
        {"gpu.mode", CHECK_WARN, "gpu 0 mig_pending 1\n", NULL, NULL,
         "GPU 0: MIG mode changes from off to on", "--gpu-reset"},
        {"gpu.same", CHECK_WARN, "gpu 5 vbios 96.00.99.00.01\n", NULL, NULL,
         "GPU 5: VBIOS 96.00.99.00.01, the others VBIOS 96.00.74.00.1C", "VBIOS"},
        {"gpu.same", CHECK_WARN, "gpu 5 name NVIDIA H200\n", NULL, NULL,
         "GPU 5: NVIDIA H200, the others NVIDIA H100 80GB HBM3", "that differs"},
        {"gpu.same", CHECK_WARN, "gpu 5 max_clock_sm 1200\n", NULL, NULL,
         "SM clock up to 1200 MHz, the others SM clock up to 1980 MHz", "limits"},
    };
    kit_check_faults(faults, COUNT_OF(faults));
}

TEST(ecc_that_is_off_on_one_gpu_is_found)
{
    kit_make("gpu 3 ecc_mode 0\n");
    kit_run(false);
    CHECK_INT(kit_result_of("gpu.ecc")->state, CHECK_WARN);
    CHECK_HAS(kit_result_of("gpu.ecc")->value, "GPU 3: ECC is off, and on for GPU 0");
    CHECK_INT(kit_result_of("gpu.same")->state, CHECK_WARN); /* a mode that differs, too */
    kit_end();
}

/* ---- machines without a fault --------------------------------------------------------------- */

TEST(mig_vgpu_and_idle_machines_have_no_fault)
{
    static const struct {
        const char *what, *lines;
    } machines[] = {
        {"MIG", "gpu all mig_mode 1\ngpu all mig_pending 1\ngpu all remapped error 3\n"
                "gpu all nvlink down\ngpu all p2p 5\ngpu all processes error 4\n"
                "gpu all fabric error 3\ngpu all memory error 4\n"},
        {"a vGPU",
         "gpu all temperature error 3\ngpu all slowdown error 3\ngpu all margin error 3\n"
         "gpu all power error 3\ngpu all power_limit error 3\ngpu all power_default error 3\n"
         "gpu all pcie_width error 3\ngpu all pcie_replays error 3\ngpu all persistence error 3\n"
         "gpu all ecc_mode error 3\ngpu all ecc_volatile error 3\ngpu all ecc_aggregate error 3\n"
         "gpu all remapped error 3\ngpu all fabric error 3\ngpu all fields error 3\n"
         "gpu all reasons error 3\ngpu all nvlink error 3\ngpu all p2p error 3\n"
         "gpu all mig_mode error 3\n"},
        {"an idle machine", "gpu all pstate 8\ngpu all pcie_gen 1\ngpu all clock_sm 210\n"
                            "gpu all reasons 0x49\n"},
        {"an idle machine that stays in P0", "gpu all pcie_gen 1\ngpu all reasons 1\n"},
        {"an old driver", "gpu all fabric error 25\ngpu all margin error 13\n"
                          "gpu all recovery_action error 2\n"},
        {"a GPU with a desktop", "gpu 0 graphics 900 6000\n"},
        {"two models", "gpus 2\ngpu 1 name NVIDIA T400\ngpu 1 vbios 1\n"
                       "system count ok\n"},
    };
    for (size_t i = 0; i < COUNT_OF(machines); i++) {
        kit_make(machines[i].lines);
        if (strstr(machines[i].lines, "gpus 2"))
            put(kit.root, "run/.containerenv", "");
        for (int g = 2; strstr(machines[i].lines, "gpus 2") && g < 8; g++) {
            AUTO(free) char *node = xasprintf("%s/dev/nvidia%d", kit.root, g);
            CHECK_INT(unlink(node), 0);
        }
        kit_run(false);
        fprintf(stderr, "# %s\n", machines[i].what);
        kit_check_no_fault(NULL);
        kit_end();
    }
}

TEST(a_container_that_shows_two_of_eight_gpus_says_so)
{
    kit_make("gpus 2\n");
    put(kit.root, "run/.containerenv", "");
    for (int i = 2; i < 8; i++) {
        AUTO(free) char *node = xasprintf("%s/dev/nvidia%d", kit.root, i);
        CHECK_INT(unlink(node), 0);
    }
    kit_run(true);
    kit_check_no_fault(NULL);
    CHECK_STR(kit_result_of("gpu.count")->value, "2 GPUs; this container or cgroup hides 6 more");
    kit_end();
}

TEST(names_in_cuda_visible_devices_are_checked)
{
    static const struct {
        const char *names;
        enum check_state state;
    } cases[] = {
        {"0,7", CHECK_OK},   {"8", CHECK_FAIL},      {"GPU-00000003", CHECK_OK},
        {"", CHECK_OK},      {"GPU-77", CHECK_FAIL}, {"-1", CHECK_OK},
        {"0,x", CHECK_FAIL}, {"MIG-77", CHECK_FAIL}, {"NoDevFiles", CHECK_OK},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kit_make("");
        setenv("CUDA_VISIBLE_DEVICES", cases[i].names, 1);
        kit_run(true);
        CHECK_INT(kit_result_of("gpu.count")->state, cases[i].state);
        if (cases[i].state == CHECK_FAIL)
            kit_check_fault("gpu.count", CHECK_FAIL, "CUDA_VISIBLE_DEVICES names", "nvidia-smi -L");
        kit_end();
    }
}

/* ---- gpu.busy ------------------------------------------------------------------------------- */

static void put_process(unsigned pid, long uid, const char *command)
{
    AUTO(free) char *status = xasprintf("proc/%u/status", pid);
    AUTO(free) char *comm = xasprintf("proc/%u/comm", pid);
    AUTO(free)
    char *text = xasprintf("Name:\t%s\nUid:\t%ld\t%ld\t%ld\t%ld\n", command, uid, uid, uid, uid);
    put(kit.root, status, text);
    put(kit.root, comm, command);
}

TEST(strangers_are_named_and_own_processes_and_mps_are_none)
{
    kit_make("gpu 0 process 100 500\ngpu 1 process 200 700\ngpu 2 process 300 40\n");
    put_process(100, (long)geteuid(), "python");
    put_process(200, 65534, "train");
    put_process(300, 65534, "nvidia-cuda-mps-server");
    const struct passwd *user = getpwuid(65534);
    AUTO(free)
    char *want = xasprintf("GPU 1: process 200 of %s (train), 700 MiB",
                           user ? user->pw_name : "an unknown user");
    kit_run(true);
    kit_check_fault("gpu.busy", CHECK_FAIL, want, "use another GPU");
    CHECK_STR(kit_result_of("gpu.busy")->value, want);
    kit_end();
}

TEST(exclusive_mode_is_a_fault_only_with_several_ranks_per_gpu)
{
    for (int ranks = 8; ranks <= 16; ranks += 8) {
        kit_make("gpu all compute_mode 3\n");
        kit.env.ranks = ranks;
        kit_run(true);
        CHECK_INT(kit_result_of("gpu.mode")->state, ranks == 8 ? CHECK_OK : CHECK_FAIL);
        kit_end();
    }
}

/* ---- gpu.xid -------------------------------------------------------------------------------- */

TEST(xid_lines_have_the_forms_that_the_driver_prints)
{
    static const struct {
        const char *text, *bus_id;
        int code;
    } lines[] = {
        {"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
         "bus.",
         "0000:3b:00", 79},
        {"NVRM: Xid (PCI:0000:05:00): 31, pid=1234, name=python, Ch 00000008, intr 10000000.",
         "0000:05:00", 31},
        {"NVRM: Xid (PCI:0000:05:00 GPU-I:05): 94, pid=7194, name=python3, Contained error",
         "0000:05:00", 94},
        {"NVRM: Xid (0000:03:00): 14, Channel 00000001", "0000:03:00", 14},
        {"Nov 25 12:00:00 c07 kernel: [  12.5] NVRM: Xid (PCI:0000:9d:00): 63, Row Remapper",
         "0000:9d:00", 63},
        {"NVRM: GPU at PCI:0000:3b:00: GPU-6b8f", NULL, 0},
        {"NVRM: Xid (PCI:0000:3b:00", NULL, 0},
        {"NVRM: Xid (PCI:0000:3b:00): x", NULL, 0},
        {"", NULL, 0},
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct xid x = {0};
        CHECK_INT(xid_parse(&x, lines[i].text), lines[i].bus_id != NULL);
        if (lines[i].bus_id) {
            CHECK_INT(x.code, lines[i].code);
            CHECK_STR(x.bus_id, lines[i].bus_id);
        }
    }
}

TEST(xid_errors_are_judged_by_class_and_age)
{
    static const struct {
        int code;
        double age_s;
        enum check_state state;
        const char *advice;
    } cases[] = {
        {63, 60, CHECK_OK, NULL},
        {43, 60, CHECK_OK, NULL},
        {92, 60, CHECK_OK, NULL},
        {13, 60, CHECK_WARN, "start the program again"},
        {31, 23 * 3600, CHECK_WARN, "start the program again"},
        {31, 25 * 3600, CHECK_OK, NULL},
        {48, 60, CHECK_WARN, "dmesg"},
        {999, 60, CHECK_WARN, "dmesg"},
        {95, 60, CHECK_FAIL, "--gpu-reset"},
        {95, 25 * 3600, CHECK_WARN, "--gpu-reset"},
        {79, 60, CHECK_FAIL, "restart the machine"},
        {79, 90 * 24 * 3600.0, CHECK_FAIL, "restart the machine"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kit_make("");
        double boot_s = 100 * 24 * 3600.0;
        AUTO(free) char *uptime = xasprintf("%.2f 1.00\n", boot_s);
        AUTO(free)
        char *line = xasprintf("4,9,%.0f,-;NVRM: Xid (PCI:0000:9d:00): %d, pid=1, name=a\n",
                               (boot_s - cases[i].age_s) * 1e6, cases[i].code);
        put(kit.root, "proc/uptime", uptime);
        put(kit.root, "dev/kmsg", line);
        kit_run(false);
        if (cases[i].advice)
            kit_check_fault("gpu.xid", cases[i].state, "GPU 0000:9d:00", cases[i].advice);
        else
            kit_check_no_fault(NULL);
        kit_end();
    }
}

TEST(errors_that_repeat_are_one_line_and_many_of_them_fit)
{
    kit_make("");
    AUTO(strbuf) struct strbuf log = {0};
    for (int i = 0; i < 5000; i++)
        strbuf_printf(&log, "4,%d,%d000000,-;NVRM: Xid (PCI:0000:1b:00): 95, pid=1, name=a\n", i,
                      3000 + i / 10);
    for (int i = 0; i < 200; i++) /* more than a result holds */
        strbuf_printf(&log, "4,%d,3590000000,-;NVRM: Xid (PCI:0000:%02x:00): %d, pid=1\n", i,
                      i & 0xff, 200 + i);
    put(kit.root, "dev/kmsg", strbuf_str(&log));
    kit_run(false);
    kit_check_fault("gpu.xid", CHECK_FAIL,
                    "Xid 95 of GPU 0000:1b:00, 101 s ago: uncontained memory error (5000 times)",
                    "--gpu-reset");
    kit_end();
}

TEST(many_strangers_fit_into_one_result)
{
    AUTO(strbuf) struct strbuf lines = {0};
    for (int i = 0; i < 400; i++)
        strbuf_printf(&lines, "gpu %d process %d 5\n", i % 8, 4190000 + i);
    kit_make(strbuf_str(&lines));
    kit_run(true);
    kit_check_fault("gpu.busy", CHECK_FAIL, "; and others", "end the process");
    CHECK(strlen(kit_result_of("gpu.busy")->value) < 5000);
    kit_end();
}

TEST(the_drivers_recovery_action_is_a_fault_without_an_xid)
{
    static const char *const advice[] = {NULL, "--gpu-reset", "restart the machine", "--gpu-reset",
                                         "--gpu-reset"};
    for (int action = 1; action <= 4; action++) {
        AUTO(free) char *line = xasprintf("gpu 2 recovery_action %d\n", action);
        kit_make(line);
        kit_run(false);
        kit_check_fault("gpu.xid", CHECK_FAIL, "GPU 2: the driver asks for", advice[action]);
        kit_end();
    }
}

TEST(a_kernel_log_that_cannot_be_read_is_a_skip_with_its_cause)
{
    kit_make("");
    AUTO(free) char *log = xasprintf("%s/dev/kmsg", kit.root);
    CHECK_INT(unlink(log), 0);
    kit_run(false);
    kit_check_no_fault(NULL);
    CHECK_INT(kit_result_of("gpu.xid")->state, CHECK_SKIP);
    CHECK_HAS(kit_result_of("gpu.xid")->value, "/dev/kmsg: No such file");
    CHECK_INT(kit_result_of("drv.gsp")->state, CHECK_SKIP);
    kit_end();
}

/* ---- gpu.arch ------------------------------------------------------------------------------- */

/* Writes an ELF file whose section .nv_fatbin has code of one architecture. */
static void put_library(const char *path, unsigned arch, unsigned kind)
{
    AUTO(free)
    char *source =
        xasprintf("__attribute__((section(\".nv_fatbin\"), aligned(8))) const unsigned data[] = {"
                  "0xba55ed50, 0x00100001, 72, 0, %u, 64, 8, 0, 0, 0, 0, %u, 0, 0, 0, 0, 0, 0, 0, "
                  "0, 0, 0};\n",
                  kind | 0x10000, arch);
    put(kit.root, "fat.c", source);
    put(kit.root, path, "");
    AUTO(free)
    char *command = xasprintf("cc -shared -o '%s/%s' '%s/fat.c'", kit.root, path, kit.root);
    CHECK_INT(system(command), 0);
}

TEST(code_for_the_gpus_architecture_is_looked_for_in_the_programs_torch)
{
    static const char lib[] = "venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so";
    static const struct {
        unsigned arch, kind;
        enum check_state state;
    } cases[] = {{90, 2, CHECK_OK}, {80, 1, CHECK_OK}, {80, 2, CHECK_FAIL}, {100, 1, CHECK_FAIL}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kit_make("");
        put_library(lib, cases[i].arch, cases[i].kind);
        put(kit.root, "venv/bin/python", "");
        AUTO(free) char *python = xasprintf("%s/venv/bin/python", kit.root);
        CHECK_INT(chmod(python, 0755), 0);
        char *command[] = {python, "train.py", NULL};
        kit.env.command = command;
        kit_run(false);
        CHECK_INT(kit_result_of("gpu.arch")->state, cases[i].state);
        if (cases[i].state == CHECK_FAIL)
            kit_check_fault("gpu.arch", CHECK_FAIL, "GPU 0: sm_90 is not among those of torch",
                            "PyTorch");
        kit_end();
    }
}

TEST(a_library_without_gpu_code_has_no_architectures)
{
    struct cuda_archs a = {0};
    CHECK_INT(cuda_archs_read(&a, "/nowhere/lib.so"), -ENOENT);
    CHECK_INT(cuda_archs_read(&a, "/proc/self/exe"), -EINVAL);
    CHECK_INT(cuda_archs_read(&a, "Makefile"), -EINVAL);
    CHECK_INT(cuda_archs_read(&a, "/dev/null"), -EINVAL);
}

TEST(the_quick_checks_of_eight_gpus_take_less_than_100_ms)
{
    kit_make("");
    int64_t begin = clock_ms();
    kit_run(true);
    int64_t took = clock_ms() - begin;
    kit_check_no_fault(NULL);
    CHECK_TIME(took < 100);
    fprintf(stderr, "# %d ms\n", (int)took);
    kit_end();
}
