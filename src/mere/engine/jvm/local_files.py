"""The files of this machine, as Spark makes them: without a process for each.

Hadoop starts a `chmod` for every file, every checksum and every folder that it makes, unless it finds a native library
that pyspark does not bring: a fifth of the CPU of a small run. A file system of our own asks Java instead. It is
compiled as the JVM starts, in a tenth of a second, by the compiler that Spark has for its generated code.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

# Who names another class here is left with it.
SETTING = "spark.hadoop.fs.file.impl"

_SOURCE = Path(__file__).with_name("LocalFiles.java")


def use(jvm: Any) -> None:
    """Let it be the file system of the scheme `file`; `jvm`: the view of one whose Spark has not been started yet.

    Hadoop keeps one for the whole process, which is the one that was asked for first.
    """
    from py4j.protocol import Py4JError

    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(_SOURCE.read_text(encoding="utf-8"))
        conf = jvm.org.apache.hadoop.conf.Configuration()
        conf.setClassLoader(compiler.getClassLoader())
        conf.set("fs.file.impl", "LocalFiles")
        jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), conf)
    except (Py4JError, TypeError):
        # A Spark with another compiler, for instance: then it does as it always does.
        logging.getLogger(__name__).debug("files are made by Hadoop's own means", exc_info=True)
