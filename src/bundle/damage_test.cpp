// SPDX-License-Identifier: Apache-2.0
// Bundles that were damaged: nothing is silently accepted, nothing crashes.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "bundle/pack.h"
#include "bundle/reader.h"
#include "bundle/test_bundle.h"

namespace klab::bundle {
namespace {

using testing::noise;
using testing::TempFolder;
using testing::write_sample;

bool opens_and_verifies(const fs::path& path) {
  auto r = Reader::open(path);
  return r && r->verify();
}

const char* const kFiles[] = {"manifest.json", "data.idx", "data.pack", "code/0.spv"};

// Calls `use` with each bit of `file` flipped, one at a time; of a file over 1 KiB, one bit of each byte.
void for_each_flip(const fs::path& file, const std::function<void(std::size_t byte, int bit)>& use) {
  Fd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd);
  const std::string text = read_file(file).value();
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      if (text.size() > 1024 && bit != static_cast<int>(i % 8)) continue;
      const char flipped = static_cast<char>(text[i] ^ (1 << bit));
      ASSERT_EQ(::pwrite(fd.get(), &flipped, 1, static_cast<off_t>(i)), 1);
      use(i, bit);
      ASSERT_EQ(::pwrite(fd.get(), &text[i], 1, static_cast<off_t>(i)), 1);
    }
}

// Without fsync: thousands of these run.
void write_plain(const fs::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}

class Damage : public ::testing::TestWithParam<const char*> {};

TEST_P(Damage, any_flipped_bit_is_noticed) {
  TempFolder t;
  const fs::path path = t.path / "a.klab";
  ASSERT_TRUE(write_sample(path));
  ASSERT_TRUE(opens_and_verifies(path));
  // The pack is only read by verify, so an open reader will do for its 20,000 flips.
  auto open = Reader::open(path);
  const bool stays_open = GetParam() == std::string_view("data.pack");
  int accepted = 0;
  for_each_flip(path / GetParam(), [&](std::size_t byte, int bit) {
    if (stays_open ? open->verify().has_value() : opens_and_verifies(path))
      ADD_FAILURE() << "byte " << byte << " bit " << bit << (++accepted, "");
  });
  EXPECT_EQ(accepted, 0);
  EXPECT_TRUE(opens_and_verifies(path));
}

TEST_P(Damage, any_other_length_is_noticed) {
  TempFolder t;
  const fs::path path = t.path / "a.klab", file = path / GetParam();
  ASSERT_TRUE(write_sample(path));
  const std::string text = read_file(file).value();
  const std::size_t step = text.size() > 1024 ? 97 : 1;
  for (std::size_t n = 0; n < text.size(); n += step) {
    write_plain(file, text.substr(0, n));
    EXPECT_FALSE(opens_and_verifies(path)) << "cut to " << n;
  }
  for (const char* more : {"\n", " ", "x"}) {
    write_plain(file, text + more);
    EXPECT_FALSE(opens_and_verifies(path)) << "with one byte more";
  }
  write_plain(file, text + std::string(4096, '\0'));
  EXPECT_FALSE(opens_and_verifies(path)) << "with a page of zeros more";
  fs::remove(file);
  EXPECT_FALSE(opens_and_verifies(path)) << "without the file";
}

TEST_P(Damage, a_link_or_pipe_in_place_of_a_file_is_refused) {
  TempFolder t;
  const fs::path path = t.path / "a.klab", file = path / GetParam();
  ASSERT_TRUE(write_sample(path));
  fs::rename(file, t.path / "elsewhere");
  fs::create_symlink(t.path / "elsewhere", file);
  EXPECT_FALSE(opens_and_verifies(path));
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(opens_and_verifies(path)) << "and does not wait for a writer";
  fs::remove(file);
  fs::rename(t.path / "elsewhere", file);
  EXPECT_TRUE(opens_and_verifies(path));
}

INSTANTIATE_TEST_SUITE_P(Files, Damage, ::testing::ValuesIn(kFiles), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name)
    if (c == '.' || c == '/') c = '_';
  return name;
});

TEST(Reader, names_the_damaged_chunk_at_first_use_only) {
  TempFolder t;
  const fs::path path = t.path / "a.klab";
  ASSERT_TRUE(write_sample(path));
  auto r = Reader::open(path);
  ASSERT_TRUE(r);
  Fd fd(::open((path / "data.pack").c_str(), O_RDWR | O_CLOEXEC));
  const char x = 'x';
  ASSERT_EQ(::pwrite(fd.get(), &x, 1, 8192 + 17), 1);
  ASSERT_TRUE(r->chunk(0, 0));
  const auto bad = r->chunk(1, 0);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::bundle_corrupt);
  EXPECT_NE(bad.error().what.find("chunk 1 at 8192"), std::string::npos) << bad.error().what;
  EXPECT_EQ(r->verify().error().code, ErrorCode::bundle_corrupt);
}

