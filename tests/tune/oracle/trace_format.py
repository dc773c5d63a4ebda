"""The text format of decision traces, which tests/tune/trace_runner.h reads."""

import struct


def bits(value):
    """A float as the 16 hexadecimal digits of its bits."""
    return struct.pack(">d", value).hex()


def value_text(value):
    """A parameter value with its kind: bT, i3, f<bits>, sadam."""
    if isinstance(value, bool):
        return "bT" if value else "bF"
    if isinstance(value, int):
        return f"i{value}"
    if isinstance(value, float):
        return "f" + bits(value)
    return f"s{value}"


def config_text(config):
    """A configuration as name=value pairs, sorted by name; nested names have slashes."""
    flat = {}

    def add(prefix, part):
        for key, value in part.items():
            if isinstance(value, dict):
                add(prefix + key + "/", value)
            else:
                flat[prefix + key] = value

    add("", config)
    return ",".join(f"{key}={value_text(flat[key])}" for key in sorted(flat)) or "-"
