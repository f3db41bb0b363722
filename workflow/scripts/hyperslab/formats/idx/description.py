"""The text of an IDX dataset: written for a layout, and read back with one line for every mistake."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import numpy as np

from hyperslab.layouts import idx_order
from hyperslab.layouts.idx_files import DESCRIPTION, MOST_BLOCKS_PER_FILE, TIME_TEMPLATE, IdxFiles, name_of

VERSIONS = ("6", "6.1")
REQUIRED = ("version", "box", "fields", "bits", "bitsperblock", "blocksperfile", "filename_template")
TYPES = {
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64",
}  # fmt: skip
TEMPLATE = re.compile(r"(?:[^%]|%0[1-9]x)+")
TIME_PART = re.compile(r"[^%]*%0?[1-9]?d[^%]*")


@dataclass(frozen=True)
class Field:
    """One field: its name, its type, and the value of samples that are not stored."""

    name: str
    dtype: str
    default: float | int


@dataclass(frozen=True)
class Description:
    """What the text says; extents are those of an array as it lies on disk, slowest axis first."""

    shape: tuple[int, ...]
    fields: tuple[Field, ...]
    bitmask: str
    bits_per_block: int
    blocks_per_file: int
    template: str
    times: range
    time_template: str


def written(files: IdxFiles, dtype: str) -> str:
    """Return the text for the files of a layout."""
    box = " ".join(f"0 {extent - 1}" for extent in reversed(files.shape))
    layout = "row_major" if files.row_major else "0"
    codec = f" default_compression({files.codec})" if files.codec != "raw" else ""
    fields = "\n+ ".join(
        f"field{number} {dtype}{codec} default_layout({layout}) default_value(0)"
        for number in range(files.fields)
    )
    entries = {
        "version": "6",
        "box": box,
        "fields": fields,
        "bits": files.bitmask.text,
        "bitsperblock": str(files.blocks.bits),
        "blocksperfile": str(files.blocks_per_file),
        "interleave block": "0",
        "filename_template": files.template,
    }
    if files.has_times:
        entries["time"] = f"0 {files.times - 1} {TIME_TEMPLATE}"
    return "".join(f"({key})\n{value}\n" for key, value in entries.items())


def read(path: str) -> Description:
    """Return what the description in a dataset's directory says; raises OSError naming file and mistake."""
    file = os.path.join(path, DESCRIPTION)
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    except UnicodeDecodeError:
        raise OSError(f"{file}: is no text") from None
    try:
        return parsed(text)
    except ValueError as mistake:
        raise OSError(f"{file}: {mistake}") from None


def parsed(text: str) -> Description:
    """Return what a text says; raises ValueError naming the mistake."""
    entries = _entries(text)
    for key in REQUIRED:
        if not entries.get(key):
            raise ValueError(f"({key}) is missing")
    if entries["version"] not in VERSIONS:
        raise ValueError(f"(version) is {entries['version']}; {' and '.join(VERSIONS)} can be read")
    shape = _shape(entries["box"])
    if wrong := idx_order.bitmask_mistake(entries["bits"], shape):
        raise ValueError(f"(bits): {wrong}")
    template = entries["filename_template"]
    if not TEMPLATE.fullmatch(template):
        raise ValueError(f"(filename_template): {template} should have parts such as %04x, and no others")
    times, time_template = _times(entries.get("time", ""))
    for key, part in (("filename_template", template), ("time", time_template)):
        if _leaves(part):
            raise ValueError(f"({key}): {part} leaves the directory")
    if _leaves(name_of(template, time_template, 0, 0)):
        raise ValueError(f"(time): {time_template} in {template} leaves the directory")
    bits = _whole(entries, "bitsperblock", 1, 31)
    bits = min(bits, len(entries["bits"]) - 1)
    fields = tuple(_field(field) for field in re.split(r"\+(?![^(]*\))", entries["fields"]))
    # All headers of a file are read at once; more than the box has blocks are of no use.
    needed = 1 << len(entries["bits"]) - 1 - bits
    blocks = _whole(entries, "blocksperfile", 1, max(MOST_BLOCKS_PER_FILE, needed))
    if "%" not in template and needed > blocks:
        raise ValueError(f"(filename_template): {template} names one file, and the blocks need several")
    interleaved = entries.get("interleave block", "0")
    if interleaved not in ("0", "1"):
        raise ValueError(
            f"(interleave block) is {interleaved}; blocks of fields that take turns are not read"
        )
    return Description(
        shape, fields, entries["bits"], bits, blocks, template, times, time_template
    )  # fmt: skip


def _leaves(name: str) -> bool:
    """Return whether a name, or what such names are made of, lies outside of the directory."""
    return name.startswith("/") or ".." in name.split("/")


def _entries(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for line in (line.partition("#")[0].strip() for line in text.splitlines()):
        if line.startswith("(") and line.endswith(")"):
            values = found.setdefault(line[1:-1].strip(), [])
        elif line:
            values.append(line)
    return {key: " ".join(parts) for key, parts in found.items()}


def _shape(box: str) -> tuple[int, ...]:
    numbers = box.split()
    if not numbers or len(numbers) % 2 or not all(re.fullmatch(r"-?\d+", number) for number in numbers):
        raise ValueError(f"(box) {box}: should be the first and last index of each axis")
    pairs = list(zip(map(int, numbers[::2]), map(int, numbers[1::2]), strict=True))
    if any(first != 0 or last < 0 for first, last in pairs):
        raise ValueError(f"(box) {box}: each axis should begin with 0 and end at 0 or above")
    if any(last >= 2**63 for _, last in pairs):
        raise ValueError(f"(box) {box}: an axis ends beyond 2^63")
    return tuple(last + 1 for _, last in reversed(pairs))


def _whole(entries: dict[str, str], key: str, low: int, high: int) -> int:
    value = entries[key]
    if not re.fullmatch(r"\d{1,18}", value) or not low <= int(value) <= high:
        raise ValueError(f"({key}) is {value}; should be a whole number from {low} to {high}")
    return int(value)


def _field(text: str) -> Field:
    name, *words = text.split() or [""]
    if not words or words[0].lower() not in TYPES:
        raise ValueError(f"(fields): {text.strip() or 'nothing'} should be a name and a type of one number")
    options = dict(re.findall(r"(\w+)\(([^)]*)\)", text))
    dtype = words[0].lower()
    said = options.get("default_value") or "0"
    try:
        # A float would not hold all whole numbers of 64 bits.
        default = int(said) if re.fullmatch(r"[+-]?\d{1,20}", said.strip()) else float(said)
    except ValueError:
        raise ValueError(f"(fields): the default_value of {name} is no number") from None
    if np.dtype(dtype).kind in "iu":
        held = np.iinfo(dtype)
        if not held.min <= default <= held.max or default != int(default):
            raise ValueError(f"(fields): the default_value of {name} is no {dtype}")
        default = int(default)
    return Field(name, dtype, default)


def _times(text: str) -> tuple[range, str]:
    """Return the time steps and the part of file names that each has; one without name where none is said."""
    if not text:
        return range(1), ""
    found = re.fullmatch(r"(\d{1,18}) (\d{1,18}) (\S+)", text)
    if not found or not TIME_PART.fullmatch(found[3]):
        raise ValueError(f"(time): {text} should be the first and last step, and a part such as time%09d/")
    return range(int(found[1]), int(found[2]) + 1), found[3]
