#!/usr/bin/env python3
"""Extract a real Nsight Systems into a folder from Debian's non-free packages, without installing them.

Nothing on the machine changes but the folder: the packages are fetched with `apt-get download` and unpacked with
`dpkg -x`, from the machine's own Debian source with other suites and components. No root needed. The last line
printed is the path of the nsys program. Nsight Systems is NVIDIA's; its licence is in PREFIX/LICENSES.

Exit codes: 0 installed, 2 wrong usage, 3 this machine cannot (not Debian or Ubuntu on amd64, or no apt),
4 the packages cannot be fetched, 5 what was unpacked does not run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

DEFAULT_VERSION = "2024.2.3"
# The Debian suite that carries each version. Ubuntu carries what it carries: its own suite is asked instead.
SUITES = {"2024.2.3": "experimental", "2023.4.4": "trixie", "2022.4.2": "bookworm"}
PROGRAMS = ("nsight-systems", "nsight-systems-target")
# Package names by the library they bring; several names where Debian renamed the package.
LIBRARIES = {
    "libssh.so": ("libssh-4",),
    "libssh.so.4": ("libssh-4",),
    "libarrow.so.500": ("libarrow500",),
    "libparquet.so.500": ("libparquet500",),
    "libpfm.so.4": ("libpfm4",),
    "libelf.so.1": ("libelf1t64", "libelf1"),
    "libdw.so.1": ("libdw1t64", "libdw1"),
    "libz.so.1": ("zlib1g",),
    "libcrypto.so.3": ("libssl3t64", "libssl3"),
    "libssl.so.3": ("libssl3t64", "libssl3"),
    "libgssapi_krb5.so.2": ("libgssapi-krb5-2",),
    "libkrb5.so.3": ("libkrb5-3",),
    "libk5crypto.so.3": ("libk5crypto3",),
    "libcom_err.so.2": ("libcom-err2",),
    "libkrb5support.so.0": ("libkrb5support0",),
    "libkeyutils.so.1": ("libkeyutils1",),
    "libglib-2.0.so.0": ("libglib2.0-0t64", "libglib2.0-0"),
    "libgthread-2.0.so.0": ("libglib2.0-0t64", "libglib2.0-0"),
    "libpcre2-8.so.0": ("libpcre2-8-0",),
    "libdbus-1.so.3": ("libdbus-1-3",),
    "libGL.so.1": ("libgl1",),
    "libGLX.so.0": ("libglx0",),
    "libOpenGL.so.0": ("libopengl0",),
    "libGLdispatch.so.0": ("libglvnd0",),
    "libEGL.so.1": ("libegl1",),
    "libX11.so.6": ("libx11-6",),
    "libxcb.so.1": ("libxcb1",),
    "libXau.so.6": ("libxau6",),
    "libXdmcp.so.6": ("libxdmcp6",),
    "libbsd.so.0": ("libbsd0",),
    "libmd.so.0": ("libmd0",),
}
CANNOT, NO_PACKAGES, DOES_NOT_RUN = 3, 4, 5


def fail(code: int, text: str, next_step: str) -> NoReturn:
    print(f"install_nsys: {text}\n  {next_step}", file=sys.stderr)
    sys.exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=Path, metavar="PREFIX", help="the folder to fill, e.g. .nsys")
    parser.add_argument("--version", choices=sorted(SUITES, reverse=True), default=DEFAULT_VERSION)
    parser.add_argument("--force", action="store_true", help="replace another version that is in PREFIX")
    options = parser.parse_args()
    prefix: Path = options.prefix.absolute()
    installed = installed_version(prefix)
    if installed and not installed.startswith(options.version) and not options.force:
        fail(2, f"{prefix} holds nsys {installed}", "Choose another PREFIX, or pass --force to replace it.")
    if not installed and prefix.is_dir() and any(prefix.iterdir()) and not options.force:
        fail(2, f"{prefix} is not empty and holds no nsys", "Choose another PREFIX, or pass --force.")
    if not installed.startswith(options.version):
        check_machine()
        install(prefix, options.version)
    print(prefix / "bin" / "nsys")


def installed_version(prefix: Path) -> str:
    """Return the version that PREFIX/bin/nsys prints, empty without one that runs."""
    try:
        text = run([str(prefix / "bin" / "nsys"), "--version"]).stdout
    except OSError:
        return ""
    found = re.search(r"\b(\d{4}\.\d+\.\d+)", text)
    return found.group(1) if found else ""


def check_machine() -> None:
    system = os_release()
    if not {"debian", "ubuntu"} & {system.get("ID", ""), *system.get("ID_LIKE", "").split()}:
        fail(CANNOT, "this machine runs neither Debian nor Ubuntu", "Get Nsight Systems from NVIDIA instead.")
    for program in ("apt-get", "apt-cache", "dpkg", "dpkg-deb", "ldd"):
        if not shutil.which(program):
            fail(CANNOT, f"{program} is not on PATH", "Get Nsight Systems from NVIDIA instead.")
    architecture = run(["dpkg", "--print-architecture"]).stdout.strip()
    if architecture != "amd64":
        fail(CANNOT, f"this machine is {architecture}, not amd64", "Get Nsight Systems from NVIDIA instead.")


def install(prefix: Path, version: str) -> None:
    """Build beside PREFIX, prove that it runs, then move into place: PREFIX is whole or untouched."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{prefix.name}-", dir=prefix.parent))
    work.chmod(0o755)
    try:
        apt = Apt(work / "apt", version)
        packages = [apt.pin(name, version) for name in PROGRAMS]
        packages += [found for name in ("libarrow500", "libparquet500") if (found := apt.find(name, version))]
        built = work / "built"
        assemble(apt.unpack(packages), built)
        add_missing_libraries(apt, built)
        prove(built, version, work / "proof")
        (built / "VERSION").write_text(f"{version}\n", encoding="utf-8")
        if prefix.exists():
            prefix.rename(work / "replaced")
        built.rename(prefix)
    finally:
        shutil.rmtree(work, ignore_errors=True)


