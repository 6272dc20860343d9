// SPDX-License-Identifier: Apache-2.0
// Writing and reading back. Damage is in damage_test.cpp, hostile text in manifest_test.cpp, kills in
// kill_test.cpp.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cstring>
#include <thread>

#include "bundle/reader.h"
#include "bundle/test_bundle.h"
#include "bundle/writer.h"

namespace klab::bundle {
namespace {

using testing::noise;
using testing::sample_manifest;
using testing::TempFolder;
using testing::write_sample;

constexpr std::uint64_t kMiB = 1 << 20;

std::vector<std::byte> read_list(const Reader& r, std::uint32_t list) {
  std::vector<std::byte> bytes(r.list_size(list));
  EXPECT_TRUE(r.read(list, 0, bytes));
  return bytes;
}

Manifest manifest_for(const std::vector<std::uint64_t>& sizes) {
  Manifest m = sample_manifest();
  Dispatch& d = m.dispatches[0];
  d.bindings.clear();
  d.regions.clear();
  d.proof = {};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Region r;
    r.id = static_cast<std::uint32_t>(i);
    r.size = sizes[i];
    r.pre = static_cast<std::uint32_t>(i);
    d.regions.push_back(r);
  }
  return m;
}

TEST(Bundle, reads_back_what_was_written) {
  TempFolder t;
  const auto sealed = write_sample(t.path / "a.klab");
  ASSERT_TRUE(sealed) << sealed.error().what;
  EXPECT_EQ(sealed->logical_bytes, 10200u);
  EXPECT_EQ(sealed->stored_bytes, 8192u + 8192u + 4096u);
  auto r = Reader::open(t.path / "a.klab");
  ASSERT_TRUE(r) << r.error().what;
  const Region& x = r->manifest().dispatches[0].regions[0];
  EXPECT_EQ(read_list(*r, x.pre), noise(5000, 1));
  EXPECT_EQ(read_list(*r, x.post), noise(5000, 2));
  EXPECT_EQ(read_list(*r, r->manifest().dispatches[0].regions[1].pre), std::vector<std::byte>(100));
  EXPECT_EQ(r->code(0).value(), noise(64, 4));
  EXPECT_EQ(r->manifest().code[0].name, "saxpy.comp");
  EXPECT_EQ(r->manifest().code[0].file, "code/0.spv");
  const auto v = r->verify();
  ASSERT_TRUE(v) << v.error().what;
  EXPECT_EQ(v->chunks, 3u);
  EXPECT_EQ(v->code_objects, 1u);
  EXPECT_EQ(v->logical_bytes, 10200u);
}

TEST(Bundle, stores_equal_chunks_once_and_zero_chunks_never) {
  TempFolder t;
  auto w = Writer::create(t.path / "a.klab", {});
  ASSERT_TRUE(w);
  const auto a = noise(kMiB, 1);
  const std::vector<std::byte> zeros(kMiB);
  ASSERT_EQ(w->add_list(4 * kMiB).value(), 0u);
  ASSERT_EQ(w->add_list(2 * kMiB).value(), 1u);
  for (auto [list, chunk] : {std::pair{0u, 0u}, {0u, 2u}, {1u, 1u}}) ASSERT_TRUE(w->put(list, chunk, a));
  ASSERT_TRUE(w->put(0, 1, zeros));
  ASSERT_TRUE(w->add_code("spirv", "spv", a));
  const auto sealed = w->seal(manifest_for({4 * kMiB, 2 * kMiB}));
  ASSERT_TRUE(sealed) << sealed.error().what;
  EXPECT_EQ(sealed->stored_bytes, kMiB);
  EXPECT_EQ(fs::file_size(t.path / "a.klab" / "data.pack"), kMiB);
  auto r = Reader::open(t.path / "a.klab");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->chunk_hash(0, 0), r->chunk_hash(1, 1));
  EXPECT_EQ(r->chunk_hash(0, 1), Hash128{});
  EXPECT_EQ(r->chunk_hash(0, 3), Hash128{});
  EXPECT_EQ(r->chunk(0, 0)->data(), r->chunk(1, 1)->data());
  EXPECT_EQ(std::memcmp(r->chunk(0, 1)->data(), zeros.data(), kMiB), 0);
}

