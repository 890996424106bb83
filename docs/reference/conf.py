"""Sphinx configuration for the reference of the Python package, which is built from docstrings.

To add a page for a module, add a file with ``automodule`` to this directory; the index includes it automatically.
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
# Show names without their modules, as the docstrings write them.
add_module_names = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Results are SciPy dictionaries, whose methods are documented there.
numpydoc_show_class_members = False

# Every cross-reference in a docstring must resolve.
nitpicky = True
