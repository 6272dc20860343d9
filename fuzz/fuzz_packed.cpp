// SPDX-License-Identifier: Apache-2.0
// A packed bundle: the file itself (first byte even), or its members with compression and hash made right
// (odd).
#include <string>

#include <zstd.h>

#include "base/hash.h"
#include "bundle/pack.h"
#include "bundle/reader.h"
#include "fuzz.h"

using namespace klab;

namespace {

std::string packed(std::string_view members) {
  std::string text("KLABPAK\n\1\0\0\0\0\0\0\0", 16);
  std::string frame(ZSTD_compressBound(members.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), members.data(), members.size(), 1));
  text += frame;
  const Hash128 h = hash_text(text);
  text.append(reinterpret_cast<const char*>(&h.low), 8);
  text.append(reinterpret_cast<const char*>(&h.high), 8);
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  const fs::path file = fuzz::scratch() / "a.klabz", folder = fuzz::scratch() / "out";
  fuzz::write_plain(file, data[0] & 1 ? packed(text) : std::string(text));
  const fs::path path = folder / "a.klab";
  const auto done = bundle::unpack(file, path, 64u << 20);
  if (done) {
    // What was unpacked is whole.
    const auto r = bundle::Reader::open(path);
    FUZZ_CHECK(r && r->verify());
    fs::remove_all(path);
  }
  FUZZ_CHECK(!fs::exists(folder) || fs::is_empty(folder));
  return 0;
}
