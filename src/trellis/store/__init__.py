"""Saved models: one safetensors file with arrays, and a JSON manifest in its header.

    bytes 0..7     length of the header
    header         JSON: name, dtype, shape and place of each array; under __metadata__.trellis a CRC and the manifest
    the rest       the arrays, one after another

The manifest says what the file is: ``format`` (the version of this layout), ``kind`` (which model), and what the model
adds; a CRC of each array reveals damage. Nothing is ever pickled, a file appears under its name only once it is whole,
and an opened file is in memory: what happens to it afterwards does not matter.

A file may come from anybody, so checksums prove nothing. `Stored` checks the type, shape and range of every array and
of every field of a manifest that is asked for. It has checked everything that native code or torch uses as an index.
"""

from trellis.store.reading import load, read_kind, read_manifest
from trellis.store.stored import Stored
from trellis.store.writing import FORMAT, NARROW, narrowed, pack_strings, save

__all__ = ["FORMAT", "NARROW", "Stored", "load", "narrowed", "pack_strings", "read_kind", "read_manifest", "save"]
