#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a small llama model with random weights as GGUF (version 3), f16 or q8_0. Standard library only.

The same bytes on every machine. It says nothing sensible; it runs every kernel that a real model runs.
"""
import argparse
import random
import struct

F32, F16, Q8_0 = 0, 1, 8
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
EMBED, LAYERS, HEADS, KV_HEADS, FEED_FORWARD, CONTEXT = 128, 2, 4, 2, 384, 256
ALIGNMENT = 32


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    if kind == STRING:
        return string(v)
    if kind == ARRAY:
        element, items = v
        return struct.pack("<IQ", element, len(items)) + b"".join(value(element, i) for i in items)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], v)


def vocabulary():
    """The shape of a SentencePiece vocabulary: three control tokens, 256 bytes, some pieces."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    pieces = ["\u2581"] + [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces += ["\u2581" + a for a in pieces[1:]] + [a + b for a in "aeiou" for b in "bcdfgklmnprst"]
    scores = [0.0] * len(tokens) + [-float(i) for i in range(len(pieces))]
    tokens, kinds = tokens + pieces, kinds + [1] * len(pieces)
    while len(tokens) % 32:
        tokens.append(f"<unused{len(tokens)}>")
        kinds.append(5)
        scores.append(-1e6)
    return tokens, kinds, scores


def encode(kind, values):
    if kind == F32:
        return struct.pack(f"<{len(values)}f", *values)
    if kind == F16:
        return struct.pack(f"<{len(values)}e", *values)
    out = []
    for at in range(0, len(values), 32):
        block = values[at:at + 32]
        scale = max(abs(v) for v in block) / 127 or 1.0
        scale = struct.unpack("<e", struct.pack("<e", scale))[0]
        out.append(struct.pack("<e32b", scale, *(max(-127, min(127, round(v / scale))) for v in block)))
    return b"".join(out)


def write(path, weights, seed=1):
    rng = random.Random(seed)
    tokens, kinds, scores = vocabulary()
    head = EMBED // HEADS
    meta = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "synthetic"),
        ("general.alignment", UINT32, ALIGNMENT),
        ("general.file_type", UINT32, 1 if weights == F16 else 7),
        ("llama.vocab_size", UINT32, len(tokens)),
        ("llama.context_length", UINT32, CONTEXT),
        ("llama.embedding_length", UINT32, EMBED),
        ("llama.block_count", UINT32, LAYERS),
        ("llama.feed_forward_length", UINT32, FEED_FORWARD),
        ("llama.attention.head_count", UINT32, HEADS),
        ("llama.attention.head_count_kv", UINT32, KV_HEADS),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        ("llama.rope.dimension_count", UINT32, head),
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.scores", ARRAY, (FLOAT32, scores)),
        ("tokenizer.ggml.token_type", ARRAY, (INT32, kinds)),
        ("tokenizer.ggml.bos_token_id", UINT32, 1),
        ("tokenizer.ggml.eos_token_id", UINT32, 2),
        ("tokenizer.ggml.unknown_token_id", UINT32, 0),
    ]
    tensors = [("token_embd.weight", (EMBED, len(tokens)), weights)]
    for i in range(LAYERS):
        block = f"blk.{i}."
        tensors += [
            (block + "attn_norm.weight", (EMBED,), F32),
            (block + "attn_q.weight", (EMBED, EMBED), weights),
            (block + "attn_k.weight", (EMBED, KV_HEADS * head), weights),
            (block + "attn_v.weight", (EMBED, KV_HEADS * head), weights),
            (block + "attn_output.weight", (EMBED, EMBED), weights),
            (block + "ffn_norm.weight", (EMBED,), F32),
            (block + "ffn_gate.weight", (EMBED, FEED_FORWARD), weights),
            (block + "ffn_up.weight", (EMBED, FEED_FORWARD), weights),
            (block + "ffn_down.weight", (FEED_FORWARD, EMBED), weights),
        ]
    tensors += [("output_norm.weight", (EMBED,), F32), ("output.weight", (EMBED, len(tokens)), weights)]

    infos, data = [], bytearray()
    for name, shape, kind in tensors:
        count = 1
        for n in shape:
            count *= n
        if kind == F32:
            values = [1.0 + 0.1 * rng.uniform(-1, 1) for _ in range(count)]
        else:
            spread = 1.7 / shape[0] ** 0.5
            values = [spread * rng.uniform(-1, 1) for _ in range(count)]
        data += bytes(-len(data) % ALIGNMENT)
        infos.append(string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data)))
        data += encode(kind, values)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    header += b"".join(string(k) + struct.pack("<I", kind) + value(kind, v) for k, kind, v in meta)
    header += b"".join(infos)
    header += bytes(-len(header) % ALIGNMENT)
    data += bytes(-len(data) % ALIGNMENT)
    with open(path, "wb") as out:
        out.write(header)
        out.write(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--type", choices=["f16", "q8_0"], default="f16")
    args = parser.parse_args()
    write(args.file, F16 if args.type == "f16" else Q8_0)


if __name__ == "__main__":
    main()
