"""Sphinx configuration of the documentation site, built by `make docs`."""

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

project = "numalign"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser"]
exclude_patterns = ["README.md"]
nitpicky = True

# Code hosts generate the same anchors for headings, so links work there and on the site.
myst_heading_anchors = 4
myst_html_meta = {"description": "numalign: NUMA alignment for Kubernetes pods"}

html_theme = "furo"
html_title = f"numalign {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1a5fb4", "color-brand-content": "#1a5fb4"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f8", "color-brand-content": "#8ab4f8"},
}

linkcheck_timeout = 20
linkcheck_workers = 4

_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<path>(?:\.\./)+[^)#\s]+)(?:#[^)\s]*)?\)")


def name_sources(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace links to files outside docs with the paths of these files: the site contains only the pages."""
    folder = (Path(app.srcdir) / page).parent

    def named(link: re.Match[str]) -> str:
        target = (folder / link["path"]).resolve()
        if target.is_relative_to(HERE) or not target.exists():
            return link[0]
        return f"{link['text']} (`{target.relative_to(ROOT)}`)"

    source[0] = _LINK.sub(named, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register `name_sources`; Sphinx calls this function once."""
    app.connect("source-read", name_sources)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
