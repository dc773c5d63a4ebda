#!/usr/bin/env python3
"""Removes the device code of all GPU architectures but one from an NCCL library.

    prune_nccl.py INPUT OUTPUT ARCH      ARCH: compute capability without the dot, such as 90

OUTPUT is a copy of INPUT (libnccl.so.2) of the same size and layout. Zeros replace the code of other architectures, so
that a compressed OUTPUT is small; `strip --strip-unneeded OUTPUT` removes the symbols. OUTPUT works on GPUs of ARCH alone.

Two sections have device code. Both are sequences of containers, aligned to 8 bytes:

    container   magic 0xBA55ED50, version (16 bits), size of this header (16), size of the entries after it (64)
    entry       kind (16; 1: PTX, 2: machine code), version (16), size of this header (32). Then size of the payload
                (64), 8 bytes, minor and major version (16 each), architecture (32), further fields up to the header's size

`.nv_fatbin` has the code that the driver loads: payloads of other architectures become zeros. `__nv_relfatbin` has the
code before the device link. The driver reads it only if `.nv_fatbin` has no code for the GPU, so all its payloads become
zeros. Headers stay as they are.

Exit code 0; 1 if INPUT is no such library or has no machine code for ARCH; 2 for wrong use.
"""

import struct
import sys

CONTAINER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQ8xHHI")
MAGIC = 0xBA55ED50
MACHINE_CODE = 2
LINKED, RELOCATABLE = ".nv_fatbin", "__nv_relfatbin"


class Malformed(Exception):
    """The bytes are not what the format allows; the text has the place."""


def unpack(layout, content, at, end):
    """The fields of `layout` at `at`, which end before `end`."""
    if at + layout.size > end:
        raise Malformed(f"offset {at}: a header of {layout.size} bytes passes the end at {end}")
    return layout.unpack_from(content, at)


def sections(content):
    """Name -> (offset, size) of each section of a 64-bit little-endian ELF file."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise Malformed("offset 0: no 64-bit little-endian ELF file")
    header = unpack(struct.Struct("<40xQ10xHHH"), content, 0, len(content))
    table, size, count, names = header
    layout = struct.Struct("<I20xQQ24x")
    rows = [unpack(layout, content, table + i * size, len(content)) for i in range(count)]
    if names >= count:
        raise Malformed(f"section names: index {names} of {count} sections")
    found = {}
    for name, at, length in rows:
        begin = rows[names][1] + name
        found[bytes(content[begin:content.find(b"\0", begin)]).decode("ascii", "replace")] = (at, length)
    return found


def prune(content, begin, end, keep):
    """Zeros the payloads in content[begin:end] for which keep(kind, arch) is false; returns (kept, removed) as dicts from
    (kind, arch) to bytes."""
    kept, removed = {}, {}
    at = begin
    while at < end:
        if not any(content[at:min(at + 8, end)]):  # padding between containers
            at += 8
            continue
        magic, _, header_size, size = unpack(CONTAINER, content, at, end)
        if magic != MAGIC:
            raise Malformed(f"offset {at}: magic {magic:#x}, expected {MAGIC:#x}")
        entry, last = at + header_size, at + header_size + size
        if header_size < CONTAINER.size or last > end:
            raise Malformed(f"offset {at}: a container up to {last} in a section up to {end}")
        while entry < last:
            kind, _, entry_header, payload, _, _, arch = unpack(ENTRY, content, entry, last)
            code, after = entry + entry_header, entry + entry_header + payload
            if entry_header < ENTRY.size or after > last:
                raise Malformed(f"offset {entry}: an entry up to {after} in a container up to {last}")
            counts = kept if keep(kind, arch) else removed
            counts[kind, arch] = counts.get((kind, arch), 0) + payload
            if counts is removed:
                content[code:after] = bytes(payload)
            entry = after
        at = last
    return kept, removed


def prune_library(content, arch):
    """Prunes both sections in place; returns lines that name the bytes kept and removed."""
    found = sections(content)
    if LINKED not in found:
        raise Malformed(f"no section {LINKED}")
    lines = []
    for name, keep in ((LINKED, lambda _, each: each == arch), (RELOCATABLE, lambda *_: False)):
        if name not in found:
            continue
        at, size = found[name]
        kept, removed = prune(content, at, min(at + size, len(content)), keep)
        if name == LINKED and (MACHINE_CODE, arch) not in kept:
            present = sorted({each for kind, each in removed if kind == MACHINE_CODE})
            raise Malformed(f"{name}: no machine code for architecture {arch}, only for {present}")
        lines.append(f"{name}: {sum(kept.values())} bytes kept, {sum(removed.values())} removed")
    return lines


def main(words):
    if len(words) != 3 or not words[2].isdecimal():
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    try:
        with open(words[0], "rb") as file:
            content = bytearray(file.read())
        lines = prune_library(content, int(words[2]))
        with open(words[1], "wb") as file:
            file.write(content)
    except (Malformed, OSError) as error:
        print(f"prune_nccl.py: prune {words[0]}: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
