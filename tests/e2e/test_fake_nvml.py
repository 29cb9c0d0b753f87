"""NVML's stand-in (tests/fake/nvml.c) has the ABI of the real library: NVIDIA's own bindings read every value from it.

Needs nvidia-ml-py, which scripts/setup --test installs into build/nvml."""
import json
import os
import subprocess

import pytest
from kit_ranks import BUILD, ROOT

PYTHON = ROOT / "build/nvml/bin/python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="nvidia-ml-py is missing: scripts/setup --test")

# Each value of GPU 1, as NVIDIA's bindings read it.
READ = """
import json
from pynvml import *
nvmlInit()
g, other = nvmlDeviceGetHandleByIndex(1), nvmlDeviceGetHandleByIndex(3)
events = nvmlEventSetCreate()
nvmlDeviceRegisterEvents(g, nvmlEventTypeXidCriticalError, events)
fabric = c_nvmlGpuFabricInfoV_t()
for version in nvmlGpuFabricInfo_v2, nvmlGpuFabricInfo_v3:
    fabric = c_nvmlGpuFabricInfo_v2_t() if version == nvmlGpuFabricInfo_v2 else c_nvmlGpuFabricInfo_v3_t()
    fabric.version = version
    nvmlDeviceGetGpuFabricInfoV(g, byref(fabric))
    assert (fabric.state, fabric.status, fabric.healthMask) == (2, 999, 5), version
memory = nvmlDeviceGetMemoryInfo(g, version=nvmlMemory_v2)
pci = nvmlDeviceGetPciInfo(g)
fields = nvmlDeviceGetFieldValues(g, [230, 194, (163, 4), (163, 5), 1])
processes = nvmlDeviceGetComputeRunningProcesses_v3(g)
print(json.dumps(dict(
    count=nvmlDeviceGetCount(),
    driver_version=nvmlSystemGetDriverVersion(),
    cuda_version=nvmlSystemGetCudaDriverVersion_v2(),
    name=nvmlDeviceGetName(g),
    uuid=nvmlDeviceGetUUID(g),
    pci=[pci.domain, pci.bus, pci.device, pci.busId],
    vbios=nvmlDeviceGetVbiosVersion(g),
    memory=[memory.total >> 20, memory.reserved >> 20, memory.used >> 20, memory.free >> 20],
    processes=[[p.pid, p.usedGpuMemory >> 20] for p in processes],
    graphics=[p.pid for p in nvmlDeviceGetGraphicsRunningProcesses_v3(g)],
    utilization=[nvmlDeviceGetUtilizationRates(g).gpu, nvmlDeviceGetUtilizationRates(g).memory],
    temperature=nvmlDeviceGetTemperature(g, NVML_TEMPERATURE_GPU),
    slowdown=nvmlDeviceGetTemperatureThreshold(g, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
    margin=nvmlDeviceGetMarginTemperature(g),
    power=nvmlDeviceGetPowerUsage(g),
    power_limit=nvmlDeviceGetPowerManagementLimit(g),
    power_default=nvmlDeviceGetPowerManagementDefaultLimit(g),
    clocks=[nvmlDeviceGetClockInfo(g, NVML_CLOCK_SM), nvmlDeviceGetClockInfo(g, NVML_CLOCK_MEM)],
    max_clocks=[nvmlDeviceGetMaxClockInfo(g, NVML_CLOCK_SM), nvmlDeviceGetMaxClockInfo(g, NVML_CLOCK_MEM)],
    pstate=nvmlDeviceGetPerformanceState(g),
    reasons=nvmlDeviceGetCurrentClocksEventReasons(g),
    energy=[nvmlDeviceGetTotalEnergyConsumption(g) for _ in range(2)],
    throughput=[nvmlDeviceGetPcieThroughput(g, NVML_PCIE_UTIL_TX_BYTES),
                nvmlDeviceGetPcieThroughput(g, NVML_PCIE_UTIL_RX_BYTES)],
    nvlink_traffic=[f.value.ullVal for f in nvmlDeviceGetFieldValues(g, [
        (NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 2**32 - 1), (NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, 2**32 - 1)])],
    nvlink_speed=nvmlDeviceGetFieldValues(g, [NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON])[0].value.uiVal,
    pcie=[nvmlDeviceGetCurrPcieLinkWidth(g), nvmlDeviceGetMaxPcieLinkWidth(g),
          nvmlDeviceGetCurrPcieLinkGeneration(g), nvmlDeviceGetMaxPcieLinkGeneration(g)],
    replays=[nvmlDeviceGetPcieReplayCounter(g) for _ in range(3)],
    persistence=nvmlDeviceGetPersistenceMode(g),
    compute_mode=nvmlDeviceGetComputeMode(g),
    mig=nvmlDeviceGetMigMode(g),
    ecc_mode=nvmlDeviceGetEccMode(g),
    ecc=[nvmlDeviceGetTotalEccErrors(g, kind, counter)
         for kind in (NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
         for counter in (NVML_VOLATILE_ECC, NVML_AGGREGATE_ECC)],
    remapped=nvmlDeviceGetRemappedRows(g),
    capability=nvmlDeviceGetCudaComputeCapability(g),
    fields=[[f.nvmlReturn, f.valueType] for f in fields],
    recovery_action=fields[0].value.uiVal,
    tlimit=fields[1].value.siVal,
    nvlink_errors=[fields[2].value.ullVal, fields[3].value.ullVal],
    nvlinks=[nvmlDeviceGetNvLinkState(g, link) for link in range(NVML_NVLINK_MAX_LINKS)],
    ends=[nvmlDeviceGetNvLinkRemoteDeviceType(g, 0), nvmlDeviceGetNvLinkRemoteDeviceType(g, 7),
          nvmlDeviceGetNvLinkRemotePciInfo(g, 7).bus],
    xids=[[nvmlDeviceGetUUID(e.device), e.eventType, e.eventData] for e in (nvmlEventSetWait_v2(events, 0) for _ in range(2))],
    p2p=[nvmlDeviceGetP2PStatus(g, other, 0),  # NVML_P2P_CAPS_INDEX_READ, which the bindings define as a tuple
         nvmlDeviceGetP2PStatus(other, g, 0)],
)))
"""