TEST(Bundle, keeps_a_short_last_chunk_and_reads_across_chunks) {
  TempFolder t;
  const std::uint64_t size = 2 * kMiB + 777;
  const auto bytes = noise(size, 5);
  auto w = Writer::create(t.path / "a.klab", {});
  ASSERT_TRUE(w && w->add_list(size));
  ASSERT_TRUE(w->add_code("spirv", "spv", noise(4, 1)));
  // Any order, and the last put wins.
  ASSERT_TRUE(w->put(0, 2, std::span(bytes).subspan(2 * kMiB)));
  ASSERT_TRUE(w->put(0, 0, noise(kMiB, 99)));
  ASSERT_TRUE(w->put(0, 1, std::span(bytes).subspan(kMiB, kMiB)));
  ASSERT_TRUE(w->put(0, 0, std::span(bytes).first(kMiB)));
  ASSERT_TRUE(w->seal(manifest_for({size})));
  auto r = Reader::open(t.path / "a.klab");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->chunk_count(0), 3u);
  EXPECT_EQ(r->chunk(0, 2)->size(), 777u);
  EXPECT_EQ(read_list(*r, 0), bytes);
  std::vector<std::byte> part(kMiB + 100);
  ASSERT_TRUE(r->read(0, kMiB - 50, part));
  EXPECT_EQ(std::memcmp(part.data(), bytes.data() + kMiB - 50, part.size()), 0);
  EXPECT_TRUE(r->read(0, size, {}));
  EXPECT_EQ(r->read(0, size - 10, std::span(part).first(11)).error().code, ErrorCode::usage);
  EXPECT_EQ(r->read(0, ~0ull, std::span(part).first(1)).error().code, ErrorCode::usage);
  EXPECT_EQ(r->read(1, 0, {}).error().code, ErrorCode::usage);
}

TEST(Bundle, stored_chunks_are_aligned_for_mapping) {
  TempFolder t;
  ASSERT_TRUE(write_sample(t.path / "a.klab"));
  auto r = Reader::open(t.path / "a.klab");
  ASSERT_TRUE(r);
  for (std::uint32_t list = 0; list < 4; ++list)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(r->chunk(list, 0)->data()) % 4096, 0u);
}

TEST(Writer, refuses_chunks_that_do_not_fit_their_list) {
  TempFolder t;
  auto w = Writer::create(t.path / "a.klab", {});
  ASSERT_TRUE(w && w->add_list(kMiB + 1));
  EXPECT_EQ(w->put(0, 0, noise(kMiB - 1, 1)).error().code, ErrorCode::usage);
  EXPECT_EQ(w->put(0, 1, noise(2, 1)).error().code, ErrorCode::usage);
  EXPECT_EQ(w->put(0, 2, noise(1, 1)).error().code, ErrorCode::usage);
  EXPECT_EQ(w->put(1, 0, noise(1, 1)).error().code, ErrorCode::usage);
  EXPECT_EQ(w->add_list(1ull << 60).error().code, ErrorCode::usage);
  EXPECT_EQ(w->add_code("spirv", "../x", noise(1, 1)).error().code, ErrorCode::usage);
}

TEST(Writer, stops_at_its_cap) {
  TempFolder t;
  auto w = Writer::create(t.path / "a.klab", {.max_bytes = 2 * kMiB});
  ASSERT_TRUE(w && w->add_list(4 * kMiB));
  ASSERT_TRUE(w->put(0, 0, noise(kMiB, 1)));
  ASSERT_TRUE(w->put(0, 1, noise(kMiB, 2)));
  EXPECT_EQ(w->put(0, 2, noise(kMiB, 3)).error().code, ErrorCode::cap_reached);
  EXPECT_TRUE(w->put(0, 3, noise(kMiB, 1)));
}

TEST(Writer, unsealed_leaves_nothing) {
  TempFolder t;
  {
    auto w = Writer::create(t.path / "a.klab", {});
    ASSERT_TRUE(w && w->add_list(kMiB) && w->put(0, 0, noise(kMiB, 1)));
    EXPECT_EQ(std::distance(fs::directory_iterator(t.path), fs::directory_iterator()), 1);
    Manifest wrong = manifest_for({kMiB});  // names code object 0, which was not added
    EXPECT_EQ(w->seal(wrong).error().code, ErrorCode::invalid_data);
  }
  EXPECT_TRUE(fs::is_empty(t.path));
}

TEST(Writer, will_not_overwrite_unless_told_and_then_swaps_whole) {
  TempFolder t;
  const fs::path path = t.path / "a.klab";
  ASSERT_TRUE(write_sample(path, {}, 1));
  auto refused = Writer::create(path, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::usage);
  auto old = Reader::open(path);
  ASSERT_TRUE(old);
  ASSERT_TRUE(write_sample(path, {.replace = true}, 50));
  EXPECT_EQ(read_list(*Reader::open(path), 0), noise(5000, 50));
  EXPECT_EQ(read_list(*old, 0), noise(5000, 1)) << "a reader keeps what it opened";
  EXPECT_EQ(std::distance(fs::directory_iterator(t.path), fs::directory_iterator()), 1);
}

