// SPDX-License-Identifier: Apache-2.0
// Captures of real programs: what the bundle holds is what the program computed with.
#include <algorithm>
#include <set>

#include "capture/test_support.h"

namespace klab::capture {
namespace {

struct Taken {
  Result<Captured> result;
  std::optional<bundle::Reader> reader;
};

Taken take(const CaptureRequest& r) {
  Taken t{capture(r), std::nullopt};
  EXPECT_TRUE(t.result) << text_of(t.result.error());
  if (!t.result) return t;
  EXPECT_EQ(t.result->target_exit, 0);
  auto reader = bundle::Reader::open(r.bundle);
  EXPECT_TRUE(reader) << (reader ? "" : reader.error().what);
  if (!reader) return t;
  EXPECT_TRUE(reader->verify());
  t.reader.emplace(std::move(*reader));
  return t;
}

TEST(Capture, holds_what_the_program_computed) {
  Folder f;
  const auto t = take(request(f, program("saxpy", {"--size", "300000"}), "saxpy"));
  ASSERT_TRUE(t.reader);
  const auto& m = t.reader->manifest();
  ASSERT_EQ(m.dispatches.size(), 1u);
  const auto& d = m.dispatches[0];
  EXPECT_EQ(d.name, "saxpy");
  EXPECT_EQ(d.call, "vkCmdDispatch");
  EXPECT_EQ(d.grid, (bundle::Dim3{1172, 1, 1}));
  EXPECT_EQ(d.block, (bundle::Dim3{256, 1, 1}));
  EXPECT_GT(d.program_ns, 0);
  EXPECT_EQ(m.device.api, "vulkan");
  EXPECT_FALSE(m.device.driver_version.empty());
  EXPECT_EQ(m.device.uuid.size(), 32u);
  EXPECT_NE(m.program.executable.find("/saxpy"), std::string::npos);
  ASSERT_EQ(d.bindings.size(), 2u);
  ASSERT_EQ(d.push_constants.size(), 8u);
  float a;
  std::memcpy(&a, d.push_constants.data() + 4, 4);
  EXPECT_EQ(a, 0.5f);
  const auto x = values<float>(*t.reader, d.regions[d.bindings[0].region].pre);
  auto y = values<float>(*t.reader, d.regions[d.bindings[1].region].pre);
  const auto after = values<float>(*t.reader, d.regions[d.bindings[1].region].post);
  ASSERT_EQ(y.size(), 300000u);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i) wrong += std::abs(after[i] - (a * x[i] + y[i])) > 1e-5f;
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(values<float>(*t.reader, d.regions[d.bindings[0].region].post), x);
  const auto code = t.reader->code(d.code);
  ASSERT_TRUE(code);
  EXPECT_GT(code->size(), 100u);
}

TEST(Capture, takes_the_third_submission_of_one_command_buffer) {
  Folder f;
  const auto t = take(request(f, probe({"resubmit", "5"}), ".", {3}));
  ASSERT_TRUE(t.reader);
  const auto& d = t.reader->manifest().dispatches[0];
  EXPECT_EQ(d.nth, 3u);
  EXPECT_EQ(d.sequence, 3u);
  const auto& b = d.bindings[0];
  EXPECT_EQ(values<std::uint32_t>(*t.reader, d.regions[b.region].pre, b.offset, 1000),
            stepped({{0, 5}, {0, 5}}));
  expect_step(*t.reader, d);
}

TEST(Capture, takes_several_executions_into_one_bundle) {
  Folder f;
  const auto t = take(request(f, probe({"resubmit", "6"}), ".", {2, 3, 6}));
  ASSERT_TRUE(t.reader);
  ASSERT_EQ(t.reader->manifest().dispatches.size(), 3u);
  EXPECT_EQ(t.reader->manifest().code.size(), 1u);
  for (const auto& d : t.reader->manifest().dispatches) expect_step(*t.reader, d);
  EXPECT_EQ(t.reader->manifest().dispatches[2].nth, 6u);
}

// Pipeline, sets, dynamic offsets and partly pushed constants are set once and used across splits; the
// program checks its own results, whichever dispatch was split off.
class EachExecution : public ::testing::TestWithParam<int> {};
TEST_P(EachExecution, of_a_command_buffer_is_split_off_with_its_state) {
  Folder f;
  const auto nth = static_cast<std::uint64_t>(GetParam());
  const auto t = take(request(f, probe({"interleave", "4"}), ".", {nth}));
  ASSERT_TRUE(t.reader);
  const auto& d = t.reader->manifest().dispatches[0];
  std::vector<std::pair<int, std::uint32_t>> before;
  for (std::uint32_t i = 0; i + 1 < nth; ++i) before.emplace_back(i < 4 ? 0 : 1, std::min(i, 4u));
  const auto& b = d.bindings[0];
  EXPECT_EQ(values<std::uint32_t>(*t.reader, d.regions[b.region].pre, b.offset, 1000), stepped(before));
  EXPECT_EQ(d.sequence, nth);
  expect_step(*t.reader, d);
}
INSTANTIATE_TEST_SUITE_P(Capture, EachExecution, ::testing::Values(1, 2, 4, 5, 6, 7));

TEST(Capture, keeps_waits_and_signals_of_timeline_semaphores) {
  for (const char* scenario : {"timeline", "timeline2"})
    for (std::uint64_t nth : {1, 2, 3}) {
      Folder f;
      const auto t = take(request(f, probe({scenario}), ".", {nth}));
      ASSERT_TRUE(t.reader) << scenario << nth;
      expect_step(*t.reader, t.reader->manifest().dispatches[0]);
    }
}

TEST(Capture, reads_descriptors_from_templates_and_copies) {
  Folder f;
  const auto t = take(request(f, probe({"template"})));
  ASSERT_TRUE(t.reader);
  const auto& d = t.reader->manifest().dispatches[0];
  expect_step(*t.reader, d);
  EXPECT_EQ(d.bindings[1].kind, bundle::BindingKind::uniform_buffer_dynamic);
  EXPECT_EQ(d.bindings[1].offset, 256u);
}

TEST(Capture, merges_buffers_that_share_memory) {
  Folder f;
  const auto t = take(request(f, probe({"alias"})));
  ASSERT_TRUE(t.reader);
  const auto& d = t.reader->manifest().dispatches[0];
  ASSERT_EQ(d.regions.size(), 1u);
  EXPECT_EQ(d.regions[0].size, 32768u);
  EXPECT_EQ(d.bindings[1].offset, 16384u + 256u);
  expect_step(*t.reader, d);
}

TEST(Capture, keeps_the_whole_layout_with_slots_that_the_kernel_does_not_use) {
  Folder f;
  const auto t = take(request(f, probe({"resubmit", "1"})));
  ASSERT_TRUE(t.reader);
  const auto& d = t.reader->manifest().dispatches[0];
  ASSERT_EQ(d.layout.size(), 3u);
  EXPECT_EQ(d.layout[2].binding, 3u);
  EXPECT_EQ(d.layout[2].vulkan_type, 3u);  // VK_DESCRIPTOR_TYPE_STORAGE_IMAGE
  ASSERT_EQ(d.push_ranges.size(), 1u);
  EXPECT_EQ(d.push_ranges[0].size, 12u);
}

TEST(Capture, staging_copies_give_the_same_bundle) {
  Folder f, g;
  auto direct = request(f, program("pointer_table"));
  auto staged = request(g, program("pointer_table"));
  staged.target.environment["KLAB_SHIM_FORCE_STAGING"] = "1";
  const auto a = take(direct), b = take(staged);
  ASSERT_TRUE(a.reader && b.reader);
  const auto& da = a.reader->manifest().dispatches[0];
  const auto& db = b.reader->manifest().dispatches[0];
  ASSERT_EQ(da.regions.size(), db.regions.size());
  for (std::size_t i = 0; i < da.regions.size(); ++i) {
    ASSERT_EQ(da.regions[i].size, db.regions[i].size);
    // Regions that hold addresses differ by them; values do not.
    if (da.regions[i].size < 4096) continue;
    EXPECT_EQ(values<float>(*a.reader, da.regions[i].pre), values<float>(*b.reader, db.regions[i].pre));
    EXPECT_EQ(values<float>(*a.reader, da.regions[i].post), values<float>(*b.reader, db.regions[i].post));
  }
}

TEST(Capture, follows_pointers_only_to_what_they_reach) {
  Folder f, g;
  auto reachable = request(f, program("pointer_table"));
  auto all = request(g, program("pointer_table"));
  all.scope = bundle::Scope::all;
  const auto a = take(reachable), b = take(all);
  ASSERT_TRUE(a.reader && b.reader);
  const auto& da = a.reader->manifest().dispatches[0];
  const auto& db = b.reader->manifest().dispatches[0];
  EXPECT_GT(da.regions.size(), 4u);
  EXPECT_LT(da.regions.size(), db.regions.size());
  EXPECT_TRUE(std::all_of(da.regions.begin(), da.regions.end(), [](auto& r) { return r.address != 0; }));
  EXPECT_TRUE(std::any_of(da.regions.begin(), da.regions.end(),
                          [](auto& r) { return r.reached_by == bundle::ReachedBy::pointer; }));
  EXPECT_TRUE(std::any_of(db.regions.begin(), db.regions.end(),
                          [](auto& r) { return r.reached_by == bundle::ReachedBy::scope_all; }));
  // Every pointer of the first region's table lands in a captured region.
  const auto table = values<std::uint64_t>(*a.reader, da.regions[0].pre);
  for (std::uint64_t word : table)
    EXPECT_TRUE(std::any_of(da.regions.begin(), da.regions.end(),
                            [&](auto& r) { return word >= r.address && word < r.address + r.size; }));
}

TEST(Capture, tells_the_grid_of_an_indirect_dispatch_that_really_ran) {
  Folder f;
  auto list = trace(program("indirect"));
  ASSERT_TRUE(list);
  const auto row = std::find_if(list->rows.begin(), list->rows.end(),
                                [](auto& r) { return r.call == "vkCmdDispatchIndirect"; });
  ASSERT_NE(row, list->rows.end());
  const auto& kernel = list->kernels[row->kernel];
  const auto t = take(request(f, program("indirect"), kernel.hash.substr(0, 8), {row->nth}));
  ASSERT_TRUE(t.reader);
  const auto& d = t.reader->manifest().dispatches[0];
  EXPECT_EQ(d.call, "vkCmdDispatchIndirect");
  EXPECT_EQ(d.grid, row->grid);
  EXPECT_GT(d.grid[0], 1u);
  EXPECT_EQ(d.sequence, row->sequence);
}

TEST(Capture, expands_secondary_command_buffers) {
  for (std::uint64_t nth : {1, 2}) {
    Folder f;
    const auto t = take(request(f, program("secondary"), ".", {nth}));
    ASSERT_TRUE(t.reader);
    const auto& d = t.reader->manifest().dispatches[0];
    EXPECT_EQ(d.nth, nth);
    const auto& r = d.regions[d.bindings[0].region];
    EXPECT_NE(values<std::uint32_t>(*t.reader, r.pre), values<std::uint32_t>(*t.reader, r.post));
  }
}

TEST(Capture, resolves_each_pattern_of_the_examples) {
  for (const char* name : {"descriptor_array", "push_descriptors", "spec_constants", "small_types",
                           "two_queues", "many_dispatches", "forked", "float_atomics", "inplace"}) {
    Folder f;
    const auto t = take(request(f, program(name)));
    ASSERT_TRUE(t.reader) << name;
    EXPECT_FALSE(t.reader->manifest().dispatches[0].regions.empty()) << name;
  }
}

TEST(Capture, counts_the_same_executions_as_the_list) {
  auto list = trace(program("many_dispatches"));
  ASSERT_TRUE(list);
  const auto row = std::find_if(list->rows.begin(), list->rows.end(), [&](auto& r) {
    return list->kernels[r.kernel].name == "fold" && r.nth == 137;
  });
  ASSERT_NE(row, list->rows.end());
  Folder f;
  const auto t = take(request(f, program("many_dispatches"), "^fold$", {137}));
  ASSERT_TRUE(t.reader);
  const auto& d = t.reader->manifest().dispatches[0];
  EXPECT_EQ(d.sequence, row->sequence);
  EXPECT_EQ(d.grid, row->grid);
  // a[i] += b[n - 1 - i]
  const auto a = values<std::uint32_t>(*t.reader, d.regions[d.bindings[0].region].pre);
  const auto b = values<std::uint32_t>(*t.reader, d.regions[d.bindings[1].region].pre);
  const auto after = values<std::uint32_t>(*t.reader, d.regions[d.bindings[0].region].post);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(after[i], a[i] + b[a.size() - 1 - i]);
}

// A command that the layer does not know goes where it was recorded; only later splits are given up.
TEST(Capture, lets_commands_newer_than_itself_through) {
  Folder f, g;
  auto first = request(f, probe({"interleave", "4"}), ".", {1});
  first.target.environment["KLAB_SHIM_FORGET"] = "vkCmdPipelineBarrier";
  const auto t = take(first);
  ASSERT_TRUE(t.reader);
  expect_step(*t.reader, t.reader->manifest().dispatches[0]);
  auto second = request(g, probe({"interleave", "4"}), ".", {3});
  second.target.environment["KLAB_SHIM_FORGET"] = "vkCmdPipelineBarrier";
  const auto refused = capture(second);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::capture_refused);
  EXPECT_NE(refused.error().what.find("newer than the layer"), std::string::npos) << refused.error().what;
}

