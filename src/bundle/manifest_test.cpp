// SPDX-License-Identifier: Apache-2.0
// Manifests and indexes that lie: sealed correctly, so that only the checks of their meaning stand in the
// way.
#include <gtest/gtest.h>

#include "bundle/index.h"
#include "bundle/manifest.h"
#include "bundle/reader.h"
#include "bundle/seal.h"
#include "bundle/test_bundle.h"

namespace klab::bundle {
namespace {

using testing::sample_manifest;
using testing::TempFolder;
using testing::write_sample;

Json good_json() {
  Manifest m = sample_manifest();
  m.made_by = "klab 0.1.0";
  m.code = {{"spirv", "code/0.spv", 64, std::string(32, 'a'), "saxpy.comp"}};
  m.index_hash = std::string(32, 'b');
  return m;
}

Result<Manifest> read(const Json& j) { return read_manifest(seal_json(j), "m"); }

TEST(Manifest, every_member_round_trips) {
  const Json j = good_json();
  const auto m = read(j);
  ASSERT_TRUE(m) << m.error().what;
  EXPECT_EQ(Json(*m), j);
  EXPECT_EQ(m->dispatches[0].regions[0].opaque_address, 0xfedcba9876543210);
  EXPECT_EQ(m->dispatches[0].regions[0].pre, kNoList);
  EXPECT_EQ(write_manifest(*m), seal_json(j));
}

TEST(Manifest, seal_is_its_last_member) {
  const std::string text = seal_json(good_json());
  EXPECT_EQ(text.find("\"seal\""), text.size() - std::string("\"seal\": \"\"\n}\n").size() - 32);
}

TEST(Manifest, a_command_line_that_is_not_utf8_still_seals_and_reads) {
  Manifest m = good_json().get<Manifest>();
  m.program.argv.push_back("caf\xe9");
  const auto back = read_manifest(write_manifest(m), "m");
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(back->program.argv.back(), "caf\xef\xbf\xbd");
}

TEST(Manifest, members_of_a_later_minor_version_are_ignored) {
  Json j = good_json();
  j["zzz"] = {1, 2};
  j["dispatches"][0]["new"] = "x";
  EXPECT_TRUE(read(j));
}

TEST(Manifest, a_newer_format_is_told_apart_from_damage) {
  Json j = good_json();
  j["format"] = kFormatVersion + 1;
  EXPECT_EQ(read(j).error().code, ErrorCode::bundle_version);
  EXPECT_EQ(read_manifest(j.dump(2), "m").error().code, ErrorCode::bundle_corrupt);
  EXPECT_EQ(read_manifest("{\"format\": 1", "m").error().code, ErrorCode::invalid_data);
}

TEST(Manifest, equal_json_with_other_blanks_is_damage) {
  std::string text = seal_json(good_json());
  text.insert(text.find("\n  \"device\"") + 1, " ");
  EXPECT_EQ(read_manifest(text, "m").error().code, ErrorCode::bundle_corrupt);
}

struct Lie {
  const char* name;
  const char* pointer;  // JSON pointer
  Json value;
};
void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }

class Lies : public ::testing::TestWithParam<Lie> {};

TEST_P(Lies, are_refused) {
  Json j = good_json();
  j[Json::json_pointer(GetParam().pointer)] = GetParam().value;
  const auto m = read(j);
  ASSERT_FALSE(m);
  EXPECT_EQ(m.error().code, ErrorCode::invalid_data) << m.error().what;
  EXPECT_FALSE(m.error().what.empty());
}

const Lie kLies[] = {
    {"region_of_2_60_bytes", "/dispatches/0/regions/0/size", 1ull << 60},
    {"region_that_wraps", "/dispatches/0/regions/0/address", "0xfffffffffffffff0"},
    {"region_of_negative_size", "/dispatches/0/regions/0/size", -1},
    {"region_of_fractional_size", "/dispatches/0/regions/0/size", 1.5},
    {"region_with_a_wrong_id", "/dispatches/0/regions/1/id", 0},
    {"address_that_is_a_number", "/dispatches/0/regions/0/address", 4096},
    {"address_of_17_digits", "/dispatches/0/regions/0/address", "0x10000000000000000"},
    {"kind_that_does_not_exist", "/dispatches/0/regions/0/kind", "floppy"},
    {"file_outside", "/code/0/file", "../x"},
    {"file_outside_by_code", "/code/0/file", "code/../manifest.json"},
    {"file_absolute", "/code/0/file", "/etc/passwd"},
    {"file_in_a_subfolder", "/code/0/file", "code/a/b"},
    {"file_without_name", "/code/0/file", "code/"},
    {"file_hidden", "/code/0/file", "code/.."},
    {"file_with_a_nul", "/code/0/file", std::string("code/0.spv\0x", 12)},
    {"file_with_an_escape", "/code/0/file", "code/\x1b[2J"},
    {"code_of_2_60_bytes", "/code/0/size", 1ull << 60},
    {"code_without_a_hash", "/code/0/hash", "abc"},
    {"dispatch_of_code_that_is_not_there", "/dispatches/0/code", 1},
    {"no_dispatch", "/dispatches", Json::array()},
    {"binding_of_no_region", "/dispatches/0/bindings/0/region", 2},
    {"binding_beyond_its_region", "/dispatches/0/bindings/0/range", 4985},
    {"binding_that_wraps", "/dispatches/0/bindings/0/offset", ~0ull},
    {"binding_in_set_4_billion", "/dispatches/0/bindings/0/set", 0xffffffffu},
    {"slot_with_4_billion_descriptors", "/dispatches/0/layout/0/count", 0xffffffffu},
    {"push_range_beyond_64_KiB", "/dispatches/0/push_ranges/0/size", 70000},
    {"push_constants_of_odd_hex", "/dispatches/0/push_constants", "abc"},
    {"push_constants_that_are_a_list", "/dispatches/0/push_constants", Json::array({1, 2})},
    {"spec_constant_of_3_bytes", "/dispatches/0/spec_constants/0/value", "010203"},
    {"varying_of_no_region", "/dispatches/0/proof/varying/0/region", 9},
    {"varying_beyond_its_region", "/dispatches/0/proof/varying/0/offset", 4997},
    {"grid_of_two", "/dispatches/0/grid", Json::array({1, 2})},
    {"grid_over_2_32", "/dispatches/0/grid/0", 1ull << 32},
    {"grid_negative", "/dispatches/0/grid/0", -1},
    {"threads_that_need_another_grid", "/dispatches/0/threads", Json::array({100000, 1, 1})},
    {"threads_of_zero", "/dispatches/0/threads", Json::array({0, 1, 1})},
    {"format_0", "/format", 0},
    {"format_text", "/format", "1"},
    {"index_hash_short", "/index_hash", "b"},
    {"device_a_list", "/device", Json::array()},
    {"argv_of_numbers", "/program/argv", Json::array({1})},
};
INSTANTIATE_TEST_SUITE_P(Manifest, Lies, ::testing::ValuesIn(kLies),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Manifest, a_hip_launch_round_trips) {
  Manifest m = good_json().get<Manifest>();
  m.device.arch = "gfx1030";
  Dispatch& d = m.dispatches[0];
  d.grid = {4, 2, 1}, d.block = {64, 2, 1}, d.threads = {250, 3, 1};
  d.arguments = Bytes(std::vector<std::byte>(24));
  d.argument_layout = {{0, 8, "x", "global_buffer"}, {8, 4, {}, "by_value"}, {16, 8, {}, "hidden_hostcall_buffer"}};
  const auto back = read_manifest(write_manifest(m), "m");
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(Json(*back), Json(m));
  EXPECT_EQ(back->device.arch, "gfx1030");
  EXPECT_EQ(back->dispatches[0].threads, d.threads);
  EXPECT_FALSE(back->dispatches[0].argument_layout[0].hidden());
  EXPECT_TRUE(back->dispatches[0].argument_layout[2].hidden());
}

TEST(Manifest, regions_may_not_sum_beyond_the_total) {
  Json j = good_json();
  j["dispatches"][0]["regions"][0]["size"] = 1ull << 47;
  j["dispatches"][0]["regions"][1]["size"] = 1ull << 47;
  EXPECT_TRUE(read(j));
  j["dispatches"].push_back(j["dispatches"][0]);
  EXPECT_EQ(read(j).error().code, ErrorCode::invalid_data);
}

TEST(Reader, refuses_regions_that_disagree_with_the_index) {
  for (const auto& [pointer, value] : {std::pair<const char*, Json>{"/dispatches/0/regions/0/pre", 4},
                                       {"/dispatches/0/regions/0/pre", 2},
                                       {"/dispatches/0/regions/0/post", 0xfffffffeu},
                                       {"/dispatches/0/regions/0/size", 5001}}) {
    TempFolder t;
    ASSERT_TRUE(write_sample(t.path / "a.klab"));
    Json j = parse_json(read_file(t.path / "a.klab" / "manifest.json").value(), "m").value();
    j.erase("seal");
    j[Json::json_pointer(pointer)] = value;
    ASSERT_TRUE(write_file_atomic(t.path / "a.klab" / "manifest.json", seal_json(j)));
    EXPECT_EQ(Reader::open(t.path / "a.klab").error().code, ErrorCode::invalid_data)
        << pointer << " " << value;
  }
}

// The index of a list of 1 MiB + 10 bytes: a stored chunk, then another of 10.
Index sample_index() {
  Index index;
  index.chunks = {{{1, 2}, 0, 1 << 20}, {{3, 4}, 1 << 20, 10}};
  index.lists = {{(1 << 20) + 10, 0}, {5, 2}};
  index.numbers = {0, 1, kZeroChunk};
  index.pack_size = (1 << 20) + 4096;
  return index;
}
Result<Index> reread(const std::string& text) { return read_index(std::as_bytes(std::span(text)), "i"); }

TEST(Index, round_trips) {
  const std::string text = write_index(sample_index());
  const auto index = reread(text);
  ASSERT_TRUE(index) << index.error().what;
  EXPECT_EQ(write_index(*index), text);
  EXPECT_EQ(index->list_chunks(0), 2u);
}

TEST(Index, is_laid_out_as_documented) {
  const std::string text = write_index(sample_index());
  ASSERT_EQ(text.size(), 48u + 2 * 32 + 2 * 8 + 3 * 4);
  EXPECT_EQ(text.substr(0, 8), "KLABIDX\n");
  EXPECT_EQ(text.substr(8, 8), std::string("\1\0\0\0\0\0\x10\0", 8));
  EXPECT_EQ(text.substr(48, 16), std::string("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(text.substr(text.size() - 4), "\xff\xff\xff\xff");
}

TEST(Index, lies_are_refused_before_anything_is_allocated) {
  const std::vector<std::pair<const char*, std::function<void(Index&)>>> lies = {
      {"chunk of no bytes", [](Index& i) { i.chunks[1].size = 0; }},
      {"chunk over 1 MiB", [](Index& i) { i.chunks[0].size = (1 << 20) + 1; }},
      {"overlapping chunks", [](Index& i) { i.chunks[1].offset = 4096; }},
      {"gap", [](Index& i) { i.chunks[1].offset += 4096; }},
      {"wrapping offset", [](Index& i) { i.chunks[1].offset = ~0ull - 4095; }},
      {"pack longer than its chunks", [](Index& i) { i.pack_size += 4096; }},
      {"pack shorter than its chunks", [](Index& i) { i.pack_size -= 4096; }},
      {"list of 2^60 bytes", [](Index& i) { i.lists[0].size = 1ull << 60; }},
      {"list of 2^64 - 1 bytes", [](Index& i) { i.lists[0].size = ~0ull; }},
      {"list that is too short for its numbers", [](Index& i) { i.lists[0].size = 10; }},
      {"number out of range", [](Index& i) { i.numbers[1] = 2; }},
      {"short chunk in the middle", [](Index& i) { i.numbers[0] = 1; }},
      {"long chunk at the end", [](Index& i) { i.numbers[1] = 0; }},
  };
  for (const auto& [name, change] : lies) {
    Index index = sample_index();
    change(index);
    const auto read = reread(write_index(index));
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().code, ErrorCode::invalid_data) << name;
  }
  const std::string text = write_index(sample_index());
  for (std::size_t count_at : {16, 24, 32})
    for (const std::uint64_t count : {0ull, 1ull << 28, 1ull << 60, ~0ull}) {
      std::string lie = text;
      std::memcpy(lie.data() + count_at, &count, 8);
      EXPECT_FALSE(reread(lie)) << count << " at " << count_at;
    }
  for (std::size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(reread(text.substr(0, n))) << n;
  std::string newer = text;
  newer[8] = 2;
  EXPECT_EQ(reread(newer).error().code, ErrorCode::bundle_version);
}

TEST(Golden, format_1_still_reads) {
  const fs::path path = fs::path(KLAB_SOURCE_DIR) / "tests" / "golden" / "bundle_v1.klab";
  auto r = Reader::open(path);
  ASSERT_TRUE(r) << r.error().what;
  ASSERT_TRUE(r->verify()) << r->verify().error().what;
  Manifest expected = sample_manifest();
  const Manifest& m = r->manifest();
  EXPECT_EQ(m.format, 1);
  EXPECT_EQ(Json(m.device), Json(expected.device));
  EXPECT_EQ(Json(m.program), Json(expected.program));
  auto& regions = expected.dispatches[0].regions;
  regions[0].pre = 0, regions[0].post = 1, regions[1].pre = 2, regions[1].post = 3;
  EXPECT_EQ(Json(m.dispatches[0]), Json(expected.dispatches[0]));
  std::vector<std::byte> bytes(5000);
  ASSERT_TRUE(r->read(1, 0, bytes));
  EXPECT_EQ(bytes, testing::noise(5000, 2));
  EXPECT_EQ(r->chunk_hash(2, 0), Hash128{});
  EXPECT_EQ(r->code(0).value(), testing::noise(64, 4));
}

}  // namespace
}  // namespace klab::bundle
