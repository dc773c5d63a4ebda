#!/usr/bin/env python3
"""Checks the language of comments, messages, names, and documents against docs/glossary.md.

The patterns come from tools/prose_patterns.txt. Each directory has a count of findings per pattern in
tools/prose_baseline.json. The check fails if a count rises, and prints the findings of that directory and pattern.

usage: check_prose.py [--root DIR] [--update | --list | PATH...]
  --update  write the present counts; fails if the total of any pattern rises
  --list    print every finding
  PATH...   print the findings in these files
"""

import argparse
import collections
import io
import json
import re
import subprocess
import sys
import tokenize
from pathlib import Path

PATTERNS = "tools/prose_patterns.txt"
BASELINE = "tools/prose_baseline.json"
# The tests of this program and of check_names.py contain the words that they reject.
EXEMPT = {"docs/glossary.md", PATTERNS, BASELINE, "LICENSE", "tests/tools/check_prose_test.py", "tests/tools/check_names_test.py"}
CODE = {".h", ".cc", ".cpp", ".cu", ".c"}
HASH_COMMENTS = {".cmake", ".yaml", ".yml"}
MAX_WORDS = 30           # words in a sentence
MAX_CONTRACT_LINES = 8   # lines of the comment that opens a header
MIN_STRING = 15          # characters of a string literal that is checked
EXCERPT = 100            # characters of a printed finding

Pattern = collections.namedtuple("Pattern", "name scope regex advice")
Text = collections.namedtuple("Text", "line scope words")
Finding = collections.namedtuple("Finding", "path line name excerpt advice")

TOKEN = re.compile(
    r'//(?P<line>[^\n]*)'
    r'|/\*(?P<block>.*?)\*/'
    r'|R"(?P<mark>[^(\s]*)\((?P<raw>.*?)\)(?P=mark)"'
    r'|(?P<string>"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*)'
    r"|(?<![\w'])'(?:\\.|[^'\\\n])+'", re.S)
TEST = re.compile(r'\b(?:TYPED_)?TEST(?:_[FP])?\s*\(\s*\w+\s*,\s*(\w+)\s*\)')


def load_patterns(text):
    patterns = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, expression, advice = (part.strip() for part in line.split(" :: "))
        name, _, scope = name.partition("@")
        patterns.append(Pattern(name, scope or "prose", re.compile(expression), advice))
    return patterns


def literal(token):
    """The characters of adjacent string literals, with escapes left as they are."""
    return "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', token))


def code_texts(source):
    """Comments joined to paragraphs, string literals, test names, and identifiers of a C++ source."""
    texts, comment, comment_line, last_line = [], [], 0, -2

    def flush():
        if comment:
            texts.append(Text(comment_line, "prose", " ".join(comment)))
        comment.clear()

    position, line = 0, 1
    code = []  # the source with comments and literals blanked, for names
    for token in TOKEN.finditer(source):
        line += source.count("\n", position, token.start())
        code.append(source[position:token.start()])
        code.append("\n" * token[0].count("\n") or " ")
        position = token.start()
        begin = source.rfind("\n", 0, token.start()) + 1
        alone = not source[begin:token.start()].strip()
        if token["line"] is not None:
            words = token["line"].strip()
            if not words or not alone or line != last_line + 1:
                flush()
            if words:
                if not comment:
                    comment_line = line
                comment.append(words)
            last_line = line if alone else -2
        else:
            flush()
            if token["block"] is not None:
                texts.append(Text(line, "prose", " ".join(token["block"].replace("*", " ").split())))
            elif token["raw"] is not None or token["string"] is not None:
                words = token["raw"] if token["raw"] is not None else literal(token["string"])
                if words.startswith("<?xml"):
                    words = ""  # data
                include = re.match(r'\s*#\s*include\b', source[begin:token.start()])
                before = source[max(0, token.start() - 120):token.start()]
                if re.search(r'\bfailure\(\s*(?:[\w:.>()-]+\s*,\s*)?(?:fmt::format\(\s*)?$', before):
                    texts.append(Text(line, "error", words))
                if not include and " " in words and len(words) >= MIN_STRING:
                    texts.append(Text(line, "prose", " ".join(words.split())))
        line += token[0].count("\n")
        position = token.end()
    flush()
    code.append(source[position:])
    blank = "".join(code)
    for test in TEST.finditer(blank):
        texts.append(Text(blank.count("\n", 0, test.start()) + 1, "test", test[1]))
    seen = set()
    for number, words in enumerate(blank.splitlines(), 1):
        for name in re.findall(r'[A-Za-z_]\w{2,}', words):
            if name not in seen:
                seen.add(name)
                texts.append(Text(number, "name", name))
    return texts


