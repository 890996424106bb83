"""``python -m thalweg``, and the ``thalweg`` command that the package installs: the same as the program's."""

from __future__ import annotations

import signal
import sys

from thalweg import _core


def main() -> int:
    """Runs the command with the arguments of the process."""
    # The command has its own way to end well when it is interrupted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.command(["thalweg", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
