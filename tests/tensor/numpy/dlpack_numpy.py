#!/usr/bin/env python3
"""Tensors by DLPack to NumPy and back, in the forms that this NumPy has: the versioned one from 2.1 on.

Usage: dlpack_numpy.py SHIM [TEST...]
"""

import ctypes
import gc
import os
import sys
import unittest
import weakref

import numpy as np

shim = ctypes.CDLL(os.path.abspath(sys.argv[1]))
shim.mobula_shim_error.restype = ctypes.c_char_p
shim.mobula_shim_make.restype = ctypes.c_void_p
shim.mobula_shim_make.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
shim.mobula_shim_take.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                                  ctypes.c_char_p]
shim.mobula_shim_delete.argtypes = [ctypes.c_void_p, ctypes.c_int]

api = ctypes.pythonapi
Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, Destructor]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}
NUMPY = tuple(int(part) for part in np.__version__.split(".")[:2])
HAS_VERSIONS = NUMPY >= (2, 1)
FORMS = [False, True] if HAS_VERSIONS else [False]
NO_DESTRUCTOR = Destructor()
DTYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
          "complex64", "complex128"] + (["bool"] if NUMPY >= (1, 25) else [])


def elements(dtype, extents):
    rows = np.random.default_rng(7).integers(0, 2 if dtype == "bool" else 100, extents)
    return rows.astype(dtype)


class Made:
    """A producer for NumPy: a tensor of Mobula with these elements, its first and last extent swapped."""

    def __init__(self, array, versioned):
        self.versioned = versioned
        whole = np.ascontiguousarray(array)
        extents = (ctypes.c_int64 * 3)(*whole.shape)
        name = {"bool": "boolean"}.get(str(whole.dtype), str(whole.dtype))
        self.managed = shim.mobula_shim_make(name.encode(), extents, whole.ctypes.data, versioned)
        if not self.managed:
            raise RuntimeError(shim.mobula_shim_error().decode())

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **asked):
        if self.versioned and asked.get("max_version") is None:
            raise BufferError("export: NumPy requested the unversioned form")
        return api.PyCapsule_New(self.managed, NAMES[self.versioned], NO_DESTRUCTOR)


def taken(array, versioned):
    capsule = array.__dlpack__(max_version=(1, 0)) if versioned else array.__dlpack__()
    managed = api.PyCapsule_GetPointer(capsule, NAMES[versioned])
    api.PyCapsule_SetName(capsule, USED[versioned])
    bytes_, extents, name = ctypes.create_string_buffer(1 << 16), (ctypes.c_int64 * 64)(), ctypes.create_string_buffer(32)
    dimensions = shim.mobula_shim_take(managed, versioned, bytes_, len(bytes_), extents, name)
    if dimensions < 0:
        raise RuntimeError(shim.mobula_shim_error().decode())
    dtype = {"boolean": "bool"}.get(name.value.decode(), name.value.decode())
    shape = tuple(extents[:dimensions])
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.frombuffer(bytes_.raw[:size], dtype=dtype).reshape(shape)


class ToNumpy(unittest.TestCase):
    def test_every_dtype_with_strides(self):
        for versioned in FORMS:
            for dtype in DTYPES:
                with self.subTest(dtype=dtype, versioned=versioned):
                    array = elements(dtype, (2, 3, 5))
                    seen = np.from_dlpack(Made(array, versioned))
                    self.assertEqual((seen.dtype, seen.shape), (array.dtype, (5, 3, 2)))
                    self.assertTrue(np.array_equal(seen, array.transpose(2, 1, 0)))

    def test_without_elements(self):
        for versioned in FORMS:
            self.assertEqual(np.from_dlpack(Made(elements("int32", (2, 0, 5)), versioned)).shape, (5, 0, 2))

    def test_shares_memory_until_the_last_view(self):
        for versioned in FORMS:
            seen = np.from_dlpack(Made(elements("float64", (4, 1, 4)), versioned))
            part = seen[1:, 0, :]
            expected = part.copy()
            del seen
            gc.collect()
            spoil = [np.random.default_rng(i).random(16) for i in range(1000)]
            self.assertTrue(np.array_equal(part, expected))
            del part, spoil

    def test_unused_export_is_deleted_by_its_deleter(self):
        for versioned in FORMS:
            shim.mobula_shim_delete(Made(elements("int8", (1, 2, 3)), versioned).managed, versioned)


class FromNumpy(unittest.TestCase):
    def test_every_dtype_in_every_order(self):
        for versioned in FORMS:
            for dtype in DTYPES:
                array = elements(dtype, (4, 3, 5))
                for what, look in [("whole", array), ("columns", np.asfortranarray(array)), ("parts", array[1:, ::2, 1:4]),
                                   ("one element", array[2, 1, 3:4].reshape(())), ("none", array[:, :0]),
                                   ("repeated", np.lib.stride_tricks.as_strided(array, (7, 2), (0, array.itemsize)))]:
                    with self.subTest(dtype=dtype, what=what, versioned=versioned):
                        seen = taken(look, versioned)
                        self.assertEqual((seen.dtype, seen.shape), (look.dtype, look.shape))
                        self.assertTrue(np.array_equal(seen, look))

    def test_deleter_returns_memory_to_numpy(self):
        for versioned in FORMS:
            array = elements("int64", (2, 3, 4))
            held = weakref.ref(array)
            taken(array, versioned)
            del array
            gc.collect()
            self.assertIsNone(held())

    def test_negative_strides_are_rejected_and_released(self):
        for versioned in FORMS:
            array = elements("int16", (2, 3, 4))
            held = weakref.ref(array)
            with self.assertRaisesRegex(RuntimeError, "stride"):
                taken(array[::-1], versioned)
            del array
            gc.collect()
            self.assertIsNone(held())

    def test_read_only_memory_travels_in_the_versioned_form(self):
        array = elements("float32", (2, 2, 2))
        array.setflags(write=False)
        if HAS_VERSIONS:
            self.assertTrue(np.array_equal(taken(array, True), array))
        with self.assertRaises(BufferError):
            taken(array, False)


if __name__ == "__main__":
    print(f"NumPy {np.__version__}: DLPack {'in both forms' if HAS_VERSIONS else 'without versions'}", file=sys.stderr)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