class Apt:
    """apt on a private list of sources, so that the machine's own stays as it is."""

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder
        for name in ("parts", "lists/partial", "archives/partial", "deb"):
            (folder / name).mkdir(parents=True)
        write_source(folder / "parts", version)
        self.options = [
            "-oDir::Etc::sourcelist=/dev/null",
            f"-oDir::Etc::sourceparts={folder / 'parts'}",
            f"-oDir::State::Lists={folder / 'lists'}",
            f"-oDir::Cache={folder}",
            "-oAPT::Sandbox::User=root",  # apt's own user may not read the folder above PREFIX
        ]
        done = run(["apt-get", *self.options, "update", "-qq", "-oAPT::Update::Error-Mode=any"])
        if done.returncode:
            fail(NO_PACKAGES, "apt-get update failed", f"Is there a network? {last_line(done.stderr)}")

    def versions(self, package: str) -> list[str]:
        rows = run(["apt-cache", *self.options, "madison", package]).stdout.splitlines()
        return [cells[1].strip() for row in rows if len(cells := row.split("|")) > 2]

    def pin(self, package: str, version: str) -> str:
        """PACKAGE=VERSION in Debian's spelling; ends the program when no suite has it."""
        known = self.versions(package)
        for full in known:
            if full.startswith(version):
                return f"{package}={full}"
        fail(
            NO_PACKAGES,
            f"the machine's package source has no {package} {version}",
            f"It has: {', '.join(known) or 'none'}. Try another --version, or get it from NVIDIA.",
        )

    def find(self, package: str, version: str) -> str:
        """PACKAGE=VERSION of a library built together with nsys, else its newest version; empty without one."""
        known = self.versions(package)
        if not known:
            return ""
        return f"{package}={known[0]}" if version == DEFAULT_VERSION else ""

    def unpack(self, packages: list[str]) -> Path:
        """Download PACKAGES and unpack them into one tree."""
        tree = self.folder / "tree"
        debs = Path(tempfile.mkdtemp(dir=self.folder / "deb"))
        done = run(["apt-get", *self.options, "download", "-qq", *packages], cwd=debs)
        if done.returncode:
            fail(NO_PACKAGES, f"cannot download {' '.join(packages)}", last_line(done.stderr))
        for deb in sorted(debs.glob("*.deb")):
            unpacked = run(["dpkg", "-x", str(deb), str(tree)])
            if unpacked.returncode:
                fail(NO_PACKAGES, f"cannot unpack {deb.name}", last_line(unpacked.stderr))
        return tree


