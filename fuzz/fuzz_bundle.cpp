// SPDX-License-Identifier: Apache-2.0
// A whole bundle folder. Seal and index hash are made right, so that a changed byte reaches the code behind
// them.
#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "blob.h"
#include "bundle/index.h"
#include "bundle/reader.h"
#include "bundle/seal.h"
#include "fuzz.h"

using namespace klab;

namespace {

// Puts the right hash into each chunk record that lies inside the pack.
void repair_chunks(fuzz::Blob& b) {
  std::uint64_t chunks = 0;
  if (b.index.size() >= 48) std::memcpy(&chunks, b.index.data() + 16, 8);
  for (std::size_t at = 48; chunks != 0 && at + 32 <= b.index.size(); at += 32, --chunks) {
    std::uint64_t offset = 0;
    std::uint32_t size = 0;
    std::memcpy(&offset, b.index.data() + at + 16, 8);
    std::memcpy(&size, b.index.data() + at + 24, 4);
    if (offset > b.pack.size() || size > b.pack.size() - offset) return;
    const Hash128 h = hash_text(std::string_view(b.pack).substr(offset, size));
    std::memcpy(b.index.data() + at, &h.low, 8);
    std::memcpy(b.index.data() + at + 8, &h.high, 8);
  }
}

void read_everything(const bundle::Reader& r) {
  const bool sound = r.verify().has_value();
  for (const auto& d : r.manifest().dispatches)
    for (const auto& region : d.regions)
      for (const std::uint32_t list : {region.pre, region.post}) {
        if (list == bundle::kNoList) continue;
        FUZZ_CHECK(r.list_size(list) == region.size);
        const std::uint64_t chunks = std::min<std::uint64_t>(r.chunk_count(list), 16);
        for (std::uint64_t c = 0; c < chunks; ++c) {
          (void)r.chunk_hash(list, c);
          const auto bytes = r.chunk(list, c);
          FUZZ_CHECK(bytes || !sound);
          if (bytes) (void)hash_bytes(*bytes);
        }
        std::vector<std::byte> out(static_cast<std::size_t>(std::min<std::uint64_t>(region.size, 3u << 20)));
        (void)r.read(list, region.size - out.size(), out);
      }
  for (std::uint32_t i = 0; i < r.manifest().code.size(); ++i) FUZZ_CHECK(r.code(i) || !sound);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Blob b = fuzz::split(fuzz::text_of(data, size));
  if (b.flags & 1) repair_chunks(b);
  if (auto j = parse_json(b.manifest, "fuzz"); j && j->is_object()) {
    j->erase("seal");
    (*j)["index_hash"] = to_string(hash_text(b.index));
    b.manifest = bundle::seal_json(*j);
  }
  static const fs::path folder = [] {
    const fs::path path = fuzz::scratch() / "a.klab";
    fs::create_directories(path / "code");
    fuzz::write_plain(path / "code" / "0.spv", "12345678");
    return path;
  }();
  fuzz::write_plain(folder / "manifest.json", b.manifest);
  fuzz::write_plain(folder / "data.idx", b.index);
  fuzz::write_plain(folder / "data.pack", b.pack);
  if (const auto r = bundle::Reader::open(folder)) read_everything(*r);
  return 0;
}
