"""Install requirements with pip and say how much was downloaded.

`python -m demo_project.install REPORT REQUIREMENTS`; the sum is also written to REPORT.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

# "Downloading Django-5.2-py3-none-any.whl (8.3 MB)"; what pip has in its cache is "Using cached".
DOWNLOAD = re.compile(r"^\s*Downloading .*\(([\d.]+) (bytes|kB|MB|GB)\)")
MEGABYTES = {"bytes": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


def main(report: str, requirements: str) -> int:
    """Install, and return pip's exit status."""
    begun = time.monotonic()
    options = ["--progress-bar", "off", "--disable-pip-version-check", "-r", requirements]
    with subprocess.Popen(  # noqa: S603  # Our own interpreter and a fixed argument list.
        [sys.executable, "-m", "pip", "install", *options], stdout=subprocess.PIPE, text=True
    ) as pip:
        total = megabytes(echo(pip.stdout or ()))
    if pip.returncode == 0:
        Path(report).write_text(f"{total:.1f} MB")
        print(f"Downloaded {total:.1f} MB in {time.monotonic() - begun:.0f} s.")
    return pip.returncode


def echo(lines: Iterable[str]) -> Iterable[str]:
    """Print the lines that say that something is done, and pass all of them on."""
    for line in lines:
        if not line.startswith("Requirement already satisfied"):
            print(line, end="", flush=True)
        yield line


def megabytes(lines: Iterable[str]) -> float:
    """Sum up the sizes that pip prints for its downloads."""
    found = filter(None, map(DOWNLOAD.match, lines))
    return sum(float(match[1]) * MEGABYTES[match[2]] for match in found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
