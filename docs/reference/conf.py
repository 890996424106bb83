"""Sphinx configuration of the reference of the Python package.

Each module has a page with ``automodule`` in this directory; the index includes all of them.
"""

import thalweg

project = "Thalweg"
author = "the authors of Thalweg"
version = release = thalweg.__version__

extensions = ["sphinx.ext.autodoc", "numpydoc"]
html_theme = "alabaster"
html_show_copyright = False

# Methods that scikit-learn adds to every estimator are documented there.
autodoc_default_options = {"members": True, "exclude-members": "get_metadata_routing, set_fit_request, set_partial_fit_request, set_score_request"}
# Names appear without their modules, as in the docstrings.
add_module_names = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Results are scipy dictionaries, whose methods are documented by scipy.
numpydoc_show_class_members = False

# Every reference in a docstring must have a target.
nitpicky = True
