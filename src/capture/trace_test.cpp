// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/subprocess.h"
#include "capture/test_support.h"

namespace klab::capture {
namespace {

TEST(Trace, lists_every_dispatch_with_its_gpu_time) {
  const auto list = trace(program("many_dispatches"));
  ASSERT_TRUE(list) << text_of(list.error());
  EXPECT_EQ(list->exit_code, 0);
  EXPECT_EQ(list->rows.size(), 600u);
  std::set<std::string> names;
  for (const auto& k : list->kernels) {
    names.insert(k.name);
    EXPECT_EQ(k.block, (bundle::Dim3{64, 1, 1}));
    EXPECT_EQ(k.hash.size(), 16u);
    EXPECT_EQ(k.refusal, "");
  }
  EXPECT_EQ(names, (std::set<std::string>{"scale", "mix", "fold"}));
  std::vector<std::uint64_t> nth(list->kernels.size());
  double before = 0;
  for (std::size_t i = 0; i < list->rows.size(); ++i) {
    const auto& r = list->rows[i];
    EXPECT_EQ(r.sequence, i + 1);
    EXPECT_EQ(r.nth, ++nth[r.kernel]);
    EXPECT_GT(r.gpu_ns, 0) << i;
    EXPECT_GE(r.begin_ns, before);
    before = r.begin_ns;
  }
}

TEST(Trace, knows_times_of_a_command_buffer_that_is_submitted_again_at_once) {
  const auto list = trace(probe({"resubmit", "5"}));
  ASSERT_TRUE(list);
  ASSERT_EQ(list->rows.size(), 5u);
  EXPECT_EQ(list->rows.back().nth, 5u);
  EXPECT_GT(list->rows.back().gpu_ns, 0);
  // Earlier executions may be overwritten before they can be read: then their time is not known, never wrong.
  std::set<double> begins;
  for (const auto& r : list->rows)
    if (r.gpu_ns != 0) {
      EXPECT_TRUE(begins.insert(r.begin_ns).second);
    }
}

TEST(Trace, reads_times_of_a_program_without_host_query_reset_when_it_is_idle) {
  const auto list = trace(probe({"old", "5"}));
  ASSERT_TRUE(list);
  ASSERT_EQ(list->rows.size(), 5u);
  for (const auto& r : list->rows) EXPECT_GT(r.gpu_ns, 0);
}

TEST(Trace, tells_the_grids_of_indirect_dispatches) {
  const auto list = trace(program("indirect"));
  ASSERT_TRUE(list);
  std::vector<std::uint32_t> grids;
  for (const auto& r : list->rows)
    if (r.call == "vkCmdDispatchIndirect") grids.push_back(r.grid[0]);
  ASSERT_EQ(grids.size(), 2u);
  EXPECT_GT(grids[0], 1u);
  EXPECT_EQ(grids[1], 0u);
}

TEST(Trace, evaluates_specialized_workgroup_sizes) {
  const auto list = trace(program("spec_constants"));
  ASSERT_TRUE(list);
  std::set<std::uint32_t> blocks;
  for (const auto& k : list->kernels) blocks.insert(k.block[0]);
  EXPECT_EQ(blocks, (std::set<std::uint32_t>{32, 64, 128}));
}

TEST(Trace, sees_a_forked_child_and_a_shell) {
  const auto list = trace(program("forked"));
  ASSERT_TRUE(list);
  EXPECT_FALSE(list->rows.empty());
  Target t = program("saxpy", {"--size", "1000"});
  t.argv = {"sh", "-c", t.argv[0] + " --size 1000 & " + t.argv[0] + " --size 1000; wait"};
  const auto both = trace(t);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->rows.size(), 2u);
  EXPECT_EQ(both->kernels.size(), 1u);
}

TEST(Trace, keeps_the_list_of_a_program_that_dies_or_never_cleans_up) {
  const auto died = trace(program("crash"));
  ASSERT_TRUE(died) << text_of(died.error());
  EXPECT_EQ(died->exit_code, 128 + 11);
  EXPECT_FALSE(died->rows.empty());
  // Also what was in no packet yet.
  const auto later = trace(program("crash", {"--iterations", "7"}));
  ASSERT_TRUE(later);
  EXPECT_EQ(later->rows.size(), 7u);
  for (std::size_t i = 0; i < later->rows.size(); ++i) EXPECT_EQ(later->rows[i].sequence, i + 1);
  const auto leaked = trace(probe({"leak"}));
  ASSERT_TRUE(leaked);
  EXPECT_EQ(leaked->rows.size(), 1u);
}

TEST(Trace, of_a_program_that_dies_before_any_dispatch_is_target_failed) {
  Target t;
  t.argv = {"sh", "-c", "kill -9 $$"};
  const auto list = trace(t);
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, ErrorCode::target_failed);
}

TEST(Trace, warns_of_a_program_without_vulkan) {
  Target t;
  t.argv = {"sh", "-c", "exit 3"};
  const auto list = trace(t);
  ASSERT_TRUE(list);
  EXPECT_EQ(list->exit_code, 3);
  ASSERT_FALSE(list->warnings.empty());
}

TEST(Layer, is_silent_and_idle_without_a_socket) {
  SpawnOptions o;
  o.argv = {KLAB_BUILD_DIR "/klab_shim_probe", "interleave"};
  o.environment = {{"VK_ADD_LAYER_PATH", KLAB_BUILD_DIR}, {"VK_INSTANCE_LAYERS", "VK_LAYER_KLAB_capture"}};
  const auto done = run_program(o);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->err, "");
  EXPECT_EQ(done->out, "probe: ok\n");
}

TEST(Layer, passes_through_when_klab_cannot_be_reached) {
  SpawnOptions o;
  o.argv = {KLAB_BUILD_DIR "/klab_shim_probe", "interleave"};
  o.environment = {{"VK_ADD_LAYER_PATH", KLAB_BUILD_DIR},
                   {"VK_INSTANCE_LAYERS", "VK_LAYER_KLAB_capture"},
                   {"KLAB_CAPTURE_SOCKET", "/nonexistent/s"}};
  const auto done = run_program(o);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->out, "probe: ok\n");
  EXPECT_EQ(std::count(done->err.begin(), done->err.end(), '\n'), 1);
}

// Validation above the layer sees the program's calls; below it, the layer's own.
TEST(Layer, causes_no_validation_message) {
  if (!fs::exists("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json"))
    GTEST_SKIP() << "vulkan-validationlayers is not installed";
  for (const char* order :
       {"VK_LAYER_KHRONOS_validation", "VK_LAYER_KLAB_capture:VK_LAYER_KHRONOS_validation"})
    for (const char* name : {"indirect", "secondary", "push_descriptors", "descriptor_array"})
      for (const bool tracing : {true, false}) {
        Folder f;
        const std::string log = (f.path / "log").string();
        Target t = program(name);
        t.argv = {"sh", "-c", t.argv[0] + " > " + log + " 2>&1"};
        t.environment["VK_INSTANCE_LAYERS"] = order;
        t.environment["KLAB_SHIM_FORCE_STAGING"] = "1";
        if (tracing) {
          ASSERT_TRUE(trace(t));
        } else {
          Folder bundles;
          const auto done = capture(request(bundles, t, ".", {2}));
          ASSERT_TRUE(done || done.error().code == ErrorCode::no_such_kernel) << text_of(done.error());
        }
        EXPECT_EQ(read_file(log).value_or("").find("Validation"), std::string::npos)
            << name << " " << order << "\n"
            << read_file(log).value_or("");
      }
}

}  // namespace
}  // namespace klab::capture
