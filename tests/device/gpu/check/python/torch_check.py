"""Tensors between Mobula and this machine's PyTorch by DLPack, without a copy: on the GPU, or with --host in host
memory, to try this program itself. Prints one JSON line per finding; exits with 77 if Python has no PyTorch."""
import ctypes
import json
import sys


def say(**words):
    print(json.dumps(words), flush=True)


def main():
    on_device = "--host" not in sys.argv
    try:
        import torch
        from torch.utils import dlpack
    except Exception as why:  # any error of a broken installation
        say(cannot="Python has no PyTorch: %s" % why)
        return 77
    # After PyTorch, whose C++ library then serves both.
    shim = ctypes.CDLL(sys.argv[1])
    if on_device and not torch.cuda.is_available():
        say(cannot="this PyTorch sees no GPU")
        return 77
    shim.mobula_shim_make.restype = ctypes.c_void_p
    shim.mobula_shim_sum.restype = ctypes.c_longlong
    shim.mobula_shim_sum.argtypes = [ctypes.c_void_p]
    shim.mobula_shim_error.restype = ctypes.c_char_p
    python = ctypes.pythonapi
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    used = b"used_dltensor"  # as long as the capsule
    if on_device and shim.mobula_shim_open() != 0:
        say(cannot="no device memory: " + shim.mobula_shim_error().decode())
        return 77

    say(what="PyTorch", value=torch.__version__)
    count = 1 << 20
    managed = shim.mobula_shim_make(count, 1 if on_device else 0)
    if not managed:
        say(what="Mobula makes a tensor", holds=False, seen=shim.mobula_shim_error().decode())
        return 1
    seen = dlpack.from_dlpack(python.PyCapsule_New(managed, b"dltensor", None))
    say(what="PyTorch views a tensor of Mobula: shape and strides",
        holds=list(seen.shape) == [count // 2, 2] and list(seen.stride()) == [1, count // 2],
        seen="%s %s" % (list(seen.shape), list(seen.stride())))
    say(what="on its device", holds=seen.is_cuda == on_device, seen=str(seen.device))
    say(what="its elements", holds=int(seen.sum(dtype=torch.int64)) == count * (count - 1) // 2)

    made = torch.arange(count, dtype=torch.int32, device="cuda" if on_device else "cpu").reshape(4, count // 4)
    slice_ = made[1:4:2, 3:]  # with an offset and gaps
    if on_device:
        torch.cuda.synchronize()
    capsule = dlpack.to_dlpack(slice_)
    managed = python.PyCapsule_GetPointer(capsule, b"dltensor")
    python.PyCapsule_SetName(capsule, used)
    sum_ = shim.mobula_shim_sum(managed)
    say(what="Mobula views a slice of PyTorch", holds=sum_ == int(slice_.sum(dtype=torch.int64)),
        seen=shim.mobula_shim_error().decode())
    del seen
    say(what="both release their views", holds=True)
    return 0


sys.exit(main())