TEST(Capture, of_a_program_with_several_threads) {
  for (std::uint64_t nth : {1, 50, 155}) {
    Folder f;
    const auto t = take(request(f, probe({"threads", "20"}), ".", {nth}));
    ASSERT_TRUE(t.reader) << nth;
    expect_step(*t.reader, t.reader->manifest().dispatches[0]);
  }
  const auto list = trace(probe({"threads", "20"}));
  ASSERT_TRUE(list);
  EXPECT_EQ(list->exit_code, 0);
  EXPECT_EQ(list->rows.size(), 160u);
  EXPECT_TRUE(std::all_of(list->rows.begin(), list->rows.end(), [](auto& r) { return r.gpu_ns > 0; }));
}

TEST(Capture, goes_through_a_shell_and_its_children) {
  Folder f;
  auto r = request(f, program("saxpy", {"--size", "1000"}));
  r.target.argv = {"sh", "-c", r.target.argv[0] + " --size 1000; echo done"};
  const auto t = take(r);
  EXPECT_TRUE(t.reader);
}

TEST(Capture, ends_the_program_after_the_capture_when_asked) {
  Folder f;
  auto r = request(f, probe({"slow", "1000"}), ".", {2});
  r.stop_after_capture = true;
  const auto begin = std::chrono::steady_clock::now();
  const auto done = capture(r);
  ASSERT_TRUE(done) << text_of(done.error());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  EXPECT_EQ(done->target_exit, 128 + 15);
  EXPECT_TRUE(bundle::Reader::open(r.bundle)->verify());
}

}  // namespace
}  // namespace klab::capture
