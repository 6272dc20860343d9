// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of this folder: a device per test, GLSL through glslc, and one-line launches.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "gpu/backend.h"

namespace klab::gpu {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}

/// Compiles a compute shader; a failure is the test's bug and aborts it.
std::vector<std::byte> compile_glsl(const std::string& source, std::vector<std::string> options = {});

/// Opens lavapipe, or whatever KLAB_TEST_DEVICE selects.
std::unique_ptr<Device> open_device(std::span<const AddressRange> wanted = {});

class VulkanTest : public testing::Test {
 protected:
  void SetUp() override { device = open_device(); }

  MemoryId memory(std::uint64_t size) {
    MemoryRequest request{.size = size};
    auto placed = device->place(std::span(&request, 1), false);
    EXPECT_TRUE(placed) << placed.error().what;
    return placed ? placed->front().id : 0;
  }
  template <class T>
  MemoryId memory_with(const std::vector<T>& values) {
    const MemoryId id = memory(values.size() * sizeof(T));
    EXPECT_TRUE(device->upload(id, 0, bytes_of(values)));
    return id;
  }
  template <class T>
  std::vector<T> read(MemoryId id, std::size_t count, std::uint64_t offset = 0) {
    std::vector<T> out(count);
    EXPECT_TRUE(device->download(id, offset, std::as_writable_bytes(std::span(out))));
    return out;
  }
  /// Set 0, bindings 0.. are whole storage buffers.
  LaunchSpec spec_of(CodeId code, const std::vector<std::pair<MemoryId, std::uint64_t>>& buffers,
                     std::span<const std::byte> push = {});
  CodeId load(const std::string& glsl, std::vector<std::string> options = {}) {
    auto code = device->load(compile_glsl(glsl, std::move(options)));
    EXPECT_TRUE(code) << code.error().what;
    return code.value_or(0);
  }
  LaunchId prepare(const LaunchSpec& spec) {
    auto launch = device->prepare(spec);
    EXPECT_TRUE(launch) << launch.error().what;
    return launch.value_or(0);
  }
  BatchResult run(std::vector<Step> steps) {
    auto result = device->run(steps, 60'000'000'000);
    EXPECT_TRUE(result) << result.error().what;
    return result.value_or(BatchResult{});
  }

  std::unique_ptr<Device> device;
};

}  // namespace klab::gpu
