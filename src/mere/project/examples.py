"""The projects that `mere init --example` copies: beside mere's own modules in the wheel, examples/ in a checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

from mere import config
from mere.entries import nearest
from mere.errors import ConfigError, UsageError

# What is left in an example that was tried in place, by its name at the top.
_LEFT_BY_RUNS = ("lake", "lake-tlc", "data", ".mere")


def names() -> list[str]:
    return sorted(file.parent.name for file in _home().glob(f"*/{config.FILE_NAME}"))


def copy(name: str, folder: Path) -> None:
    """Into a folder that may have other things in it; nothing is written over."""
    if name not in names():
        raise UsageError(f"There is no example {name}.", remedy=nearest(name, names(), "examples"))
    source = _home() / name
    files = [each for each in sorted(source.rglob("*")) if each.is_file() and _belongs(each.relative_to(source))]
    targets = [folder / each.relative_to(source) for each in files]
    if there := next((each for each in targets if each.exists()), None):
        raise ConfigError(
            f"{there} already exists. Nothing was changed.", remedy="Choose another folder: mere init DIR"
        )
    for file, target in zip(files, targets, strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _belongs(path: Path) -> bool:
    return path.parts[0] not in _LEFT_BY_RUNS and "__pycache__" not in path.parts


def _home() -> Path:
    package = Path(__file__).parents[1]
    packaged = package / "examples"
    return packaged if packaged.is_dir() else package.parents[1] / "examples"
