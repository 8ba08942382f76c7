"""What a JVM is started for: its flags, and from how many bytes on others are better."""

from __future__ import annotations

from enum import Enum

# Where the lines cross. Filtering, writing and grouping Parquet files of 6, 20 and 58 MB took 7.6, 9.3 and 14.8 CPU
# seconds under SHORT, and 13.8, 15.9 and 18.8 under HEAVY: 0.14 and 0.10 for each further megabyte.
HEAVY_BYTES = 128 * 1024 * 1024

# From here on a new JVM, tuned for throughput, is faster than a warm one: by the same lines, less what a start costs.
TOO_MUCH_FOR_WARM = 2 * HEAVY_BYTES

# Compile quickly and never again. By default the JVM reserves 48 MB for the code of this compiler (240 MB beside the
# optimising one). Spark's generated code fills that within a dozen runs, and a JVM without room for code dies of it.
QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")


class Work(Enum):
    """How the JVM is tuned; the value is the flags."""

    # Start-up dominates: the quick compiler, and one thread that collects. Half the CPU of a small job.
    SHORT = (*QUICK_COMPILER, "-XX:+UseSerialGC")
    # Throughput dominates: the optimising compiler, and a collector that uses all cores.
    HEAVY = ("-XX:+UseParallelGC",)
    # Many small runs: the optimising compiler doubled the first one (17 CPU seconds for 8.5, ten models) and had not
    # paid back after fifteen (3.1 a run for 2.1). Memory goes back to the system when nothing is run.
    WARM = (*QUICK_COMPILER, "-XX:+UseG1GC", "-XX:G1PeriodicGCInterval=30000")
    # Anything, for days, of several users: a compiler that optimises what stays, and short pauses.
    SERVER = ("-XX:+UseG1GC",)

    @classmethod
    def of(cls, read_bytes: int) -> Work:
        return cls.HEAVY if read_bytes >= HEAVY_BYTES else cls.SHORT