MACHINE = """\
gpus 4
system driver_version 570.124.06
system cuda_version 12080
gpu 1 name NVIDIA H200
gpu 1 uuid GPU-77
gpu 1 vbios 96.00
gpu 1 reserved 512
gpu 1 process 4711 500
gpu 1 process 4712 20
gpu 1 graphics 900 30
gpu 1 utilization 83
gpu 1 memory_utilization 21
gpu 1 energy 8589934592+500
gpu 1 pcie_tx 3000
gpu 1 pcie_rx 7000
gpu 1 nvlink_tx 6442450944
gpu 1 nvlink_rx 12
gpu 1 nvlink_speed 25000
gpu 1 temperature 41
gpu 1 slowdown 88
gpu 1 margin -3
gpu 1 power 310500
gpu 1 power_limit 600000
gpu 1 power_default 650000
gpu 1 clock_sm 1200
gpu 1 clock_memory 1500
gpu 1 max_clock_sm 1300
gpu 1 max_clock_memory 1600
gpu 1 pstate 2
gpu 1 reasons 0x48
gpu 1 pcie_width 8
gpu 1 pcie_max_width 12
gpu 1 pcie_gen 3
gpu 1 pcie_max_gen 4
gpu 1 pcie_replays 7+2
gpu 1 persistence 0
gpu 1 compute_mode 3
gpu 1 mig_mode 1
gpu 1 ecc_pending 0
gpu 1 ecc_volatile 4294967296
gpu 1 ecc_aggregate 6
gpu 1 ecc_corrected 9
gpu 1 remap_corrected 1
gpu 1 remap_uncorrected 2
gpu 1 remap_pending 1
gpu 1 remap_failed 1
gpu 1 capability 10
gpu 1 capability_minor 3
gpu 1 fabric_state 2
gpu 1 fabric_status 999
gpu 1 fabric_health 5
gpu 1 recovery_action 3
gpu 1 slowdown_tlimit -5
gpu 1 nvlink_errors4 11
gpu 1 nvlink5 down
gpu 1 nvlink7 0f
gpu 1 p2p3 4
gpu 1 xid 48,45
"""