def write_source(parts: Path, version: str) -> None:
    """Return the machine's own first Debian source, with the suites and components that carry nsys."""
    system = os_release()
    codename = system.get("VERSION_CODENAME", "")
    if system.get("ID") == "debian":
        suites, components = [codename, SUITES[version]], "main contrib non-free"
        if SUITES[version] == "experimental":
            suites.insert(1, "trixie")  # what experimental is built against
    else:
        suites, components = [codename], "main universe multiverse"
    suites = list(dict.fromkeys(name for name in suites if name))
    stanza = deb822_stanza(codename)
    if stanza:
        stanza = re.sub(r"(?mi)^Suites:.*(\n[ \t].*)*", f"Suites: {' '.join(suites)}", stanza)
        stanza = re.sub(r"(?mi)^Components:.*(\n[ \t].*)*", f"Components: {components}", stanza)
        (parts / "nsys.sources").write_text(stanza.strip() + "\n", encoding="utf-8")
        return
    prefix = classic_line(codename)
    if not prefix:
        fail(CANNOT, f"no package source for {codename} found under /etc/apt", "Is apt set up on this machine?")
    lines = [f"{prefix} {suite} {components}\n" for suite in suites]
    (parts / "nsys.list").write_text("".join(lines), encoding="utf-8")


def deb822_stanza(codename: str) -> str:
    for path in sorted(Path("/etc/apt/sources.list.d").glob("*.sources")):
        text = re.sub(r"(?m)^#.*\n", "", path.read_text(encoding="utf-8"))
        for stanza in re.split(r"\n\s*\n", text):
            fields = dict(re.findall(r"(?m)^([\w-]+):[ \t]*(.*)$", stanza))
            kinds, enabled = fields.get("Types", ""), fields.get("Enabled", "yes")
            if "deb" in kinds.split() and enabled != "no" and codename in fields.get("Suites", "").split():
                return stanza
    return ""


def classic_line(codename: str) -> str:
    """`deb [options] URI` of the first one-line source whose suite is CODENAME."""
    folder = Path("/etc/apt")
    for path in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]:
        if not path.is_file():
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            found = re.match(r"\s*(deb\s+(?:\[[^\]]*\]\s+)?\S+)\s+(\S+)\s", line)
            if found and found.group(2) == codename:
                return found.group(1)
    return ""


def assemble(tree: Path, built: Path) -> None:
    """Lay the two trees side by side, links followed: nsys finds its importer only as such a sibling."""
    sources = {
        "target-linux-x64": tree / "usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64",
        "host-linux-x64": tree / "usr/lib/nsight-systems/host-linux-x64",
    }
    for name, source in sources.items():
        if not source.is_dir():
            fail(DOES_NOT_RUN, f"the package holds no {name}", "Debian has changed its layout: report this.")
        shutil.copytree(source, built / name, ignore=dangling_links)
    copy_libraries(tree, built / "host-linux-x64")
    # The report scripts of `nsys stats` import nsysstats, which Debian moves out of the tree.
    for module in (tree / "usr/lib/python3/dist-packages").glob("nsysstats.py"):
        for side in sources:
            (built / side / "python/lib").mkdir(parents=True, exist_ok=True)
            shutil.copy(module, built / side / "python/lib")
    # Two rules of `nsys analyze` import gpustats, which only one of the trees has.
    for module in (built / "target-linux-x64/python/lib").glob("gpustats.py"):
        shutil.copy(module, built / "host-linux-x64/python/lib")
    for copyright_file in (tree / "usr/share/doc").glob("*/copyright"):
        target = built / "LICENSES" / copyright_file.parent.name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(copyright_file, target)
    (built / "bin").mkdir()
    wrapper = built / "bin" / "nsys"
    wrapper.write_text(
        "#!/bin/sh\n# Found through links; no variable is set, so none reaches the profiled program.\n"
        'exec "$(dirname "$(readlink -f "$0")")/../target-linux-x64/nsys" "$@"\n',
        encoding="utf-8",
    )
    wrapper.chmod(0o755)


