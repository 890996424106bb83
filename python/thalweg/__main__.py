"""``python -m thalweg`` and the ``thalweg`` command of the package, the same as the program's."""

from __future__ import annotations

import signal
import sys

from thalweg import _core


def main() -> int:
    """Run the command with the arguments of the process."""
    # The command handles interruption itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.command(["thalweg", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
