"""Iceberg's own compatibility kit for REST catalogs, run against a lake."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from mere.engine.jvm import java
from mere.engine.jvm.classpath import spark_home
from mere.engine.jvm.work import QUICK_COMPILER
from tests.services.ivy import fetched

_VERSION = "1.11.0"  # the last that has the kit
_DEPENDENCIES = f"""
    <dependency org="org.apache.iceberg" name="iceberg-core" rev="{_VERSION}">
      <artifact name="iceberg-core" type="jar" ext="jar"/>
      <artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.apache.iceberg" name="iceberg-api" rev="{_VERSION}">
      <artifact name="iceberg-api" type="jar" ext="jar"/>
      <artifact name="iceberg-api" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.apache.iceberg" name="iceberg-open-api" rev="{_VERSION}" transitive="false">
      <artifact name="iceberg-open-api" type="jar" ext="jar" m:classifier="test-fixtures"/>
      <artifact name="iceberg-open-api" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.junit.platform" name="junit-platform-console-standalone" rev="1.13.4" transitive="false"/>
    <dependency org="org.assertj" name="assertj-core" rev="3.27.3"/>
    <dependency org="org.awaitility" name="awaitility" rev="4.3.0"/>
    <dependency org="org.mockito" name="mockito-core" rev="4.11.0"/>
"""
_CLASSES = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")
WAREHOUSE = "rck_catalog"  # as the kit names its catalog: a view names the catalog that it was made in


def run(uri: str, folder: Path) -> tuple[set[str], dict[str, str]]:
    """The names of the tests that passed, and of those that failed, with the reason."""
    hadoop = [each for name in ("hadoop-client-*", "commons-logging-*") for each in _spark(name)]
    path = [*sorted(fetched(f"kit-{_VERSION}", _DEPENDENCIES).glob("*.jar")), *hadoop]
    settings = {
        "CATALOG_URI": uri,
        "CATALOG_WAREHOUSE": WAREHOUSE,
        "CATALOG_RCK_LOCAL": "false",
        "CATALOG_RCK_REQUIRES__NAMESPACE__CREATE": "true",
        "CATALOG_RCK_OVERRIDES__REQUESTED__LOCATION": "true",
    }
    command = [str(java.find().executable), "-Xmx512m", *QUICK_COMPILER, "-XX:+UseSerialGC", "-Drck.local=false"]
    command += ["-cp", os.pathsep.join(map(str, path)), "org.junit.platform.console.ConsoleLauncher", "execute"]
    command += ["--disable-banner", f"--reports-dir={folder}"]
    command += [word for each in _CLASSES for word in ("-c", f"org.apache.iceberg.rest.{each}")]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    cases = [case for file in sorted(folder.glob("*.xml")) for case in ET.parse(file).iter("testcase")]
    assert cases, done.stdout[-3000:] + done.stderr[-3000:]
    passed, failed = set(), {}
    for case in cases:
        name = case.get("name", "").partition("(")[0]
        trouble = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
        if trouble is not None:
            failed[name] = trouble.get("message") or ""
        elif case.find("skipped") is None:
            passed.add(name)
    return passed, failed


def _spark(pattern: str) -> list[Path]:
    return sorted((spark_home() / "jars").glob(f"{pattern}.jar"))