TEST(Reader, a_pack_cut_off_while_open_is_an_error_and_no_signal) {
  TempFolder t;
  const fs::path path = t.path / "a.klab";
  ASSERT_TRUE(write_sample(path));
  auto r = Reader::open(path);
  ASSERT_TRUE(r);
  ASSERT_TRUE(r->chunk(1, 0));
  fs::resize_file(path / "data.pack", 4096);
  std::vector<std::byte> out(5000);
  EXPECT_EQ(r->read(1, 0, out).error().code, ErrorCode::bundle_corrupt);
  EXPECT_EQ(r->chunk(0, 0).error().code, ErrorCode::bundle_corrupt);
  EXPECT_EQ(r->verify().error().code, ErrorCode::bundle_corrupt);
}

TEST(Pack, round_trips_every_byte) {
  TempFolder t;
  ASSERT_TRUE(write_sample(t.path / "a.klab"));
  ASSERT_TRUE(pack(t.path / "a.klab", t.path / "a.klabz"));
  ASSERT_TRUE(unpack(t.path / "a.klabz", t.path / "b.klab"));
  for (const char* file : kFiles)
    EXPECT_EQ(read_file(t.path / "a.klab" / file).value(), read_file(t.path / "b.klab" / file).value())
        << file;
  EXPECT_TRUE(opens_and_verifies(t.path / "b.klab"));
  EXPECT_EQ(pack(t.path / "a.klab", t.path / "a.klabz").error().code, ErrorCode::usage);
  EXPECT_EQ(unpack(t.path / "a.klabz", t.path / "b.klab").error().code, ErrorCode::usage);
}

TEST(Pack, round_trips_several_megabytes) {
  TempFolder t;
  auto w = Writer::create(t.path / "a.klab", {});
  ASSERT_TRUE(w && w->add_list(5 * kChunkSize + 3) && w->add_code("spirv", "spv", noise(4, 1)));
  for (std::uint64_t c = 0; c < 5; ++c) ASSERT_TRUE(w->put(0, c, noise(kChunkSize, c / 2)));
  Manifest m = testing::sample_manifest();
  m.dispatches[0].bindings.clear();
  m.dispatches[0].proof = {};
  m.dispatches[0].regions.resize(1);
  m.dispatches[0].regions[0].size = 5 * kChunkSize + 3;
  m.dispatches[0].regions[0].pre = 0;
  ASSERT_TRUE(w->seal(m));
  ASSERT_TRUE(pack(t.path / "a.klab", t.path / "a.klabz"));
  EXPECT_EQ(unpack(t.path / "a.klabz", t.path / "c.klab", 1 << 20).error().code, ErrorCode::cap_reached);
  ASSERT_TRUE(unpack(t.path / "a.klabz", t.path / "b.klab"));
  EXPECT_EQ(read_file(t.path / "a.klab" / "data.pack").value(),
            read_file(t.path / "b.klab" / "data.pack").value());
  EXPECT_FALSE(fs::exists(t.path / "c.klab"));
}

TEST(Pack, refuses_a_corrupt_bundle_and_leaves_no_file) {
  TempFolder t;
  ASSERT_TRUE(write_sample(t.path / "a.klab"));
  fs::resize_file(t.path / "a.klab" / "code" / "0.spv", 3);
  EXPECT_EQ(pack(t.path / "a.klab", t.path / "a.klabz").error().code, ErrorCode::bundle_corrupt);
  EXPECT_EQ(std::distance(fs::directory_iterator(t.path), fs::directory_iterator()), 1);
}

TEST(Pack, any_flipped_bit_or_other_length_is_noticed_and_leaves_nothing) {
  TempFolder t;
  const fs::path file = t.path / "a.klabz", out = t.path / "out" / "b.klab";
  ASSERT_TRUE(write_sample(t.path / "a.klab"));
  ASSERT_TRUE(pack(t.path / "a.klab", file));
  fs::create_directories(out.parent_path());
  const std::string text = read_file(file).value();
  Fd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  // One bit of every 61st byte, and of each of the first and last 40, where the headers are.
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i >= 40 && i + 40 < text.size() && i % 61 != 0) continue;
    const char flipped = static_cast<char>(text[i] ^ (1 << (i % 8)));
    ASSERT_EQ(::pwrite(fd.get(), &flipped, 1, static_cast<off_t>(i)), 1);
    EXPECT_FALSE(unpack(file, out)) << "byte " << i;
    ASSERT_EQ(::pwrite(fd.get(), &text[i], 1, static_cast<off_t>(i)), 1);
  }
  for (std::size_t n = 0; n < text.size(); n += n < 40 ? 1 : 1511) {
    write_plain(file, text.substr(0, n));
    EXPECT_FALSE(unpack(file, out)) << "cut to " << n;
  }
  write_plain(file, text + "x");
  EXPECT_FALSE(unpack(file, out));
  EXPECT_TRUE(fs::is_empty(out.parent_path()));
  write_plain(file, text);
  EXPECT_TRUE(unpack(file, out));
}

}  // namespace
}  // namespace klab::bundle
