"""Present so that pytest puts this directory on ``sys.path``, from which the tests import ``comparison`` and ``compare``."""
