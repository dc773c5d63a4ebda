"""The directories at the top level that hold the sources of the library and of the program."""

ROOMS = ("base", "cli", "client", "deploy", "device", "head", "protocol", "scheduler", "store", "tensor", "transport", "tune", "worker")
