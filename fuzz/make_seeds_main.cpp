// SPDX-License-Identifier: Apache-2.0
// Writes the seed inputs: klab_fuzz_seeds CORPUS_FOLDER.
#include "blob.h"
#include "bundle/index.h"
#include "bundle/pack.h"
#include "bundle/seal.h"
#include "bundle/test_bundle.h"
#include "fuzz.h"
#include "import/dispatch_list.h"

using namespace klab;

namespace {

// A bundle of one short stored chunk, zeros, and the 8-byte code object that fuzz_bundle keeps in its folder.
Status make(const fs::path& path) {
  KLAB_TRY(auto w, bundle::Writer::create(path, {}));
  bundle::Manifest m = bundle::testing::sample_manifest();
  auto& regions = m.dispatches[0].regions;
  m.dispatches[0].bindings[0] = {0, 0, 0, bundle::BindingKind::storage_buffer, 0, 16, 32};
  m.dispatches[0].proof.varying = {{0, 12, 4}};
  regions[0].size = 64;
  for (auto& r : regions) {
    KLAB_TRY(r.pre, w.add_list(r.size));
    KLAB_TRY(r.post, w.add_list(r.size));
  }
  KLAB_TRY_VOID(w.put(0, 0, bundle::testing::noise(64, 1)));
  KLAB_TRY_VOID(w.put(1, 0, bundle::testing::noise(64, 2)));
  KLAB_TRY(m.dispatches[0].code, w.add_code("spirv", "spv", std::as_bytes(std::span("12345678", 8))));
  KLAB_TRY_VOID(w.seal(std::move(m)));
  return {};
}

std::string member(const std::string& name, const std::string& bytes) {
  const auto length = static_cast<std::uint16_t>(name.size());
  const std::uint64_t size = bytes.size();
  std::string text(reinterpret_cast<const char*>(&length), 2);
  return text + name + std::string(reinterpret_cast<const char*>(&size), 8) + bytes;
}

Status write_seeds(const fs::path& corpus) {
  const fs::path path = fuzz::scratch() / "a.klab", packed = fuzz::scratch() / "a.klabz";
  KLAB_TRY_VOID(make(path));
  KLAB_TRY_VOID(bundle::pack(path, packed));
  KLAB_TRY(const auto manifest, read_file(path / "manifest.json"));
  KLAB_TRY(const auto index, read_file(path / "data.idx"));
  KLAB_TRY(const auto pack, read_file(path / "data.pack"));
  KLAB_TRY(const auto code, read_file(path / "code" / "0.spv"));
  KLAB_TRY(const auto file, read_file(packed));

  import::DispatchList list;
  list.source = "traced run";
  list.device.api = "vulkan";
  list.kernels = {{"saxpy", "main", "0123456789abcdef", "", {64, 1, 1}, ""},
                  {"sum", "main", "1", "", {}, "an image"}};
  list.rows = {{0, 1, 1, {16, 1, 1}, "vkCmdDispatch", 0, 1000, 10.5},
               {1, 2, 1, {1, 2, 3}, "vkCmdDispatch", 1, 2000, 0}};
  list.warnings = {"a timestamp was lost"};
  KLAB_TRY_VOID(import::write_list(fuzz::scratch() / "list", list));
  KLAB_TRY(const auto lines, read_file(fuzz::scratch() / "list"));

  for (const char* name : {"manifest", "index", "bundle", "packed", "dispatch_list"})
    fs::create_directories(corpus / name);
  fuzz::write_plain(corpus / "manifest" / "sample", manifest);
  fuzz::write_plain(corpus / "index" / "sample", index);
  fuzz::write_plain(corpus / "bundle" / "sample", fuzz::join({0, manifest, index, pack}));
  fuzz::write_plain(corpus / "bundle" / "repaired", fuzz::join({1, manifest, index, pack}));
  fuzz::write_plain(corpus / "packed" / "file", std::string(1, '\0') + file);
  fuzz::write_plain(corpus / "packed" / "members",
                    "\1" + member("manifest.json", manifest) + member("data.idx", index) +
                        member("code/0.spv", code) + member("data.pack", pack));
  fuzz::write_plain(corpus / "dispatch_list" / "sample", lines);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: klab_fuzz_seeds CORPUS_FOLDER\n", stderr), 2;
  if (const auto s = write_seeds(argv[1]); !s) return std::fprintf(stderr, "%s\n", s.error().what.c_str()), 1;
  return 0;
}
