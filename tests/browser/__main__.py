"""Test the admin in Debian's Chromium, or say that this is left out.

`python -m tests.browser -k settle`; any other run of pytest leaves the folder out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def main() -> int:
    """Run the tests; return the exit status."""
    if shutil.which("chromium") is None:
        reason = "there is no chromium: apt-get install chromium"
        if "browser" in os.environ.get("IDEMPOTENCY_TESTS_REQUIRE", "").split():
            raise SystemExit(f"The browser tests cannot run: {reason}")
        print(f"The browser tests are LEFT OUT: {reason}", flush=True)
        return 0
    everywhere = ("-o", "norecursedirs=.*")
    command = [sys.executable, "-m", "pytest", *everywhere, "tests/browser", *sys.argv[1:]]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
