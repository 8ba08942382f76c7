"""What a JVM is started for: its flags, and from how many bytes on others are better."""

from __future__ import annotations

from enum import Enum

# From here on the optimising compiler pays for itself, and from there on a collector that uses all cores, and smaller
# parts of a shuffle. By the six models of the example taxi: see docs/decisions/0003-engine-start-up.md.
STEADY_BYTES = 20 * 1024 * 1024
HEAVY_BYTES = 128 * 1024 * 1024

# From here on a new JVM, tuned for throughput, is faster than a warm one.
TOO_MUCH_FOR_WARM = 2 * HEAVY_BYTES

# Compile quickly and never again. By default the JVM reserves 48 MB for the code of this compiler (240 MB beside the
# optimising one). Spark's generated code fills that within a dozen runs, and a JVM without room for code dies of it.
QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
# Both compilers, but the optimising one only for the little that every row goes through: at twenty times its usual
# thresholds. With those it spends more than it saves, on what runs a few thousand times while Spark plans.
PATIENT_COMPILER = (
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=800000",
    "-XX:ReservedCodeCacheSize=240m",
)


class Work(Enum):
    """How the JVM is tuned; the value is the flags."""

    # Start-up dominates: the quick compiler, and one thread that collects. Half the CPU of a small job.
    SHORT = (*QUICK_COMPILER, "-XX:+UseSerialGC")
    # Some million rows, each of which goes through the same code.
    STEADY = (*PATIENT_COMPILER, "-XX:+UseSerialGC")
    # Throughput dominates: a collector that uses all cores.
    HEAVY = (*PATIENT_COMPILER, "-XX:+UseParallelGC")
    # Many small runs: the optimising compiler doubled the first one (17 CPU seconds for 8.5, ten models) and had not
    # paid back after fifteen (3.1 a run for 2.1). Memory goes back to the system when nothing is run.
    WARM = (*QUICK_COMPILER, "-XX:+UseG1GC", "-XX:G1PeriodicGCInterval=30000")
    # Anything, for days, of several users: a compiler that optimises what stays, and short pauses.
    SERVER = ("-XX:+UseG1GC",)

    @classmethod
    def of(cls, read_bytes: int) -> Work:
        if read_bytes >= HEAVY_BYTES:
            return cls.HEAVY
        return cls.STEADY if read_bytes >= STEADY_BYTES else cls.SHORT
