// SPDX-License-Identifier: Apache-2.0
// What the tests on a HIP device share: its kernels, one open device, launches in a line. Not here: tests.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include <fmt/format.h>

#include "gpu/backend.h"
#include "gpu/hip/hip.h"
#include "gpu/test_arguments.h"
#include "kernels/kernels.h"

namespace klab::gpu::hip {

using ::testing::HasSubstr;
using Kind = bundle::MemoryKind;

namespace embedded {
struct Embedded {
  std::string_view name;
  const unsigned char* bytes;
  std::size_t size;
};
#include "hip_test_kernels.inc"
}  // namespace embedded

inline std::span<const std::byte> test_code() {
  return std::as_bytes(std::span(embedded::kEmbedded[0].bytes, embedded::kEmbedded[0].size));
}

#define KLAB_NEED(declaration, expression)                                 \
  auto KLAB_CONCAT(need_, __LINE__) = (expression);                        \
  ASSERT_TRUE(KLAB_CONCAT(need_, __LINE__))                                \
      << #expression << ": " << KLAB_CONCAT(need_, __LINE__).error().what; \
  declaration = std::move(*KLAB_CONCAT(need_, __LINE__))
#define KLAB_NEED_OK(expression)                                                 \
  do {                                                                           \
    const auto need_status = (expression);                                       \
    ASSERT_TRUE(need_status) << #expression << ": " << need_status.error().what; \
  } while (false)

inline Result<std::unique_ptr<Device>> open_device() {
  static const auto api = make_hip();
  const char* wanted = std::getenv("KLAB_TEST_DEVICE");
  return api->open(wanted == nullptr ? "" : wanted);
}

inline Result<BatchResult> run(Device& device, std::vector<Step> steps, double seconds = 60) {
  return device.run(steps, static_cast<std::uint64_t>(seconds * 1e9));
}

inline LaunchSpec spec_of(CodeId code, const char* kernel, bundle::Dim3 grid, bundle::Dim3 block,
                   std::vector<std::byte> arguments) {
  LaunchSpec spec;
  spec.code = code;
  spec.entry_point = kernel;
  spec.grid = grid;
  spec.block = block;
  spec.arguments = std::move(arguments);
  return spec;
}

class HipDeviceTest : public ::testing::Test {
 protected:
  static Device* shared() {
    static const auto opened = [] {
      auto device = open_device();
      if (!device) reason() = device.error().what;
      return device ? device->release() : nullptr;  // the runtime's threads outlive main()
    }();
    return opened;
  }
  static std::string& reason() {
    static std::string text;
    return text;
  }
  void SetUp() override {
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";  // a process of its own for what ends a device
    device = shared();
    if (device == nullptr) GTEST_SKIP() << "no HIP device, and no simulated one: " << reason();
  }
  Device* device = nullptr;

  std::vector<std::byte> random_bytes(std::size_t size, unsigned seed = 1) {
    std::vector<std::byte> bytes(size);
    std::mt19937 random(seed);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    return bytes;
  }
  Result<Placed> allocate(std::uint64_t size) {
    const MemoryRequest request{.size = size};
    KLAB_TRY(const auto placed, device->place(std::span(&request, 1), false));
    return placed.at(0);
  }
  Result<Placed> filled(const std::vector<std::byte>& bytes) {
    KLAB_TRY(const auto placed, allocate(std::max<std::size_t>(4, bytes.size())));
    KLAB_TRY_VOID(device->upload(placed.id, 0, bytes));
    return placed;
  }
  template <class T>
  std::vector<T> read(MemoryId memory, std::size_t count) {
    std::vector<T> out(count);
    const auto s = device->download(memory, 0, std::as_writable_bytes(std::span(out)));
    EXPECT_TRUE(s) << s.error().what;
    return out;
  }
  Result<LaunchId> builtin(const char* name, std::vector<LaunchSpec::Bound> bindings, std::span<const std::byte> push,
                           bundle::Dim3 grid) {
    KLAB_TRY(const CodeId code, device->load(device->builtin_kernel(name)));
    LaunchSpec spec;
    spec.code = code;
    spec.grid = grid;
    spec.bindings = std::move(bindings);
    spec.push_constants.assign(push.begin(), push.end());
    return device->prepare(spec);
  }
};

}  // namespace klab::gpu::hip
