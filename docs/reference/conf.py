"""How Sphinx builds the reference of the Python package from its docstrings.

A page for a module is a file beside this one with ``automodule``; the index finds it by itself.
"""

import thalweg

project = "Thalweg"
author = "the authors of Thalweg"
version = release = thalweg.__version__

extensions = ["sphinx.ext.autodoc", "numpydoc"]
html_theme = "alabaster"
html_show_copyright = False

# What scikit-learn adds to every estimator is explained there.
autodoc_default_options = {"members": True, "exclude-members": "get_metadata_routing, set_fit_request, set_partial_fit_request, set_score_request"}
# Names are written as the docstrings write them, without the modules they are kept in.
add_module_names = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Results are dictionaries of scipy's; what these have is not ours to explain.
numpydoc_show_class_members = False

# Every reference that a docstring makes must lead somewhere.
nitpicky = True
