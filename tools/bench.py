"""An environment for benchmarks: ``python -m tools.bench`` installs the wheel of dist into build/bench.

All other packages are those of the Python that runs this, so that only Trellis differs from the clone.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv

from tools.wheels import DIST, ROOT, wheel_for

PLACE = ROOT / "build" / "bench"


def main() -> None:
    """Make the environment anew."""
    wheel = wheel_for(sys.version_info[:2], sorted(DIST.glob("*.whl")))
    if wheel is None:
        sys.exit("dist has no wheel for this Python: run make wheel, or make bench BUILD=clone")
    venv.create(PLACE, clear=True, with_pip=False, symlinks=True)
    packages = PLACE / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    outside = [path for path in sys.path if path.endswith("site-packages")]
    # Of the folders named here Python reads no further .pth files: the editable install of the clone stays outside.
    (packages / "outside.pth").write_text("\n".join(outside))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(PLACE / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--ignore-installed", str(wheel)], check=True)
    print(f"benchmarks run on {wheel.name}")


if __name__ == "__main__":
    main()