def hash_texts(source):
    """Comments of scripts, joined to paragraphs."""
    texts, comment, start = [], [], 0
    for number, line in enumerate(source.splitlines() + [""], 1):
        match = re.match(r'\s*#(?!!)\s?(.*)', line)
        if match and match[1].strip():
            start = number if not comment else start
            comment.append(match[1].strip())
        elif comment:
            texts.append(Text(start, "prose", " ".join(comment)))
            comment = []
    return texts


def string_text(line, words):
    """The text of a string literal, or none for a short one and for one without spaces."""
    words = " ".join(words.split())
    return [Text(line, "prose", words)] if " " in words and len(words) >= MIN_STRING else []


def python_texts(source):
    """Comments, docstrings, string literals, names, and test names of a Python source. Regular expressions are left out."""
    texts, strings, line, seen = hash_texts(source), [], 0, set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING:
            prefix, quote, words = re.fullmatch(r"(\w*)(\"{3}|'{3}|\"|')(.*)\2", token.string, re.S).groups()
            if len(quote) == 3:
                texts.extend(text._replace(line=token.start[0] + text.line - 1) for text in markdown_texts(words))
            elif not set(prefix.lower()) & {"r", "b"}:
                line = line if strings else token.start[0]
                strings.append(words)
                continue
        if token.type in (tokenize.NL, tokenize.COMMENT):
            continue
        texts.extend(string_text(line, "".join(strings)))
        strings.clear()
        if token.type == tokenize.NAME and len(token.string) >= 3 and token.string not in seen:
            seen.add(token.string)
            texts.append(Text(token.start[0], "name", token.string))
    for test in re.finditer(r"^[ \t]+def test_(\w+)", source, re.M):
        texts.append(Text(source.count("\n", 0, test.start(1)) + 1, "test", camel(test[1])))
    return texts


