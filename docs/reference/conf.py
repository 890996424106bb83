"""How Sphinx builds the reference of the Python package from its docstrings.

A page for a module is a file beside this one with ``automodule``; the index finds it by itself.
"""

import thalweg

project = "Thalweg"
author = "the authors of Thalweg"
version = release = thalweg.__version__

extensions = ["sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_show_copyright = False

autodoc_default_options = {"members": True, "show-inheritance": True}
# Names are written as the docstrings write them, without the modules they are kept in.
add_module_names = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Results are dictionaries of scipy's; what these have is not ours to explain.
numpydoc_show_class_members = False

# Every reference that a docstring makes must lead somewhere.
nitpicky = True
# Classes of others, which are shown as bases.
nitpick_ignore_regex = [("py:.*", r"(scipy|sklearn|torch|numpy|collections|builtins)\..*"), ("py:class", r"OptimizeResult|object")]
