#!/usr/bin/env python3
"""deploy/gpu-check/prune_nccl.py on a small library: an ELF file with two sections of device code, made here.

    prune_nccl_test.py SCRIPT
"""

import os
import struct
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)
PTX, CODE = 1, 2


def entry(kind, arch, payload, header_size=64):
    header = struct.pack("<HHIQIIHHI", kind, 0x101, header_size, len(payload), len(payload), 0, 0, 0, arch)
    return header.ljust(header_size, b"\x11") + payload


def container(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(**contents):
    """A 64-bit ELF file with sections of these names (dot and underscores as in `names`)."""
    names = {"linked": b".nv_fatbin", "relocatable": b"__nv_relfatbin", "text": b".text"}
    table = b"\0" + b"".join(names[key] + b"\0" for key in contents) + b".shstrtab\0"
    rows, body, at = [struct.pack("<IIQQQQIIQQ", *[0] * 10)], b"", 64
    for key, content in list(contents.items()) + [("shstrtab", table)]:
        name = table.index(names.get(key, b".shstrtab") + b"\0")
        rows.append(struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, len(content), 0, 0, 8, 0))
        body += content.ljust(-(-len(content) // 8) * 8, b"\0")
        at = 64 + len(body)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at, 0, 64, 0, 0, 64,
                                                                 len(rows), len(rows) - 1)
    return header + body + b"".join(rows)


class PruneNcclTest(unittest.TestCase):
    def prune(self, content, arch="90"):
        """(exit code, output text, OUTPUT or None)"""
        with tempfile.TemporaryDirectory() as directory:
            source, target = os.path.join(directory, "in.so"), os.path.join(directory, "out.so")
            with open(source, "wb") as file:
                file.write(content)
            end = subprocess.run([sys.executable, SCRIPT, source, target, arch], capture_output=True, text=True, check=False)
            if not os.path.exists(target):
                return end.returncode, end.stdout + end.stderr, None
            with open(target, "rb") as file:
                return end.returncode, end.stdout + end.stderr, file.read()

    def test_keeps_one_architecture_and_all_headers(self):
        def linked(old, ptx):
            return (container(entry(CODE, 80, old(b"A" * 40)), entry(CODE, 90, b"B" * 24), entry(PTX, 120, ptx(b"C" * 8), 96)) +
                    b"\0" * 8 + container(entry(CODE, 90, b"D" * 16, 112), entry(CODE, 100, old(b"E" * 48))))

        def same(code):
            return code

        def zeros(code):
            return bytes(len(code))

        def whole(change):
            return library(text=b"code of the host", linked=linked(change, change),
                           relocatable=container(entry(CODE, 90, change(b"F" * 32)), entry(CODE, 80, change(b"G" * 8))))

        code, text, made = self.prune(whole(same))
        self.assertEqual((code, made), (0, whole(zeros)), text)
        self.assertIn(".nv_fatbin: 40 bytes kept, 96 removed", text)
        self.assertIn("__nv_relfatbin: 0 bytes kept, 40 removed", text)

    def test_refuses_a_library_without_code_for_the_architecture(self):
        content = library(linked=container(entry(CODE, 80, b"A" * 8), entry(PTX, 90, b"B" * 8)))
        code, text, made = self.prune(content)
        self.assertEqual((code, made), (1, None))
        self.assertIn("no machine code for architecture 90, only for [80]", text)

    def test_refuses_malformed_files(self):
        whole = container(entry(CODE, 90, b"A" * 8))
        long_entry = bytearray(whole)
        struct.pack_into("<Q", long_entry, 16 + 8, 4096)  # size of the payload
        long_container = bytearray(whole)
        struct.pack_into("<Q", long_container, 8, 4096)
        no_header = bytearray(whole)
        struct.pack_into("<I", no_header, 16 + 4, 0)  # an entry that never ends
        for content, part in ((b"no library", "no 64-bit"), (library(text=b"code"), "no section .nv_fatbin"),
                              (library(linked=b"other bytes here"), "magic"), (library(linked=whole[:-16]), "container up to"),
                              (library(linked=bytes(long_entry)), "entry up to"), (library(linked=bytes(no_header)), "entry up to"),
                              (library(linked=bytes(long_container)), "container up to"),
                              (library(linked=whole)[:-64], "a header of 64 bytes passes the end")):
            code, text, made = self.prune(content)
            self.assertEqual((code, made), (1, None), text)
            self.assertIn(part, text)

    def test_explains_its_use(self):
        code, text, made = self.prune(b"", "sm_90")
        self.assertEqual((code, made), (2, None))
        self.assertIn("prune_nccl.py INPUT OUTPUT ARCH", text)


if __name__ == "__main__":
    unittest.main()
