"""Builds the site in ``build/site/html``: ``python -m docs.site``, with ``--serve`` to show it.

A warning of Sphinx, a dead link and a public name without an entry fail the build.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import zlib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from docs.site.api import api_pages, missing_entries
from docs.site.doors import ROOT
from docs.site.links import dead_links
from docs.site.pages import lay_out

SITE = ROOT / "build" / "site"
HTML = SITE / "html"


def build(options: list[str]) -> int:
    """Build the site; return an exit code."""
    lay_out(SITE / "pages")
    places = ["-c", ROOT / "docs" / "site", "-d", SITE / "doctrees", SITE / "pages", HTML]
    # All pages are written, also those that are as they were: the titles of others stand on them.
    strict = ("-b", "html", "-W", "--keep-going", "-q", "-a", "-j", "2")
    command = [sys.executable, "-m", "sphinx", *strict, *options, *places]
    code = subprocess.call([str(part) for part in command])
    if code:
        return code
    problems = [f"dead link: {link}" for link in dead_links(HTML)]
    problems += [f"no entry in the reference: {name}" for name in missing_entries(api_pages(), _entries())]
    for problem in problems:
        print(problem, file=sys.stderr)
    pages = sum(1 for _ in HTML.rglob("*.html"))
    print(f"{HTML.relative_to(ROOT)}/index.html: {pages} pages, {len(problems)} problems")
    return int(bool(problems))


def _entries() -> set[str]:
    """Return the names that Sphinx has listed for other sites to link to: four lines, and then compressed ones."""
    listed = (HTML / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(listed).decode().splitlines()
    return {name for name, kind, *_ in (line.split(" ", 2) for line in lines) if kind.startswith("py:")}


def serve(port: int) -> None:
    """Show the site on this machine until Ctrl-C."""
    with ThreadingHTTPServer(("127.0.0.1", port), partial(SimpleHTTPRequestHandler, directory=HTML)) as server:
        print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()


def main() -> int:
    """Build the site, and show it if that is wanted."""
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="show the site when it is built")
    parser.add_argument("--port", type=int, default=8000)
    arguments, options = parser.parse_known_args()
    code = build(options)
    if code == 0 and arguments.serve:
        try:
            serve(arguments.port)
        except KeyboardInterrupt:
            return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
