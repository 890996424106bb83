"""What has to be so before the first test."""

import os
import signal

# Before scipy is imported: scikit-learn then checks arrays of other libraries too, and skips nothing.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Who starts the tests in the background of a script hands down a deaf ear to Ctrl-C, and tests that press it would wait
# for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
