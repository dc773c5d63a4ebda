#!/usr/bin/env python3
"""Checks the pages of docs/decisions and generates their index, docs/decisions/README.md.

A page begins with "# NNNN Title", "Status: accepted" or "Status: superseded by NNNN", and "Date: YYYY-MM-DD". A line
"Supersedes: NNNN, NNNN" names decisions whose pages are removed. An accepted page has the sections Context, Decision, Consequences, and Revisit when, in this order. The file is named
NNNN-title-in-kebab-case.md.

usage: decision_index.py [--root DIR] [--check]
  Without --check, writes the index. Both forms fail if a page has a fault; --check also fails if the index is out of
  date.
"""

import argparse
import re
import sys
from pathlib import Path

DIRECTORY = "docs/decisions"
INDEX = "README.md"
SECTIONS = ["Context", "Decision", "Consequences", "Revisit when"]
MAX_LINES = 400
HEADER = """# Decisions

This index, which `tools/decision_index.py` generates, lists for contributors the decisions of lasting effect, with their reasons, their price, and the condition that reopens each.

"""


def kebab(title):
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"['`]", "", title.lower())).strip("-")


def field(text, name):
    match = re.search(rf"^{name}: (.*)$", text, re.M)
    return match[1].strip() if match else None


def read_page(path):
    """The row of a page for the index, and its faults."""
    text = path.read_text(encoding="utf-8")
    faults = []
    heading = re.match(r"# (\d{4}) (\S.*)\n", text)
    number, title = (heading[1], heading[2].strip()) if heading else (path.name[:4], "")
    status, date = field(text, "Status"), field(text, "Date")
    if not heading:
        faults.append("the first line is not '# NNNN Title'")
    elif path.name != f"{number}-{kebab(title)}.md":
        faults.append(f"title and file name disagree: expected {number}-{kebab(title)}.md")
    if not re.fullmatch(r"accepted|superseded by \d{4}", status or ""):
        faults.append("no line 'Status: accepted' or 'Status: superseded by NNNN'")
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date or ""):
        faults.append("no line 'Date: YYYY-MM-DD'")
    sections = re.findall(r"^## (.*)$", text, re.M)
    if status == "accepted" and sections != SECTIONS:
        faults.append(f"sections are {', '.join(sections) or 'missing'}; expected {', '.join(SECTIONS)}")
    lines = text.count("\n")
    if lines > MAX_LINES:
        faults.append(f"{lines} lines, limit {MAX_LINES}")
    supersedes = re.findall(r"\d{4}", field(text, "Supersedes") or "")
    row = {"number": number, "title": title, "status": status, "date": date, "file": path.name, "supersedes": supersedes}
    return row, faults


def read_pages(directory):
    rows, faults = [], []
    for path in sorted(directory.glob("*.md")):
        if path.name != INDEX:
            row, found = read_page(path)
            rows.append(row)
            faults.extend(f"{path.name}: {fault}" for fault in found)
    numbers = [number for row in rows for number in [row["number"], *row["supersedes"]]]
    faults.extend(f"{number}: two decisions have this number" for number in sorted(set(numbers)) if numbers.count(number) > 1)
    for row in rows:
        target = re.fullmatch(r"superseded by (\d{4})", row["status"] or "")
        if target and target[1] not in numbers:
            faults.append(f"{row['file']}: superseded by {target[1]}, which has no page")
    return rows, faults


def index_of(rows):
    return HEADER + "".join(line_of(row) for row in rows)


def line_of(row):
    status = "" if row["status"] == "accepted" else f", {row['status']}"
    included = f", supersedes {', '.join(row['supersedes'])}" if row["supersedes"] else ""
    return f"- [{row['number']} {row['title']}]({row['file']}){status}{included}\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    directory = arguments.root / DIRECTORY
    rows, faults = read_pages(directory)
    index = directory / INDEX
    text = index_of(rows)
    if arguments.check:
        if not index.is_file() or index.read_text(encoding="utf-8") != text:
            faults.append(f"{INDEX}: out of date; run tools/decision_index.py")
    else:
        index.write_text(text, encoding="utf-8")
    for fault in faults:
        print(f"decision_index: {DIRECTORY}/{fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