TEST(Writer, never_replaces_what_is_not_a_bundle) {
  TempFolder t;
  const fs::path path = t.path / "precious";
  fs::create_directories(path);
  ASSERT_TRUE(write_file_atomic(path / "thesis.tex", "text"));
  EXPECT_EQ(write_sample(path, {.replace = true}).error().code, ErrorCode::usage);
  ASSERT_TRUE(write_file_atomic(path / "manifest.json", "{}"));
  EXPECT_EQ(write_sample(path, {.replace = true}).error().code, ErrorCode::usage);
  EXPECT_TRUE(fs::exists(path / "thesis.tex"));
}

TEST(Writer, does_not_overwrite_what_appeared_while_writing) {
  TempFolder t;
  const fs::path path = t.path / "a.klab";
  auto w = Writer::create(path, {});
  ASSERT_TRUE(w && w->add_code("spirv", "spv", noise(4, 1)));
  ASSERT_TRUE(write_sample(path, {}, 7));
  EXPECT_EQ(w->seal(manifest_for({})).error().code, ErrorCode::usage);
  EXPECT_EQ(read_list(*Reader::open(path), 0), noise(5000, 7));
}

TEST(Writer, files_are_private) {
  TempFolder t;
  ASSERT_TRUE(write_sample(t.path / "new" / "a.klab"));
  struct stat st {};
  for (const auto& entry : fs::recursive_directory_iterator(t.path)) {
    ASSERT_EQ(::lstat(entry.path().c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, entry.is_directory() ? 0700u : 0600u) << entry.path();
  }
}

TEST(Writer, stores_equal_code_once) {
  TempFolder t;
  auto w = Writer::create(t.path / "a.klab/", {});
  ASSERT_TRUE(w);
  EXPECT_EQ(w->add_code("spirv", "spv", noise(64, 1)).value(), 0u);
  EXPECT_EQ(w->add_code("spirv", "spv", noise(64, 2)).value(), 1u);
  EXPECT_EQ(w->add_code("spirv", "spv", noise(64, 1)).value(), 0u);
  ASSERT_TRUE(w->seal(manifest_for({})));
  EXPECT_EQ(Reader::open(t.path / "a.klab")->manifest().code.size(), 2u);
}

TEST(Manifest, update_replaces_the_proof_and_refuses_other_data) {
  TempFolder t;
  ASSERT_TRUE(write_sample(t.path / "a.klab"));
  ASSERT_TRUE(write_sample(t.path / "b.klab", {}, 9));
  Manifest m = Reader::open(t.path / "a.klab")->manifest();
  m.dispatches[0].proof = {ProofState::equal, "", 0, {}, 0, 2, "2026-02-01T00:00:00Z"};
  ASSERT_TRUE(update_manifest(t.path / "a.klab", m));
  auto r = Reader::open(t.path / "a.klab");
  ASSERT_TRUE(r && r->verify());
  EXPECT_EQ(r->manifest().dispatches[0].proof.state, ProofState::equal);
  EXPECT_EQ(update_manifest(t.path / "b.klab", m).error().code, ErrorCode::usage);
  m.dispatches[0].bindings[0].region = 7;
  EXPECT_EQ(update_manifest(t.path / "a.klab", m).error().code, ErrorCode::invalid_data);
}

TEST(Reader, may_be_used_from_several_threads) {
  TempFolder t;
  auto w = Writer::create(t.path / "a.klab", {});
  ASSERT_TRUE(w && w->add_list(8 * kMiB) && w->add_code("spirv", "spv", noise(4, 1)));
  for (std::uint64_t c = 0; c < 8; ++c) ASSERT_TRUE(w->put(0, c, noise(kMiB, c)));
  ASSERT_TRUE(w->seal(manifest_for({8 * kMiB})));
  auto r = Reader::open(t.path / "a.klab");
  ASSERT_TRUE(r);
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&, n] {
      for (std::uint64_t c = 0; c < 8; ++c)
        if (auto b = r->chunk(0, (c + n) % 8); b && b->size() == kMiB) ++good;
      if (n == 3 && r->verify()) ++good;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 33);
}

TEST(Reader, names_what_is_missing) {
  TempFolder t;
  EXPECT_EQ(Reader::open(t.path / "none.klab").error().code, ErrorCode::not_found);
  EXPECT_EQ(Reader::open(t.path).error().code, ErrorCode::not_found);
  ASSERT_TRUE(write_file_atomic(t.path / "file", "x"));
  EXPECT_EQ(Reader::open(t.path / "file").error().code, ErrorCode::invalid_data);
}

}  // namespace
}  // namespace klab::bundle
