#!/usr/bin/env python3
"""Writes the recorded machines of this folder: hwloc XML (version 2) and, beside it, what NVML says.

    python3 tests/plan/machines/make.py

Each follows a real machine; README.md says which and what is known of it. Only what placement looks at is written:
packages, NUMA nodes, level 3 caches, cores, hardware threads, GPUs, and on one machine PCIe switches, NVLinks and network
adapters."""
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Machine:
    def __init__(self, name, follows, packages, numa, l3, cores, threads, host=None, infos=()):
        """`numa` nodes a package, `l3` caches a node, `cores` a cache, `threads` a core."""
        self.name, self.shape, self.gp = name, (packages, numa, l3, cores, threads), 0
        self.infos = [("Follows", follows), ("HostName", host or name), *infos]
        self.total_cores = packages * numa * l3 * cores
        self.devices = {}  # NUMA node (None: the machine) -> XML of its devices
        self.trees = {}  # NUMA node -> lines of XML
        self.gpus = []
        self.allowed = None
        self.core = 0

    def pci(self, numa, bus, kind):
        device = f'<object type="PCIDev" {{}} pci_busid="{bus}" pci_type="{kind}" pci_link_speed="0.000000"/>'
        root, number = bus[:4], bus[5:7]
        self.devices.setdefault(numa, []).append(
            (f'<object type="Bridge" {{}} bridge_type="0-1" depth="0" bridge_pci="{root}:[{number}-{number}]">', device))

    def gpu(self, numa, bus, kind, model, uuid):
        self.pci(numa, bus, kind)
        self.gpus.append({"index": len(self.gpus), "uuid": uuid, "name": model, "bus_id": bus})

    def switch(self, numa, bus, devices):
        """A host bridge with a PCIe switch; below each port of it another one with `devices`: (bus, type, name of an adapter)."""
        first, last = int(bus, 16), int(bus, 16) + 16

        def port(depth, low, high):
            return (f'<object type="Bridge" {{}} bridge_type="1-1" depth="{depth}" bridge_pci="0000:[{low:02x}-{high:02x}]" '
                    f'pci_busid="0000:{low - 1:02x}:00.0" pci_type="0604 [1000:c010] [1000:a064] b0" pci_link_speed="0.000000">')

        lines = [f'<object type="Bridge" {{}} bridge_type="0-1" depth="0" bridge_pci="0000:[{first:02x}-{last:02x}]">',
                 port(1, first + 1, last)]
        for of in devices:
            lines.append(port(2, first + 2, last))
            for at, kind, name in of:
                end = ">" if name else "/>"
                lines += [port(3, int(at, 16), int(at, 16)),
                          f'<object type="PCIDev" {{}} pci_busid="0000:{at}:00.0" pci_type="{kind}" pci_link_speed="0.000000"{end}']
                if name:
                    lines += [f'<object type="OSDev" {{}} name="{name}" osdev_type="3"/>', "</object>"]
                lines.append("</object>")
            lines.append("</object>")
        self.trees.setdefault(numa, []).extend([*lines, "</object>", "</object>"])

    def bits(self, numbers):
        value = sum(1 << n for n in numbers)
        words = max(1, (value.bit_length() + 31) // 32)
        return ",".join(f"0x{value >> 32 * w & 0xffffffff:08x}" for w in reversed(range(words)))

    def gp_index(self):
        self.gp += 1
        return f'gp_index="{self.gp}"'

    def sets(self, cpus, nodes):
        c, n = self.bits(cpus), self.bits(nodes)
        return f'cpuset="{c}" complete_cpuset="{c}" nodeset="{n}" complete_nodeset="{n}" {self.gp_index()}'

    def io(self, numa, indent):
        for bridge, device in self.devices.get(numa, []):
            yield indent + bridge.format(self.gp_index())
            yield indent + " " + device.format(self.gp_index())
            yield indent + "</object>"
        for line in self.trees.get(numa, []):
            yield indent + line.format(self.gp_index())

    def cpus_of(self, first_core, cores):
        threads = self.shape[4]
        return [t * self.total_cores + c for c in range(first_core, first_core + cores) for t in range(threads)]

    def core_xml(self, core, nodes, indent):
        yield f'{indent}<object type="Core" os_index="{core}" {self.sets(self.cpus_of(core, 1), nodes)}>'
        for cpu in self.cpus_of(core, 1):
            yield f'{indent} <object type="PU" os_index="{cpu}" {self.sets([cpu], nodes)}/>'
        yield f"{indent}</object>"

    def numa_xml(self, node, indent):
        _, numa, l3, cores, _ = self.shape
        first = node * l3 * cores
        own = self.cpus_of(first, l3 * cores)
        if numa > 1:  # a part of a package: hwloc puts it into a group
            yield f'{indent}<object type="Group" {self.sets(own, [node])} kind="1001" subkind="0">'
        yield f'{indent} <object type="NUMANode" os_index="{node}" {self.sets(own, [node])} local_memory="68719476736"/>'
        for cache in range(l3):
            at = first + cache * cores
            yield (f'{indent} <object type="L3Cache" {self.sets(self.cpus_of(at, cores), [node])} cache_size="33554432" '
                   'depth="3" cache_linesize="64" cache_associativity="16" cache_type="0">')
            for core in range(at, at + cores):
                yield from self.core_xml(core, [node], indent + "  ")
            yield f"{indent} </object>"
        yield from self.io(node, indent + " ")
        if numa > 1:
            yield f"{indent}</object>"

    def xml(self):
        packages, numa, l3, cores, _ = self.shape
        cpus, nodes = self.cpus_of(0, self.total_cores), range(packages * numa)
        allowed = self.bits(self.allowed or cpus)
        yield '<?xml version="1.0" encoding="UTF-8"?>'
        yield '<!DOCTYPE topology SYSTEM "hwloc2.dtd">'
        yield '<topology version="2.0">'
        yield (f'<object type="Machine" os_index="0" {self.sets(cpus, nodes)} allowed_cpuset="{allowed}" '
               f'allowed_nodeset="{self.bits(nodes)}">')
        for name, value in self.infos:
            yield f' <info name="{name}" value="{value}"/>'
        for p in range(packages):
            of = self.cpus_of(p * numa * l3 * cores, numa * l3 * cores)
            yield f' <object type="Package" os_index="{p}" {self.sets(of, range(p * numa, (p + 1) * numa))}>'
            for node in range(p * numa, (p + 1) * numa):
                yield from self.numa_xml(node, "  ")
            yield " </object>"
        yield from self.io(None, " ")
        yield "</object>"
        yield "</topology>"

    def write(self, nvml=True):
        (HERE / f"{self.name}.xml").write_text("\n".join(self.xml()) + "\n")
        if nvml and self.gpus:
            rows = ",\n".join(" " + json.dumps(g) for g in self.gpus)
            (HERE / f"{self.name}.gpus.json").write_text(f"[\n{rows}\n]\n")


def uuid(seed, i):
    return f"GPU-{seed}{i:02d}f3-77a1-4c0e-9d15-0242ac1100{i:02d}"


def h100(name, follows, **more):
    m = Machine(name, follows, 2, 1, 1, 56, 2, **more)
    for i, bus in enumerate(("1b", "43", "52", "61", "9d", "c3", "d1", "df")):
        m.gpu(i // 4, f"0000:{bus}:00.0", "0302 [10de:2330] [10de:16c1] a1", "NVIDIA H100 80GB HBM3", uuid("41b2", i))
    return m


def main():
    m = Machine("dgx-a100", "NVIDIA DGX A100: 2 x AMD EPYC 7742, NPS4, SMT on", 2, 4, 4, 4, 2)
    for i, (bus, numa) in enumerate((("07", 3), ("0f", 3), ("47", 1), ("4e", 1), ("87", 7), ("90", 7), ("b7", 5),
                                     ("bd", 5))):
        m.gpu(numa, f"0000:{bus}:00.0", "0302 [10de:20b2] [10de:1463] a1", "NVIDIA A100-SXM4-80GB", uuid("a100", i))
    for g, numa in zip(m.gpus, (3, 3, 1, 1, 7, 7, 5, 5)):
        g["numa"] = numa
    m.write()

    # The matrix of `nvidia-smi topo -m` is that of NVIDIA's DGX A100 user guide: NV12, PXB in groups of two GPUs, else SYS.
    m = Machine("dgx-a100-fabric", "NVIDIA DGX A100 with its 8 adapters for the fabric", 2, 4, 4, 4, 2)
    for group, (bus, numa) in enumerate((("00", 3), ("40", 1), ("80", 7), ("a0", 5))):
        first = int(bus, 16)
        devices = []
        for half in range(2):
            gpu, nic = f"{first + 6 + half * 5:02x}", f"{first + 8 + half * 5:02x}"
            devices.append([(gpu, "0302 [10de:20b2] [10de:1463] a1", None),
                            (nic, "0207 [15b3:101b] [15b3:0007] 00", f"mlx5_{group * 2 + half}")])
            m.gpus.append({"index": len(m.gpus), "uuid": uuid("a100", len(m.gpus)), "name": "NVIDIA A100-SXM4-80GB",
                           "bus_id": f"0000:{gpu}:00.0", "nvlinks": {"switch": 12}})
        m.switch(numa, bus, devices)
    m.write()

    # A GPU pair with direct links, and one that fell off the bus: NVML still knows it.
    m = Machine("lost-gpu", "4 x V100 with direct NVLinks; the last has fallen off the bus", 2, 1, 1, 20, 1)
    for i, bus in enumerate(("1a", "1c", "3b")):
        m.gpu(i // 2, f"0000:{bus}:00.0", "0302 [10de:1db1] [10de:1212] a1", "Tesla V100-SXM2-32GB", uuid("1db1", i))
    m.gpus.append({"index": 3, "uuid": uuid("1db1", 3), "name": "Tesla V100-SXM2-32GB", "bus_id": "0000:d8:00.0"})
    for a, b, links in ((0, 1, 2), (0, 2, 1), (1, 2, 1)):
        m.gpus[a].setdefault("nvlinks", {})[m.gpus[b]["bus_id"]] = links
        m.gpus[b].setdefault("nvlinks", {})[m.gpus[a]["bus_id"]] = links
    m.write()

    m = Machine("a100-mig", "2 x AMD EPYC 7543, NPS1, SMT off; two A100 PCIe, the second divided into three", 2, 1, 8, 4, 1)
    for i, bus in enumerate(("25", "c1")):
        m.gpu(i, f"0000:{bus}:00.0", "0302 [10de:20b5] [10de:1533] a1", "NVIDIA A100 80GB PCIe", uuid("a180", i))
    m.gpus[1]["parts"] = [f"MIG-{c * 8}-2b0f-5a1c-9d15-0242ac110001" for c in "7bd"]
    m.write()

    h100("dgx-h100", "NVIDIA DGX H100: 2 x Intel Xeon Platinum 8480C, SMT on").write()

    m = h100("h100-container", "a DGX H100 seen from a container: --cpuset-cpus 0-7,60,61,112-119 --gpus 0,1,4")
    m.allowed = [*range(8), 60, 61, *range(112, 120)]
    m.gpus = [dict(m.gpus[i], index=k) for k, i in enumerate((0, 1, 4))]
    m.write()

    m = Machine("workstation-4gpu", "AMD Threadripper PRO 3975WX with 4 RTX A6000, one NUMA node", 1, 1, 8, 4, 2)
    for bus in ("01", "21", "41", "61"):
        m.gpu(None, f"0000:{bus}:00.0", "0300 [10de:2230] [10de:1459] a1", "", "")
        m.pci(None, f"0000:{bus}:00.1", "0403 [10de:1aef] [10de:1459] a1")
    m.write(nvml=False)

    m = Machine("desktop-mixed", "Intel i7-9700K (no SMT) with an RTX 3090 and a GTX 1650 in the first slot", 1, 1, 1, 8, 1)
    m.gpu(None, "0000:01:00.0", "0300 [10de:1f82] [1043:8741] a1", "NVIDIA GeForce GTX 1650", uuid("16f0", 0))
    m.gpu(None, "0000:02:00.0", "0300 [10de:2204] [1043:87af] a1", "NVIDIA GeForce RTX 3090", uuid("3090", 1))
    m.write()

    Machine("laptop", "Intel i7-8550U, 4 cores, SMT on, no GPU", 1, 1, 1, 4, 2).write()
    Machine("vm-2core", "a cloud machine with 2 virtual CPUs that shows no SMT", 1, 1, 1, 2, 1).write()
    Machine("xeon-2s", "2 x Intel Xeon Silver 4110, 8 cores each, SMT on, no GPU", 2, 1, 1, 8, 2).write()
    Machine("epyc-nps2", "2 x AMD EPYC 7313, 16 cores each, NPS2, SMT off, no GPU", 2, 2, 2, 4, 1).write()
    Machine("pod-quota", "a Kubernetes pod with cpu limit 3.5 on a host of 16 cores", 1, 1, 2, 8, 2,
            infos=[("CpuQuota", "4")]).write()

    m = Machine("v100-smt-off", "2 x Intel Xeon Gold 6248 with SMT off in the firmware, 2 V100", 2, 1, 1, 20, 1)
    for i, bus in enumerate(("3b", "d8")):
        m.gpu(i, f"0000:{bus}:00.0", "0302 [10de:1db6] [10de:124a] a1", "Tesla V100-PCIE-32GB", uuid("1db6", i))
    m.write()


main()
