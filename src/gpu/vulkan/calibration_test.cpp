// SPDX-License-Identifier: Apache-2.0
// The calibration kernels on a Vulkan driver do what is counted.
#include <gmock/gmock.h>

#include "gpu/calibration_checks.h"
#include "gpu/vulkan/test_support.h"

namespace klab::gpu {
namespace {

class CalibrationKernels : public VulkanTest {};

TEST_F(CalibrationKernels, memory_kernels_move_each_byte_that_is_counted) {
  std::vector<std::string> checked;
  calibration_checks::check_memory(*device, checked);
  EXPECT_EQ(checked.size(), 16u);  // 5 by 3 widths, and fill
}

TEST_F(CalibrationKernels, vector_kernels_do_each_step_that_is_counted) {
  using ::testing::Contains;
  std::vector<std::string> checked;
  calibration_checks::check_vectors(*device, checked);
  EXPECT_THAT(checked, Contains("calibrate_fp32"));
  EXPECT_THAT(checked, Contains("calibrate_int32"));
}

TEST_F(CalibrationKernels, there_are_no_others) {
  std::vector<std::string> checked;
  calibration_checks::check_matrices(*device, checked);
  EXPECT_TRUE(checked.empty());
  EXPECT_TRUE(device->builtin_kernel("calibrate_wgmma_bf16").empty());
}

}  // namespace
}  // namespace klab::gpu
