// SPDX-License-Identifier: Apache-2.0
// The calibration kernels on a real GPU do what is counted: bytes, steps of chains, products of matrices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "gpu/calibration_checks.h"
#include "gpu/cuda/hw/hw.h"

namespace klab::gpu::hw {
namespace {

class CudaCalibration : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_device();
    if (!opened) GTEST_SKIP() << "no CUDA device: " << opened.error().what;
    device = std::move(*opened);
  }
  static void say(const std::vector<std::string>& checked) {
    fmt::print("checked:");
    for (const std::string& name : checked) fmt::print(" {}", name);
    fmt::print("\n");
  }
  std::unique_ptr<Device> device;
};

TEST_F(CudaCalibration, memory_kernels_move_each_byte_that_is_counted) {
  std::vector<std::string> checked;
  calibration_checks::check_memory(*device, checked);
  say(checked);
  EXPECT_GE(checked.size(), device->identity().device_id >= 90 ? 23u : 21u);
}

TEST_F(CudaCalibration, vector_kernels_do_each_step_that_is_counted) {
  std::vector<std::string> checked;
  calibration_checks::check_vectors(*device, checked);
  say(checked);
  EXPECT_GE(checked.size(), device->identity().device_id >= 80 ? 6u : 5u);
}

TEST_F(CudaCalibration, matrix_kernels_add_up_each_product_that_is_counted) {
  std::vector<std::string> checked;
  calibration_checks::check_matrices(*device, checked);
  say(checked);
  const auto capability = device->identity().device_id;
  EXPECT_GE(checked.size(), capability == 90 ? 16u : capability >= 89 ? 6u : capability >= 80 ? 5u : 0u);
}

}  // namespace
}  // namespace klab::gpu::hw
