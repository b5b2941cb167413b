#!/usr/bin/env python3
"""Lock the environment in which the tests run: requirements.lock has the version and the hash of each package.

    scripts/lock.py             ask pip for the newest versions that fit, and write requirements.lock
    scripts/lock.py --check     fail where a package that pyproject.toml needs is not in it, or is too old there
    scripts/lock.py --lowest    print the lowest versions that the package allows, as constraints of pip

The package itself keeps lower bounds, and LOWEST=1 make test tests it with the lowest versions. pip chooses for the
Python and the platform that this runs on, and the first line of the file names both. Torch is left out: its builds for
a processor and for each CUDA are different files.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
# What scripts/setup installs beside the package itself.
EXTRA, GROUP = "torch", "dev"
LEFT_OUT = "torch"
LINE = re.compile(r"([a-z0-9-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare requirements.lock with pyproject.toml")
    parser.add_argument("--lowest", action="store_true", help="print the lowest versions that the package allows")
    options, pyproject = parser.parse_args(), (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    if options.lowest:
        print("\n".join(list_lowest(pyproject)))
        return 0
    needed = list(read_needed(pyproject))
    if options.check:
        faults = list(find_faults(LOCK.read_text(encoding="utf-8"), needed))
        print("\n".join(faults) or f"{LOCK.name} has all {len(needed)} packages that pyproject.toml names.")
        return bool(faults)
    text = render_lock(resolve(needed))
    LOCK.write_text(text, encoding="utf-8")
    print(f"{LOCK.name} has {len(read_lock(text))} packages.")
    return 0


def read_needed(pyproject: str) -> Iterator[Requirement]:
    """Yield what a pyproject.toml names for the environment of the tests, but for torch."""
    data = tomllib.loads(pyproject)
    extras = data["project"]["optional-dependencies"]
    waiting: list[Any] = [*data["project"]["dependencies"], *extras[EXTRA], {"include-group": GROUP}]
    while waiting:
        entry = waiting.pop(0)
        if isinstance(entry, dict):
            waiting += data["dependency-groups"][entry["include-group"]]
            continue
        requirement = Requirement(entry)
        if requirement.name == data["project"]["name"]:
            waiting += [text for extra in sorted(requirement.extras) for text in extras[extra]]
        elif requirement.name != LEFT_OUT and (requirement.marker is None or requirement.marker.evaluate()):
            yield requirement


def list_lowest(pyproject: str) -> list[str]:
    """Return the lowest version of each package that users get with the package or one of its extras, but for torch.

    Raises ValueError for a package without a lower bound.
    """
    project = tomllib.loads(pyproject)["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    lowest = {}
    for requirement in map(Requirement, texts):
        if requirement.name in (project["name"], LEFT_OUT):
            continue
        bounds = [each.version for each in requirement.specifier if each.operator == ">="]
        if len(bounds) != 1:
            raise ValueError(f"{requirement.name} has no lower bound in pyproject.toml")
        marker = f"; {requirement.marker}" if requirement.marker else ""
        lowest[canonicalize_name(requirement.name)] = f"{requirement.name}=={bounds[0]}{marker}"
    return [lowest[name] for name in sorted(lowest)]


def resolve(needed: Sequence[Requirement]) -> dict[str, tuple[str, str]]:
    """Return the version and the SHA-256 of each package that pip would install, by its name.

    Raises SystemExit where pip fails, or where it knows no hash.
    """
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    done = subprocess.run([*command, *map(str, needed)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit("lock.py: pip found no versions that fit together; what it printed says why.")
    packages: dict[str, tuple[str, str]] = {}
    for package in json.loads(done.stdout)["install"]:
        name = canonicalize_name(package["metadata"]["name"])
        digest = package["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest is None:
            raise SystemExit(f"lock.py: pip knows no SHA-256 of {name}.")
        packages[name] = package["metadata"]["version"], digest
    return packages


def render_lock(packages: dict[str, tuple[str, str]]) -> str:
    version = ".".join(platform.python_version_tuple()[:2])
    machine = f"{platform.system()} {platform.machine()}"
    lines = [f"# Made by scripts/lock.py for Python {version} on {machine}, without torch.\n"]
    for name, (release, digest) in sorted(packages.items()):
        lines.append(f"{name}=={release} \\\n    --hash=sha256:{digest}\n")
    return "".join(lines)


def read_lock(text: str) -> dict[str, str]:
    """Return the versions in a lock by name. Raises ValueError for anything in it but packages with hashes."""
    head, _, rest = text.partition("\n")
    if not head.startswith("# Made by scripts/lock.py") or LINE.sub("", rest):
        raise ValueError("requirements.lock has lines that scripts/lock.py does not write; run it again")
    return {match[1]: match[2] for match in LINE.finditer(rest)}


def find_faults(lock: str, needed: Sequence[Requirement]) -> Iterator[str]:
    """Yield a sentence for each package that is needed and not in the lock, or not in a version that is allowed."""
    try:
        locked = read_lock(lock)
    except ValueError as error:
        yield str(error)
        return
    for requirement in needed:
        version = locked.get(canonicalize_name(requirement.name))
        if version is None:
            yield f"{requirement.name} is not in requirements.lock: run scripts/lock.py"
        elif not requirement.specifier.contains(version, prereleases=True):
            yield f"{requirement.name} {version} in the lock is not {requirement.specifier}: run scripts/lock.py"


if __name__ == "__main__":
    sys.exit(main())