def camel(name):
    """`rejects_long_line` -> `RejectsLongLine`, the form for which the patterns of test names are written."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def shell_texts(source):
    """Comments and double-quoted texts of a shell script; variables count as one word."""
    texts = hash_texts(source)
    for number, line in enumerate(source.splitlines(), 1):
        if not line.lstrip().startswith("#"):
            for words in re.findall(r'"((?:[^"\\$]|\\.|\$\w+|\$\{\w+\}|\$[0-9@*#])*)"', line):
                texts.extend(string_text(number, re.sub(r'\$\{?[\w@*#]+\}?', "`x`", words)))
    return texts


def cmake_texts(source):
    """Comments and the texts of messages of a CMake file."""
    texts = hash_texts(source)
    for message in re.finditer(r'\bmessage\s*\(\s*\S+\s+"((?:[^"\\]|\\.)*)"', source):
        words = re.sub(r'\$\{[^}]*\}', "`x`", message[1])
        texts.extend(string_text(source.count("\n", 0, message.start(1)) + 1, words))
    return texts


def markdown_texts(source):
    """Paragraphs, list items, headings, and table cells outside code and outside `prose: off` to `prose: on`."""
    texts, paragraph, start, fenced, off = [], [], 0, False, False

    def flush():
        if paragraph:
            texts.append(Text(start, "prose", " ".join(paragraph)))
        paragraph.clear()

    for number, line in enumerate(source.splitlines() + [""], 1):
        words = line.strip()
        if words.startswith("```"):
            fenced = not fenced
            flush()
            continue
        if "<!-- prose: off -->" in words or "<!-- prose: on -->" in words:
            off = "<!-- prose: off -->" in words
        if fenced or off:
            continue
        if words.startswith("|"):
            flush()
            texts.extend(Text(number, "prose", cell.strip()) for cell in words.strip("|").split("|") if cell.strip(" -:"))
            continue
        item = re.match(r'(?:[-*+]|\d+\.|#+)\s+(.*)', words)
        if not words or item:
            flush()
        if words:
            if not paragraph:
                start = number
            paragraph.append(item[1] if item else words)
        if words.startswith("#"):
            flush()
    return texts


def sentences(words):
    return re.split(r'(?<=[.!?;:])\s+', words)


def contract(path, source):
    """The comment that opens a header: present, short, and with its thread rule."""
    opening = re.match(r'(?:(?:#pragma once|\s*)\n)*((?://[^\n]*\n)+)', source)
    if not opening:
        return "has no contract"
    lines = opening[1].splitlines()
    if len(lines) > MAX_CONTRACT_LINES:
        return f"contract of {len(lines)} lines"
    if not re.search(r'\bThread:', opening[1]):
        return "contract without 'Thread:'"
    return None


def texts_of(path, source):
    suffix = Path(path).suffix
    if suffix in CODE:
        return code_texts(source)
    if suffix == ".md":
        return markdown_texts(source)
    if suffix == ".py" or re.match(r"#!.*python", source):
        return python_texts(source)
    if suffix == ".sh" or re.match(r"#!.*sh\b", source):
        return shell_texts(source)
    if suffix == ".cmake" or Path(path).name == "CMakeLists.txt":
        return cmake_texts(source)
    if suffix in HASH_COMMENTS or source.startswith("#!"):
        return hash_texts(source)
    return []


def check_file(path, source, patterns):
    findings = []

    def add(line, name, excerpt, advice):
        findings.append(Finding(path, line, name, excerpt[:EXCERPT], advice))

    texts = [Text(0, "name", Path(path).stem), *texts_of(path, source)]
    for text in texts:
        words = re.sub(r'`[^`]*`', "`x`", text.words)
        for pattern in patterns:
            if pattern.scope == text.scope:
                for match in pattern.regex.finditer(words):
                    begin = max(0, match.start() - 30)
                    add(text.line, pattern.name, words[begin:begin + EXCERPT], pattern.advice)
        if text.scope == "prose":
            for sentence in sentences(words):
                if len(sentence.split()) > MAX_WORDS:
                    add(text.line, "long-sentence", sentence, f"at most {MAX_WORDS} words; one idea per sentence")
    if Path(path).suffix == ".h" and not path.startswith(("tests/", "bench/", "examples/", "deploy/gpu-check/")):
        fault = contract(path, source)
        if fault:
            add(1, "header-contract", fault, "purpose in one to three sentences, then 'Thread:'; at most eight lines")
    return findings


def tracked(root):
    names = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(name for name in names if name and name not in EXEMPT and (root / name).is_file())


def check_tree(root, paths, patterns):
    findings = []
    for path in paths:
        data = (root / path).read_bytes()
        if b"\0" not in data[:8192]:
            findings.extend(check_file(path, data.decode("utf-8", "replace"), patterns))
    return findings


def counts_of(findings):
    counts = collections.defaultdict(collections.Counter)
    for finding in findings:
        counts[str(Path(finding.path).parent)][finding.name] += 1
    return {directory: dict(sorted(names.items())) for directory, names in sorted(counts.items())}


def totals(counts):
    total = collections.Counter()
    for names in counts.values():
        total.update(names)
    return total


def print_findings(findings):
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.name}: {finding.excerpt} ({finding.advice})")


def risen(counts, baseline):
    return [(directory, name, baseline.get(directory, {}).get(name, 0), count)
            for directory, names in counts.items() for name, count in names.items()
            if count > baseline.get(directory, {}).get(name, 0)]


def update(root, counts, baseline):
    before, after = totals(baseline), totals(counts)
    higher = [name for name in after if baseline and after[name] > before[name]]
    for name in higher:
        print(f"check_prose: {name} rises from {before[name]} to {after[name]}; a total may only fall")
    if higher:
        return 1
    (root / BASELINE).write_text(json.dumps(counts, indent=1) + "\n")
    print(f"check_prose: {sum(after.values())} findings, {sum(before.values())} before")
    return 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("paths", nargs="*")
    arguments = parser.parse_args()
    root = arguments.root
    patterns = load_patterns((root / PATTERNS).read_text())
    findings = check_tree(root, arguments.paths or tracked(root), patterns)
    if arguments.list or arguments.paths:
        print_findings(findings)
        print(f"check_prose: {len(findings)} findings")
        return 0
    counts = counts_of(findings)
    file = root / BASELINE
    baseline = json.loads(file.read_text()) if file.exists() else {}
    if arguments.update:
        return update(root, counts, baseline)
    worse = risen(counts, baseline)
    for directory, name, before, count in worse:
        print_findings(f for f in findings if f.name == name and str(Path(f.path).parent) == directory)
        print(f"check_prose: {directory}: {name} rises from {before} to {count}")
    if worse:
        return 1
    print(f"check_prose: {len(findings)} findings, none added")
    return 0


if __name__ == "__main__":
    sys.exit(main())
