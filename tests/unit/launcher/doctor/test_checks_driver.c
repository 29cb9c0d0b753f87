#include "tests/unit/launcher/doctor/kit_gpu_machine.h"

TEST(each_fault_of_the_driver_is_found_by_its_check)
{
    static const struct kit_fault faults[] = {
        {"drv.nouveau", CHECK_FAIL, NULL, "sys/module/nouveau/refcnt", "1\n", "nouveau is loaded",
         "blacklist nouveau"},
        {"drv.match", CHECK_FAIL, "system init error 18\n", NULL, NULL, "580.65.06", "restart"},
        {"drv.match", CHECK_FAIL, "system driver_version 570.124.06\n", NULL, NULL,
         "NVML 570.124.06, kernel module 580.65.06", "reload the module"},
        {"drv.loads", CHECK_FAIL, "system init error 999\n", NULL, NULL,
         "8 GPUs in sysfs, but UNKNOWN", "--gpus all"},
        {"drv.loads", CHECK_FAIL, "system init error 9\n", NULL, NULL, "DRIVER_NOT_LOADED",
         "install NVIDIA's driver"},
        {"drv.fabric", CHECK_FAIL, "gpu 5 fabric_state 2\n", NULL, NULL,
         "GPU 5: registration is in progress", "nvidia-fabricmanager"},
        {"drv.fabric", CHECK_FAIL, "gpu all fabric_state 1\n", NULL, NULL,
         "GPU 0: registration has not started", "in the version of the driver"},
        {"drv.fabric", CHECK_FAIL, "gpu 2 fabric_status 999\n", NULL, NULL, "GPU 2: UNKNOWN",
         "systemctl start"},
        {"drv.persist", CHECK_WARN, "gpu 1 persistence 0\n", NULL, NULL, "GPU 1: off",
         "nvidia-smi -pm 1"},
        {"drv.gsp", CHECK_FAIL, NULL, "dev/kmsg",
         "4,7,3000000000,-;NVRM: Xid (PCI:0000:9d:00): 119, pid=912, name=python, Timeout after "
         "6s\n",
         "Xid 119 of GPU 0000:9d:00, 10 min ago", "reset the GPU"},
    };
    kit_check_faults(faults, COUNT_OF(faults));
}

TEST(without_the_library_the_driver_fails_if_there_are_gpus)
{
    kit_make("");
    setenv("DROVER_NVML_LIB", "/nowhere/libnvidia-ml.so.1", 1);
    kit_run(true);
    kit_check_fault("drv.loads", CHECK_FAIL, "8 GPUs in sysfs, but", "--gpus all");
    kit_end();
}

TEST(a_machine_without_gpus_has_no_driver_and_no_fault)
{
    kit.root = new_root();
    setenv("DROVER_SYSROOT", kit.root, 1);
    setenv("DROVER_NVML_LIB", "/nowhere/libnvidia-ml.so.1", 1);
    kit.topo = machine("xeon-2s");
    kit.env = (struct check_env){.topo = kit.topo, .ranks = 8};
    kit_run(false);
    kit_check_no_fault(NULL);
    CHECK_STR(kit_result_of("drv.loads")->value, "no NVIDIA GPU");
    CHECK_STR(kit_result_of("gpu.temp")->value, "needs gpu.answers");
    CHECK_INT(kit_result_of("gpu.xid")->state, CHECK_SKIP);
    kit_end();
}

TEST(no_permission_is_a_skip_and_the_devices_are_the_cause)
{
    kit_make("system init error 4\n");
    AUTO(free) char *node = xasprintf("%s/dev/nvidia3", kit.root);
    /* Another user cannot load the library from a build below /root. */
    AUTO(free) char *library = xasprintf("%s/libnvidia-ml.so.1", kit.root);
    AUTO(free) char *copy = xasprintf("cp \"$DROVER_NVML_LIB\" '%s'", library);
    CHECK_INT(system(copy), 0);
    setenv("DROVER_NVML_LIB", library, 1);
    CHECK_INT(chmod(kit.root, 0755), 0);
    AUTO(free)
    char *open_up = xasprintf("chmod -R a+rX '%s' && chmod a+rw '%s'/dev/nvidia[0124-9-c]*",
                              kit.root, kit.root);
    CHECK_INT(system(open_up), 0);
    CHECK_INT(chmod(node, 0), 0);
    if (geteuid() == 0)
        CHECK_INT(seteuid(65534), 0); /* root may open everything */
    kit_run(true);
    if (getuid() == 0)
        CHECK_INT(seteuid(0), 0);
    kit_check_fault("drv.nodes", CHECK_FAIL, "/dev/nvidia3: permission denied", "group");
    CHECK_INT(kit_result_of("drv.loads")->state, CHECK_SKIP);
    CHECK_HAS(kit_result_of("drv.loads")->value, "NO_PERMISSION");
    kit_end();
}

TEST(a_missing_uvm_device_is_named)
{
    kit_make("");
    AUTO(free) char *node = xasprintf("%s/dev/nvidia-uvm", kit.root);
    CHECK_INT(unlink(node), 0);
    kit_run(true);
    kit_check_fault("drv.nodes", CHECK_FAIL, "nvidia-uvm is missing", "nvidia-modprobe -u");
    kit_end();
}

/* Makes a virtual environment with NVIDIA's wheel of the CUDA runtime. */
static void put_wheel(const char *library, const char *metadata)
{
    AUTO(free) char *lib = xasprintf("venv/lib/python3.12/site-packages/nvidia/%s", library);
    AUTO(free)
    char *info = xasprintf("venv/lib/python3.12/site-packages/%s.dist-info/METADATA", metadata);
    AUTO(free) char *python = xasprintf("%s/venv/bin/python", kit.root);
    put(kit.root, "venv/bin/python", "");
    CHECK_INT(chmod(python, 0755), 0);
    put(kit.root, lib, "");
    put(kit.root, info, "");
}

TEST(the_programs_cuda_runtime_is_compared_with_the_drivers)
{
    static const struct {
        const char *library, *metadata, *driver;
        enum check_state state;
        const char *value;
    } cases[] = {
        {"cuda_runtime/lib/libcudart.so.12", "nvidia_cuda_runtime_cu12-12.4.127", "13000", CHECK_OK,
         "driver: CUDA 13.0; program: 12.4"},
        {"cu13/lib/libcudart.so.13", "nvidia_cuda_runtime-13.0.48", "13000", CHECK_OK,
         "program: 13.0"},
        {"cu13/lib/libcudart.so.13", "nvidia_cuda_runtime-13.0.48", "12040", CHECK_FAIL,
         "driver: CUDA 12.4; the program's runtime in"},
        {"cuda_runtime/lib/libcudart.so.12", "nvidia_cuda_runtime_cu12-12.8.90", "12040",
         CHECK_WARN, "driver: CUDA 12.4"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *line = xasprintf("system cuda_version %s\n", cases[i].driver);
        kit_make(line);
        put_wheel(cases[i].library, cases[i].metadata);
        AUTO(free) char *python = xasprintf("%s/venv/bin/python", kit.root);
        char *command[] = {python, "train.py", NULL};
        kit.env.command = command;
        kit_run(true);
        CHECK_INT(kit_result_of("drv.cuda")->state, cases[i].state);
        CHECK_HAS(kit_result_of("drv.cuda")->value, cases[i].value);
        if (cases[i].state != CHECK_OK)
            kit_check_fault("drv.cuda", cases[i].state, cases[i].value, "update the driver");
        kit_end();
    }
}
