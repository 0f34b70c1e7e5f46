"""The machine that is measured: its processor, and how much of it other programs used meanwhile. Linux
only."""
import os
import pathlib
import resource
import time

# The parts of x86 that decide which kernels an engine may use.
FLAGS = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_int8",
         "amx_bf16")


def describe(cpuinfo=None):
    """The processor, its usable cores, and which of FLAGS it has."""
    text = pathlib.Path("/proc/cpuinfo").read_text() if cpuinfo is None else cpuinfo
    facts = dict(reversed(
        [(part.strip() for part in line.split(":", 1)) for line in text.splitlines() if ":" in line]))
    has = set(facts.get("flags", "").split())
    return {"cpu": facts.get("model name", "unknown"), "cores": len(os.sched_getaffinity(0)),
            "flags": [flag for flag in FLAGS if flag in has]}


def _busy_s():
    """Seconds since the start that all processors together have worked, or were taken from this virtual
    machine."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    counts = dict(zip(names, map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])))
    return sum(counts[name] for name in names if name not in ("idle", "iowait")) / os.sysconf("SC_CLK_TCK")


def _own_s():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


class OtherPrograms:
    """Counts, from its creation, the processors that programs other than this one and its finished children
    use."""

    def __init__(self):
        self.begin, self.busy, self.own = time.monotonic(), _busy_s(), _own_s()

    def cpus(self):
        """Their mean number so far."""
        seconds = max(time.monotonic() - self.begin, 1e-3)
        return round(max(0.0, (_busy_s() - self.busy) - (_own_s() - self.own)) / seconds, 2)
