#!/usr/bin/env python3
"""Compares tests/contract/rules.md with docs/api.md and with the tests.

usage: check_rules.py ROOT [--list]

Every statement of the page has one row in the table, in the order of the page: an id, the beginning of the statement,
and at least one test. The tests named in a row must exist in the sources under tests/. So must the tests in the tables
of docs/known-reports.md and tests/ray/parity.md. --list prints the statements, with new ids for those without a row.
"""
import pathlib
import re
import sys

PAGE = "docs/api.md"
TABLE = "tests/contract/rules.md"
NAMING = ("docs/known-reports.md", "tests/ray/parity.md")  # pages whose tables name tests
SHOWN = 72  # characters of a statement in its row


def plain(text):
    """The text as one line, without table markup."""
    return " ".join(text.replace("\\|", "|").split())


def statements(page):
    """(section, key, statement) in order. A statement is a sentence of a paragraph, bullet, or table row, or a line
    of a declaration. Bold lines and lead-ins that end with a colon are not statements."""
    section, code, paragraph, found = "0", False, [], []
    lines = page.splitlines()

    def add(key, text):
        text = plain(text)
        if not text or text.endswith(":") or re.fullmatch(r"\*\*[^*]*\*\*", text):
            return
        for sentence in re.split(r"(?<=[.?!])\s+(?=[A-Z`.*])", text):
            found.append((section, key, sentence))

    def flush():
        if paragraph:
            add(words_of(paragraph[0]), " ".join(paragraph))
            paragraph.clear()

    for number, line in enumerate(lines):
        if line.startswith("```"):
            flush()
            code = not code
        elif code:
            if line.strip() and section != "1":
                found.append((section, words_of(line), plain(line)))
        elif heading := re.match(r"#+ (?:(\d+(?:\.\d+)?)\.? )?", line):
            flush()
            section = heading.group(1) or section
        elif line.startswith("|"):
            flush()
            header = number + 1 < len(lines) and re.fullmatch(r"\|[\s:|-]*\|", lines[number + 1])
            if header or re.fullmatch(r"\|[\s:|-]*\|", line):
                continue
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            add(words_of(cells[0]), ": ".join(cell for cell in cells if cell).rstrip(":"))
        elif bullet := re.match(r"\s*- (.*)", line):
            flush()
            add(words_of(bullet.group(1)), bullet.group(1))
        elif line.strip():
            paragraph.append(line.strip())
        else:
            flush()
    flush()
    return found


def words_of(text):
    """The key of an id: the first code in the text, or its first words."""
    if text.isdigit():
        return f"exit-{text}"
    stop = {"struct", "using", "enum", "class", "Cluster", "mobula", "the", "a", "an", "its", "vector", "of", "h", "is", "an"}
    for code in re.findall(r"`([^`]*)`", text):
        names = [name.lower() for name in re.findall(r"[A-Za-z_][A-Za-z0-9_]+", code) if name not in stop]
        if names:
            return names[0]
    names = [name.lower() for name in re.findall(r"[A-Za-z0-9_]+", re.sub(r"`[^`]*`", "", text)) if name not in stop]
    return "-".join(names[:3])


def read_table(text):
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and re.match(r"\d", cells[0]):
            rows.append(cells)
    return rows


def tests_of(root):
    """Names of all tests: SUITE.NAME of GoogleTest, CLASS.test_name of Python, whole ctest entries, and paths of scripts."""
    names = set()
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix == ".cc":
            text = path.read_text(errors="replace")
            for suite, name in re.findall(r"^\s*(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+)\s*,\s*(\w+)\s*\)", text, re.M):
                names.add(f"{suite}.{name}")
        elif path.suffix == ".sh":
            names.add(path.relative_to(root).as_posix())
        elif path.suffix == ".py":
            suite = ""
            for line in path.read_text(errors="replace").splitlines():
                if found := re.match(r"class (\w+)", line):
                    suite = found.group(1)
                elif found := re.match(r"\s+def (test_\w+)", line):
                    names.add(f"{suite}.{found.group(1)}")
    for path in [*(root / "tests").rglob("CMakeLists.txt"), root / "bench/CMakeLists.txt"]:
        names.update(re.findall(r"(?:add_test\(NAME |mobula_test\()([\w.]+)", path.read_text()))
    return names


def begins(statement):
    return statement if len(statement) <= SHOWN else statement[:SHOWN].rstrip() + "…"


def faults(page, table, tests):
    """The faults, one line each."""
    found = []
    rows = read_table(table)
    expected = statements(page)
    seen = set()
    for identity, text, named, difference in rows:
        if identity in seen:
            found.append(f"{TABLE}: {identity}: this id has two rows")
        seen.add(identity)
        named = re.findall(r"`([^`]+)`", named)
        if not named:
            found.append(f"{TABLE}: {identity}: no test; name one that checks the rule")
        for test in named:
            if test not in tests:
                found.append(f"{TABLE}: {identity}: no test `{test}` exists under tests/")
    texts = [plain(row[1]) for row in rows]
    wanted = [plain(begins(statement)) for _, _, statement in expected]
    for text in wanted:
        if text not in texts:
            found.append(f"{PAGE}: no row of {TABLE} for: {text}")
    for row, text in zip(rows, texts):
        if text not in wanted:
            found.append(f"{TABLE}: {row[0]}: {PAGE} does not say: {text}")
        elif not row[0].startswith(next(section for (section, _, _), said in zip(expected, wanted) if said == text) + "."):
            found.append(f"{TABLE}: {row[0]}: the id does not begin with the section of the rule")
    if not found and texts != wanted:
        found.append(f"{TABLE}: the rows are not in the order of {PAGE}")
    return found


def faults_of_names(path, text, tests):
    """Faults for tests that a table of the page names and that do not exist."""
    found = []
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        for name in re.findall(r"`(\w+\.\w+)`", line):
            if name not in tests and not name.endswith((".cc", ".h", ".py", ".json", ".md", ".proto")):
                found.append(f"{path}: no test `{name}` exists under tests/")
    return found


def listing(page, table):
    """Rows for all statements: the rows of the table, and new ones."""
    known = {plain(row[1]): row for row in read_table(table)}
    used = {row[0] for row in known.values()}
    for section, key, statement in statements(page):
        text = begins(statement)
        row = known.get(plain(text))
        if row is None:
            number = 1
            while f"{section}.{key}-{number}" in used:
                number += 1
            row = [f"{section}.{key}-{number}", text, "", ""]
            used.add(row[0])
        yield "| " + " | ".join([row[0], text.replace("|", "\\|"), row[2], row[3]]) + " |"


def main():
    root = pathlib.Path(sys.argv[1])
    page = (root / PAGE).read_text()
    table_path = root / TABLE
    table = table_path.read_text() if table_path.exists() else ""
    if "--list" in sys.argv:
        print("\n".join(listing(page, table)))
        return 0
    tests = tests_of(root)
    found = faults(page, table, tests)
    for path in NAMING:
        found += faults_of_names(path, (root / path).read_text(), tests)
    for line in found:
        print(line)
    rows = read_table(table)
    print(f"{len(rows)} rules, {sum(1 for row in rows if row[3])} known differences, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
