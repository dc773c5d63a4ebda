#!/usr/bin/env python3
"""Checks the pages of the repository: links, the index docs/README.md, and sizes.

tests/docs/limits.json has the limits that are not met yet; they may only fall. --update lowers them to the present counts.

usage: pages_test.py ROOT [--update]
"""
import json
import re
import sys
from pathlib import Path

from blocks import PageError, anchors_of, blocks_of, links_of, pages

INDEX = "docs/README.md"
LIMITS = "tests/docs/limits.json"
MAX_LINES = 400
TARGET_WORDS = 45_000
RECORDS = "docs/gpu-results/"  # generated pages: one per run and device, and their index
GENERATED = ("docs/decisions/README.md", "docs/performance.md")  # their words do not count
GENERATED_PART = re.compile(r"<!-- locks: begin .*?<!-- locks: end -->", re.S)


def broken_links(root, page):
    for line, target in links_of(root, page):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (root / page).parent / path if path else root / page
        if not file.exists():
            yield f"{page}:{line}: link to {target}: no such file"
        elif anchor and file.suffix == ".md" and anchor not in anchors_of(file):
            yield f"{page}:{line}: link to {target}: {path or page} has no such heading"


def unlisted_pages(root):
    """Pages of docs/ that the index links neither itself nor through their directory or its README.md."""
    linked = set()
    for _, target in links_of(root, INDEX):
        path = target.partition("#")[0]
        if path and "://" not in path:
            linked.add((root / INDEX).parent.joinpath(path).resolve())
    for page in pages(root):
        file = (root / page).resolve()
        if not page.startswith("docs/") or page == INDEX or file in linked:
            continue
        if file.parent in linked or file.parent / "README.md" in linked:
            continue
        yield f"{page}: not linked from {INDEX}"


def measure(root):
    words = blocks = 0
    long_pages = {}
    for page in pages(root):
        if page.startswith(RECORDS):
            continue
        text = (root / page).read_text(encoding="utf-8")
        if page.startswith("docs/") and page not in GENERATED:
            words += len(GENERATED_PART.sub("", text).split())
        if len(text.splitlines()) > MAX_LINES:
            long_pages[page] = len(text.splitlines())
        blocks += sum(1 for block in blocks_of(root, page) if block.language == "")
    return {"words_in_docs": words, "blocks_without_language": blocks, "lines_of_long_pages": long_pages}


def oversize(present, limits):
    for name, advice in (("words_in_docs", f"shorten pages; the target is {TARGET_WORDS}"),
                         ("blocks_without_language", "give the block a language: sh, console, text, ...")):
        if present[name] > limits[name]:
            yield f"{name}: {present[name]}, at most {limits[name]}; {advice}"
    for page, lines in present["lines_of_long_pages"].items():
        allowed = limits["lines_of_long_pages"].get(page, MAX_LINES)
        if lines > allowed:
            yield f"{page}: {lines} lines, at most {allowed}; split the page or shorten it"


def lowered(present, limits):
    kept = {page: min(lines, present["lines_of_long_pages"][page]) for page, lines in limits["lines_of_long_pages"].items()
            if page in present["lines_of_long_pages"]}
    return {"words_in_docs": min(present["words_in_docs"], limits["words_in_docs"]),
            "blocks_without_language": min(present["blocks_without_language"], limits["blocks_without_language"]),
            "lines_of_long_pages": kept}


def main():
    root = Path(sys.argv[1])
    limits = json.loads((root / LIMITS).read_text(encoding="utf-8"))
    present = measure(root)
    if "--update" in sys.argv[2:]:
        (root / LIMITS).write_text(json.dumps(lowered(present, limits), indent=2) + "\n", encoding="utf-8")
        limits = lowered(present, limits)
    faults = [fault for page in pages(root) for fault in broken_links(root, page)]
    faults += [*unlisted_pages(root), *oversize(present, limits)]
    print("\n".join(faults))
    print(f"pages: {len(pages(root))} pages, {present['words_in_docs']} words in docs/ (target {TARGET_WORDS}), {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PageError as error:
        sys.exit(str(error))
