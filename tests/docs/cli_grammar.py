"""The commands and flags of the program `mobula`, read from its help, and a check of command lines against them."""
import re
import subprocess

FLAG = re.compile(r"^-{1,2}[A-Za-z][\w-]*")
# Words that the help does not show: commands and flags that Mobula uses itself, and flags before the command.
INTERNAL_COMMANDS = {"gpu-libraries", "gpu-probe", "gpu-trial", "job-shim", "job-start", "job-warden"}
UNLISTED_FLAGS = {(): {"--color", "--version"}, ("start",): {"--check-only"}}


class Grammar:
    def __init__(self, mobula):
        self._mobula = mobula
        self._known = {}

    def fault(self, words):
        """A description of the first unknown word of a command line that begins with `mobula`; None if all are known."""
        words = words[1:]
        if "--" in words:
            inner = words[words.index("--") + 1:]
            words = words[:words.index("--")]
            if inner and inner[0] == "mobula":
                fault = self.fault(inner)
                if fault:
                    return fault
        path = []
        commands, flags = self._help(path)
        for word in words:
            if FLAG.match(word):
                name = word.partition("=")[0]
                if name not in flags and not self._joined_short_flag(name, flags):
                    return f"'{' '.join(['mobula', *path])}' has no flag {name}"
            elif commands and re.match(r"^[a-z][a-z-]*$", word):
                if not path and word in INTERNAL_COMMANDS:
                    return None
                if word not in commands:
                    return f"'{' '.join(['mobula', *path])}' has no command '{word}'"
                if path == ["help"] or path == ["man"]:
                    break
                path.append(word)
                commands, flags = self._help(path)
        return None

    @staticmethod
    def _joined_short_flag(name, flags):
        return not name.startswith("--") and name[:2] in flags

    def _help(self, path):
        key = tuple(path)
        if key not in self._known:
            shown = subprocess.run([self._mobula, "help", *path], capture_output=True, text=True, timeout=30, check=False)
            assert shown.returncode == 0, f"mobula help {' '.join(path)}: {shown.stderr}"
            commands, flags = parse(shown.stdout)
            self._known[key] = (commands, flags | UNLISTED_FLAGS.get(key, set()))
            if key == ("symmetric",):  # it passes other flags to `start`
                self._known[key] = (set(), self._known[key][1] | self._help(["start"])[1])
        return self._known[key]


def parse(text):
    """The subcommands and the flags in the output of `mobula help COMMAND`."""
    commands, flags, section = set(), set(), ""
    for line in text.splitlines():
        if re.match(r"^\S.*:$", line):
            section = line
        elif section == "Commands:" and (found := re.match(r"^  ([a-z][a-z-]*)(?:\s|$)", line)):
            commands.add(found.group(1))
        elif re.match(r"^  +-", line):  # flags and values, then two blanks and the description
            row = line if section != "Options:" else re.split(r"(?<=\S)  ", line, maxsplit=1)[0]
            flags |= set(re.findall(r"(?<![\w-])(-{1,2}[A-Za-z][\w-]*)", row))
    return commands, flags | {"--help", "-h"}
