#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py FOLDER OUT: the files of FOLDER as an assembler's and a C++ table (assets.h), plain and gzipped."""
import hashlib
import pathlib
import sys
import zlib

folder, out = map(pathlib.Path, sys.argv[1:3])
out.mkdir(parents=True, exist_ok=True)
files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")) if folder.is_dir() else []

code = ['// Made by embed.py.', '#include "serve/assets.h"', '', '#include <array>', '']
rows = []
for number, path in enumerate(files):
    plain = path.read_bytes()
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)  # 31: a gzip header without name or time
    packed = packer.compress(plain) + packer.flush()
    # index.html is written anew for each response
    if len(packed) > 0.9 * len(plain) or path.suffix == ".html":
        packed = b""
    for kind, data in (("plain", plain), ("packed", packed)):
        (out / f"{number}.{kind}").write_bytes(data)
        name = f"klab_page_{number}_{kind}"
        code.append(f'asm(".section .rodata\\n.global {name}, {name}_end\\n{name}:\\n.incbin \\"{out / f"{number}.{kind}"}\\"\\n'
                    f'{name}_end:\\n.byte 0\\n.previous\\n");')
        code.append(f'extern "C" const char {name}[], {name}_end[];')
    rows.append((path.relative_to(folder).as_posix(), number, hashlib.sha256(plain).hexdigest()[:16]))

code += ['', 'namespace klab::serve {', '', 'std::span<const Asset> assets() {',
         f'  static const std::array<Asset, {len(rows)}> all{{{{']
for name, number, tag in rows:
    text = [f'std::string_view(klab_page_{number}_{k}, static_cast<std::size_t>(klab_page_{number}_{k}_end - klab_page_{number}_{k}))'
            for k in ("plain", "packed")]
    code.append(f'      Asset{{"{name}", type_of("{name}"), {text[0]}, {text[1]}, "{tag}"}},')
code += ['  }};', '  return all;', '}', '', '}  // namespace klab::serve', '']
text = "\n".join(code)
target = out / "page_assets.cpp"
if not target.exists() or target.read_text() != text:
    target.write_text(text)
(out / "embedded").write_text("")
