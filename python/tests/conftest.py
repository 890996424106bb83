"""Set before scipy is imported: scikit-learn then checks arrays of other libraries too, and skips nothing."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")
