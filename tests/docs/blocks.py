"""Reads pages: their fenced blocks, the shell commands in them, and their links. CONTRIBUTING.md describes the marks of blocks."""
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^\s*```(.*)$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
EXIT_CODE = re.compile(r"#\s*exit code (\d+)\s*$")
OPERATORS = {";", "&&", "||", "|", "&", "(", ")", "|&", ";;", "<", ">", ">>"}


class PageError(Exception):
    """A page that breaks the rules; the text begins with the page and the line."""


@dataclass
class Command:
    line: int
    text: str
    code: int = 0  # expected exit code
    output: list = field(default_factory=list)  # lines that a transcript shows


@dataclass
class Block:
    page: str  # path from the root of the repository
    line: int  # of the opening fence
    language: str
    mark: str
    lines: list

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    @property
    def runs(self):
        return self.language in ("sh", "console") and not self.mark

    def commands(self):
        """The commands of a block in `sh`, `console`, or no language; of the last only those of mobula."""
        if self.language == "sh":
            return joined(self.line, self.lines)
        if self.language == "console":
            return transcript(self.line, self.lines)
        if self.language == "":
            bare = [(number, re.sub(r"^\s*\$ ", "", line)) for number, line in enumerate(self.lines, self.line + 1)]
            return [Command(number, line) for number, line in bare if line.startswith("mobula ")]
        return []


def joined(first, lines):
    commands, begin, text = [], None, ""
    for number, line in enumerate(lines, first + 1):
        begin = begin or number
        text += line[:-1] if line.endswith("\\") else line
        if line.endswith("\\"):
            continue
        if text.strip() and not text.lstrip().startswith("#"):
            commands.append(command_of(begin, text))
        begin, text = None, ""
    return commands


def transcript(first, lines):
    commands = []
    for number, line in enumerate(lines, first + 1):
        if line.startswith("$ "):
            commands.append(command_of(number, line[2:]))
        elif commands:
            commands[-1].output.append(line)
    return commands


def command_of(line, text):
    code = EXIT_CODE.search(text)
    return Command(line, text.strip(), int(code.group(1)) if code else 0)


def pages(root):
    """The pages whose blocks are checked, as paths from the root."""
    root = Path(root)
    found = [root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    found += sorted((root / "docs").rglob("*.md")) + sorted((root / "deploy").rglob("*.md"))
    return [path.relative_to(root).as_posix() for path in found if path.is_file()]


def blocks_of(root, page):
    blocks, opened = [], None
    for number, line in enumerate((Path(root) / page).read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if not fence:
            if opened:
                opened.lines.append(line)
            continue
        if opened:
            blocks.append(opened)
            opened = None
            continue
        language, _, mark = fence.group(1).strip().partition(" ")
        opened = Block(page, number, language, mark.strip(), [])
        check_mark(opened)
    if opened:
        raise PageError(f"{opened.place}: the block has no end")
    return blocks


def check_mark(block):
    allowed = {"sh": r"no-run: .+", "console": r"no-run: .+", "cpp": r"body|program|excerpt: \S+"}
    pattern = allowed.get(block.language)
    if block.mark and pattern and not re.fullmatch(pattern, block.mark):
        raise PageError(f"{block.place}: mark '{block.mark}' of a {block.language} block; expected {pattern}")


def text_outside_blocks(root, page):
    inside, lines = False, []
    for line in (Path(root) / page).read_text(encoding="utf-8").splitlines():
        if FENCE.match(line):
            inside = not inside
            line = ""
        lines.append("" if inside else line)
    return lines


def links_of(root, page):
    """Pairs of line and target, outside blocks and inline code."""
    found = []
    for number, line in enumerate(text_outside_blocks(root, page), 1):
        found += [(number, target) for target in LINK.findall(re.sub(r"`[^`]*`", "`x`", line))]
    return found


def anchors_of(path):
    """The anchors of a page's headings, as forges make them."""
    anchors, inside = set(), False
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        inside = inside != bool(FENCE.match(line))
        heading = re.match(r"#+\s+(.*)", line)
        if heading and not inside:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).replace("`", "").lower()
            anchors.add(re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-"))
    return anchors


def simple_commands(text):
    """The words of each simple command of a shell line, without assignments before it."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words, found = [], []
    for word in list(lexer) + [";"]:
        if word in OPERATORS or set(word) <= set("();<>|&"):
            if words:
                found.append(words)
            words = []
        elif words or not re.match(r"^[A-Za-z_]\w*=", word):
            words.append(word)
    return found
