"""What Sphinx is told; ``python -m docs.site`` calls it on pages that it has laid out in ``build/site``."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from sphinx.addnodes import pending_xref
from sphinx.util.nodes import find_pending_xref_condition

import penstock

if TYPE_CHECKING:
    from docutils.nodes import document
    from sphinx.application import Sphinx

project = "Penstock"
author = "The authors of Penstock"
version = release = penstock.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
highlight_language = "none"
myst_heading_anchors = 6

add_module_names = False
autodoc_default_options = {"members": True, "undoc-members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
# Sphinx would look for the source of a class in the module that only shows it, which fails from Python 3.13 on.
autodoc_use_type_comments = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
toc_object_entries = False  # names have headings; with each method in it the navigation takes most of the build's time

html_theme = "furo"
html_title = "Penstock"
html_favicon = "../../src/penstock/_engine/rest/static/assets/penstock.svg"
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "native"


def setup(app: Sphinx) -> None:
    """Add what no setting says; Sphinx calls it."""
    app.connect("doctree-read", leave_builtins_alone)


def leave_builtins_alone(_: Sphinx, page: document) -> None:
    """Show Python's own types without a link: a class with an attribute ``bytes`` would be taken for the type."""
    for reference in list(page.findall(pending_xref)):
        if hasattr(builtins, reference.get("reftarget", "")):
            short = find_pending_xref_condition(reference, "resolved")
            reference.replace_self((short or reference).children)