def dangling_links(folder: str, names: list[str]) -> list[str]:
    """Return links to packages that were not unpacked. copytree's own check resolves them from the wrong folder."""
    return [name for name in names if not (Path(folder) / name).exists()]


def copy_libraries(tree: Path, folder: Path) -> None:
    """Copy the unpacked libraries that FOLDER lacks; its programs look there first (RPATH $ORIGIN)."""
    for library in (tree / "usr/lib/x86_64-linux-gnu").glob("lib*.so*"):
        if library.name in LIBRARIES and library.is_file() and not (folder / library.name).exists():
            shutil.copy(library, folder / library.name)
    ssh = folder / "libssh.so.4"
    if ssh.exists() and not (folder / "libssh.so").exists():
        shutil.copy(ssh, folder / "libssh.so")


def add_missing_libraries(apt: Apt, built: Path) -> None:
    """Ask the loader what is missing, fetch it, and ask again: fetched libraries need others."""
    host, target = built / "host-linux-x64", built / "target-linux-x64"
    asked: set[str] = set()
    while missing := missing_libraries([host / "QdstrmImporter", target / "nsys"]) - asked:
        asked |= missing
        names = [next((n for n in LIBRARIES.get(m, ()) if apt.versions(n)), "") for m in sorted(missing)]
        unknown = [m for m, name in zip(sorted(missing), names, strict=True) if not name]
        if unknown:
            fail(DOES_NOT_RUN, f"no package known for {', '.join(unknown)}", "Install them, then try again.")
        tree = apt.unpack(sorted(set(names)))
        copy_libraries(tree, host)
        for library in missing & {"libelf.so.1", "libdw.so.1", "libz.so.1"}:
            shutil.copy(host / library, target / library)


def missing_libraries(programs: list[Path]) -> set[str]:
    found: set[str] = set()
    for program in programs:
        text = run(["ldd", str(program)]).stdout
        found |= set(re.findall(r"^\s*(\S+) => not found", text, re.MULTILINE))
    return found


def prove(built: Path, version: str, folder: Path) -> None:
    """Profile a program that does nothing, and export what was recorded."""
    nsys = str(built / "bin" / "nsys")
    folder.mkdir()
    got = run([nsys, "--version"])
    if version not in got.stdout:
        fail(DOES_NOT_RUN, "nsys --version failed", last_line(got.stdout + got.stderr))
    commands = (
        [nsys, "profile", "-t", "nvtx,osrt", "-s", "none", "--cpuctxsw=none", "-o", "proof", "true"],
        [nsys, "export", "--type", "sqlite", "-o", "proof.sqlite", "proof.nsys-rep"],
    )
    for command in commands:
        done = run(command, cwd=folder)
        if done.returncode:
            fail(DOES_NOT_RUN, f"nsys {command[1]} failed", last_line(done.stdout + done.stderr))
    exported = folder / "proof.sqlite"
    if not exported.is_file() or not exported.read_bytes().startswith(b"SQLite format 3\0"):
        fail(DOES_NOT_RUN, "nsys export wrote no SQLite file", "Report this.")


def os_release() -> dict[str, str]:
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return {}
    return {key: value.strip("\"'") for key, value in re.findall(r"(?m)^(\w+)=(.*)$", text)}


def run(command: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "It said nothing."


if __name__ == "__main__":
    main()
