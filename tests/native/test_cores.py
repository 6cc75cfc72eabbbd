"""How many threads there are by default: as many as the scheduler allows, or fewer if control groups give less time."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from trellis import _native


def system(folder: Path, groups: str, files: dict[str, str]) -> str:
    """The root of a file system with these control groups."""
    for name, text in {
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2.0),
        ("0::/pod/box\n", {"pod/box/cpu.max": "350000 100000\n"}, 3.5),
        # The group itself has no limit, the one it lies in has.
        ("0::/pod/box\n", {"pod/box/cpu.max": "max 100000\n", "pod/cpu.max": "150000 100000\n"}, 1.5),
        # A container that sees its own group as the root.
        ("0::/outside/name\n", {"cpu.max": "400000 100000\n"}, 4.0),
        # Version 1, mounted under either name, and beside version 2.
        ("4:cpu,cpuacct:/box\n", {"cpu,cpuacct/box/cpu.cfs_quota_us": "50000\n",
                                  "cpu,cpuacct/box/cpu.cfs_period_us": "100000\n"}, 0.5),
        ("1:cpu:/\n0::/\n", {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3.0),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ("3:cpuset:/\n", {"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ("1:cpu:/\n0::/box\n", {"unified/box/cpu.max": "100000 50000\n"}, 2.0),
        # Nothing that a system would write.
        ("", {}, math.inf),
        ("0\n::\n1:cpu\n0::no slash\n", {"cpu.max": ""}, math.inf),
        ("0::/\n", {"cpu.max": "many 100000\n"}, math.inf),
        ("0::/\n", {"cpu.max": "100000 0\n"}, math.inf),
    ],
)  # fmt: skip
def test_quotas_of_both_versions_are_read(tmp_path: Path, groups: str, files: dict[str, str], expected: float) -> None:
    assert _native.core_quota(system(tmp_path, groups, files)) == expected


def test_a_system_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert _native.core_quota(str(tmp_path)) == math.inf


# In the group that its first argument names, how many threads there are by default.
PROGRAM = """
import os, sys
group, quota, period = sys.argv[1:]
os.mkdir(group)
for name, text in zip(quota.split(), period.split()):
    with open(os.path.join(group, name), "w") as file:
        file.write(text.replace("_", " "))
with open(os.path.join(group, "cgroup.procs"), "w") as file:
    file.write("0")
import trellis.chain
print(trellis.chain.get_num_threads())
"""


def limited_group() -> tuple[str, str, str] | None:
    """A new control group, and the files and their texts that give it one core; none where that is not permitted."""
    first = Path("/sys/fs/cgroup")
    if (first / "cpu" / "cpu.cfs_period_us").exists() or (first / "cpu" / "cgroup.procs").exists():
        return str(first / "cpu" / "trellis-test"), "cpu.cfs_period_us cpu.cfs_quota_us", "100000 100000"
    if "cpu" in ((first / "cgroup.subtree_control").read_text() if (first / "cgroup.subtree_control").exists() else ""):
        return str(first / "trellis-test"), "cpu.max", "100000_100000"
    return None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="control groups are Linux's")
def test_a_process_in_a_group_of_one_core_has_one_thread() -> None:
    group = limited_group()
    if group is None:
        pytest.skip("there is no controller of processor time here")
    try:
        command = [sys.executable, "-c", PROGRAM, *group]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        if Path(group[0]).exists():
            Path(group[0]).rmdir()
    if "PermissionError" in done.stderr or "Read-only file system" in done.stderr:
        pytest.skip("control groups cannot be made here")
    assert done.stderr == ""
    assert done.stdout == "1\n"
