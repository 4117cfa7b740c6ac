#!/usr/bin/env python3
"""read_events.py FOLDER [--tensorboard] - TensorBoard's event files of a folder as lines "TAG STEP VALUE".

The reader shares nothing with the writer: records as TensorFlow documents them (length, masked CRC-32C of the length, event,
masked CRC-32C of it), fields of event.proto by their numbers. With --tensorboard it is TensorBoard's own reader; exit code 77:
that is not installed. Any other offence ends with 1."""
import glob
import os
import struct
import sys

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def masked(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = TABLE[(crc ^ b) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


assert masked(b"123456789") == ((((0xE3069283 >> 15) | (0xE3069283 << 17)) + 0xA282EAD8) & 0xFFFFFFFF)  # CRC-32C's check value


def records(data, path):
    at = 0
    while at < len(data):
        if len(data) - at < 12:
            sys.exit(f"{path}: cut in a head at {at}")
        (length,), (crc,) = struct.unpack_from("<Q", data, at), struct.unpack_from("<I", data, at + 8)
        if masked(data[at:at + 8]) != crc:
            sys.exit(f"{path}: checksum of the length at {at}")
        body = data[at + 12:at + 12 + length]
        if masked(body) != struct.unpack_from("<I", data, at + 12 + length)[0]:
            sys.exit(f"{path}: checksum of the event at {at}")
        yield body
        at += 16 + length


def fields(data):
    at = 0

    def varint():
        nonlocal at
        x = shift = 0
        while True:
            b = data[at]
            at += 1
            x |= (b & 127) << shift
            shift += 7
            if b < 128:
                return x

    while at < len(data):
        key = varint()
        wire = key & 7
        if wire == 0:
            yield key >> 3, varint()
        elif wire == 1:
            yield key >> 3, struct.unpack_from("<d", data, at)[0]
            at += 8
        elif wire == 5:
            yield key >> 3, struct.unpack_from("<f", data, at)[0]
            at += 4
        elif wire == 2:
            n = varint()
            yield key >> 3, data[at:at + n]
            at += n
        else:
            sys.exit(f"wire type {wire}")


def own(folder):
    for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
        for i, body in enumerate(records(open(path, "rb").read(), path)):
            event = dict(fields(body))
            if i == 0 and event.get(3) != b"brain.Event:2":
                sys.exit(f"{path}: does not begin with its version")
            for number, value in fields(event.get(5, b"")):
                v = dict(fields(value)) if number == 1 else {}
                yield v[1].decode(), event.get(2, 0), v[2]


def tensorboards(folder):
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        sys.exit(77)
    from tensorboard.util import tensor_util
    e = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    e.Reload()
    for tag in e.Tags()["scalars"]:
        for s in e.Scalars(tag):
            yield tag, s.step, s.value
    for tag in e.Tags()["tensors"]:
        for s in e.Tensors(tag):
            yield tag, s.step, float(tensor_util.make_ndarray(s.tensor_proto))


for tag, step, value in (tensorboards if "--tensorboard" in sys.argv else own)(sys.argv[1]):
    print(f"{tag} {step} {value:.7g}")
