"""PyTorch under a preloaded libcuda.so.1 that enforces a limit (MOBULA_INTERCEPT_LIMIT): one part per process.
Prints one JSON line per finding; exits with 77 if Python has no PyTorch with a GPU.
Usage: intercept_check.py memory|segments|async|graphs|triton|others"""
import json
import os
import sys


def note(**members):
    print(json.dumps(members), flush=True)


def until_out_of_memory(torch):
    """The bytes that 32 MiB tensors reached before the first refusal."""
    kept, piece = [], 32 << 20
    try:
        while len(kept) < 100000:
            kept.append(torch.empty(piece, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        return len(kept) * piece
    return -1


def memory(torch, limit):
    free, total = torch.cuda.mem_get_info()
    note(what="PyTorch: mem_get_info reports the share within 1 %", holds=abs(total - limit) <= limit / 100,
         seen="%d of %d bytes" % (total, limit))
    note(what="PyTorch: get_device_properties reports", value=torch.cuda.get_device_properties(0).total_memory, unit="bytes")
    reached = until_out_of_memory(torch)
    note(what="PyTorch: out of memory within 2 % of the share", holds=limit * 0.98 <= reached <= limit,
         seen="%d of %d bytes" % (reached, limit))


def segments(torch, limit):
    reached = until_out_of_memory(torch)
    note(what="PyTorch: expandable segments stay within the share", holds=0 < reached <= limit, seen="%d of %d bytes" % (reached, limit))


def async_(torch, limit):
    reached = until_out_of_memory(torch)
    note(what="PyTorch: cudaMallocAsync stays within the share", holds=0 < reached <= limit, seen="%d of %d bytes" % (reached, limit))


def graphs(torch, _):
    at = torch.zeros(1024, device="cuda")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        at += 1
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        at += 1
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    note(what="PyTorch: a graph replays", holds=float(at[0]) == 4.0, seen=str(float(at[0])))


def triton(torch, _):
    try:
        import triton as compiler
        import triton.language as language
    except Exception as why:
        return note(what="Triton", value="not installed: %s" % why)

    globals()["tl"] = language  # the compiler finds names of a kernel among the globals

    @compiler.jit
    def add_one(at, count, block: tl.constexpr):
        offsets = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(at + offsets, tl.load(at + offsets, mask=offsets < count) + 1, mask=offsets < count)

    at = torch.zeros(4096, device="cuda")
    try:
        add_one[(4,)](at, 4096, block=1024)
    except Exception as why:  # a machine without a C compiler cannot build the launcher
        return note(what="Triton", value="does not start a kernel: %s" % str(why)[-200:])
    note(what="Triton: a kernel runs", holds=float(at.sum()) == 4096.0, seen=str(float(at.sum())))


def others(_, limit):
    try:
        import cupy
        note(what="CuPy: memory", value=cupy.cuda.runtime.memGetInfo()[1], unit="bytes")
    except Exception as why:
        note(what="CuPy", value="not measured: %s" % str(why)[:120])
    try:
        import jax
        note(what="JAX: devices", value=str(jax.devices()))
    except Exception as why:
        note(what="JAX", value="not measured: %s" % str(why)[:120])


def main():
    part = sys.argv[1]
    try:
        import torch
    except Exception as why:
        note(cannot="Python has no PyTorch: %s" % why)
        return 77
    if not torch.cuda.is_available():
        note(cannot="this PyTorch has no GPU under the preloaded library")
        return 77
    limit = int(os.environ.get("MOBULA_INTERCEPT_LIMIT", "0"))
    {"memory": memory, "segments": segments, "async": async_, "graphs": graphs, "triton": triton, "others": others}[part](torch, limit)
    return 0


sys.exit(main())
