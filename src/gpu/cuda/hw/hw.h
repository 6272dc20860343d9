// SPDX-License-Identifier: Apache-2.0
// What the tests that need a GPU share. Not here: tests (hw_test.cpp), modes of child processes
// (hw_child.cpp).
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "gpu/backend.h"
#include "gpu/test_arguments.h"
#include "kernels/kernels.h"

namespace klab::gpu::hw {

/// Fat binary of test_kernels.cu.
std::span<const std::byte> test_code();

Result<std::unique_ptr<Device>> open_device();

/// One launch of a kernel of test_code().
Result<LaunchId> prepare(Device& device, CodeId code, const char* kernel, bundle::Dim3 grid,
                         bundle::Dim3 block, std::vector<std::byte> arguments);
/// One of Klab's own kernels over whole memories.
Result<LaunchId> builtin(Device& device, const char* name, std::vector<LaunchSpec::Bound> bindings,
                         std::span<const std::byte> push, bundle::Dim3 grid);
Result<Placed> allocate(Device& device, std::uint64_t size);
Result<BatchResult> run(Device& device, std::vector<Step> steps, double seconds = 20);

/// Modes of this program as a child process: each ends the process. Returns when there is none.
void child_main(int argc, char** argv);

struct ChildResult {
  int code = -1;
  std::string output;
  double seconds = 0;
};
ChildResult run_child(const std::vector<std::string>& arguments);

// Exit codes of children.
inline constexpr int kDone = 0, kFailed = 1, kCollision = 3, kDeviceFault = 4, kTimeout = 5, kNoDevice = 6;

}  // namespace klab::gpu::hw