WANTED = {
    "count": 4, "driver_version": "570.124.06", "cuda_version": 12080, "name": "NVIDIA H200", "uuid": "GPU-77",
    "pci": [0, 0x43, 0, "00000000:43:00.0"], "vbios": "96.00", "memory": [81559, 512, 555, 80492],
    "processes": [[4711, 500], [4712, 20]], "graphics": [900], "utilization": [83, 21], "temperature": 41, "slowdown": 88,
    "margin": -3, "power": 310500, "power_limit": 600000, "power_default": 650000, "clocks": [1200, 1500],
    "max_clocks": [1300, 1600], "pstate": 2, "reasons": 0x48, "energy": [2**33, 2**33 + 500], "throughput": [3000, 7000],
    "nvlink_traffic": [6442450944, 12], "nvlink_speed": 25000, "pcie": [8, 12, 3, 4], "replays": [7, 9, 11],
    "persistence": 0, "compute_mode": 3, "mig": [1, 0], "ecc_mode": [1, 0], "ecc": [9, 9, 2**32, 6],
    "remapped": [1, 2, 1, 1], "capability": [10, 3], "fields": [[0, 1], [0, 5], [0, 3], [0, 3], [3, 0]],
    "recovery_action": 3, "tlimit": -5, "nvlink_errors": [11, 0],
    "nvlinks": [1] * 5 + [0] + [1] * 12, "ends": [2, 0, 0x0f], "p2p": [4, 0],
    "xids": [["GPU-77", 8, 48], ["GPU-77", 8, 45]],
}


def bindings(tmp_path, machine, script):
    file = tmp_path / "machine"
    file.write_text(machine)
    env = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "tests/fake"), "DROVER_FAKE_NVML": str(file)}
    return subprocess.run([PYTHON, "-c", script], env=env, capture_output=True, text=True, timeout=60)


def test_nvidias_bindings_read_every_value(tmp_path):
    p = bindings(tmp_path, MACHINE, READ)
    assert p.returncode == 0, p.stderr
    got = json.loads(p.stdout)
    assert got == WANTED


@pytest.mark.parametrize("code, name", [(3, "NVMLError_NotSupported"), (15, "NVMLError_GpuIsLost"),
                                        (999, "NVMLError_Unknown")])
def test_errors_are_those_of_nvidias_bindings(tmp_path, code, name):
    script = ("from pynvml import *\nnvmlInit()\ng = nvmlDeviceGetHandleByIndex(0)\n"
              f"try:\n    nvmlDeviceGetTemperature(g, 0)\nexcept {name}:\n    print('it failed')\n")
    assert bindings(tmp_path, f"gpus 1\ngpu 0 temperature error {code}\n", script).stdout == "it failed\n"


def test_a_machine_of_eight_gpus_is_healthy_by_default(tmp_path):
    script = ("from pynvml import *\nnvmlInit()\nfor i in range(nvmlDeviceGetCount()):\n"
              "    g = nvmlDeviceGetHandleByIndex(i)\n"
              "    print(nvmlDeviceGetTotalEccErrors(g, 1, 0), *nvmlDeviceGetRemappedRows(g), nvmlDeviceGetName(g))\n")
    assert bindings(tmp_path, "gpus 8\n", script).stdout == 8 * "0 0 0 0 0 NVIDIA H100 80GB HBM3\n"
