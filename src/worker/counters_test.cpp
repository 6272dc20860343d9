// SPDX-License-Identifier: Apache-2.0
#include "worker/counters.h"

#include <gtest/gtest.h>

#include <set>

namespace klab::worker {
namespace {

TEST(Counters, the_default_set_names_each_counter_once_and_keeps_what_was_asked_besides) {
  const auto names = counter_names("cuda", {"default", "my__counter.sum", "dram__bytes_read.sum"});
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_NE(std::find(names.begin(), names.end(), "dram__bytes_read.sum"), names.end());
  EXPECT_NE(std::find(names.begin(), names.end(), "my__counter.sum"), names.end());
  EXPECT_EQ(counter_names("vulkan", {"default", "x"}), std::vector<std::string>{"x"});
}

TEST(Counters, a_fused_multiply_add_is_two_operations) {
  const gpu::Counters counters{.values = {{"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 3},
                                          {"smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 5},
                                          {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 7}},
                               .missing = {},
                               .passes = 2};
  const Json j = counters_json("cuda", counters);
  EXPECT_EQ(j["derived"]["flop_fp32"]["value"], 3 + 5 + 2 * 7);
  EXPECT_EQ(j["derived"]["flop_fp32"]["from"].size(), 3u);
  EXPECT_EQ(j["passes"], 2);
}

TEST(Counters, a_figure_is_left_out_when_one_of_its_counters_is_missing) {
  const gpu::Counters counters{
      .values = {{"dram__bytes_read.sum", 100}}, .missing = {"dram__bytes_write.sum"}, .passes = 1};
  const Json j = counters_json("cuda", counters);
  EXPECT_EQ(j["derived"]["dram_read_bytes"]["value"], 100);
  EXPECT_FALSE(j["derived"].contains("dram_bytes"));
  EXPECT_EQ(j["missing"][0], "dram__bytes_write.sum");
}

}  // namespace
}  // namespace klab::worker
