// SPDX-License-Identifier: Apache-2.0
// Which kernel a kernel object is, and the code object that it came with.
// Not here: what is wanted and counted (launch/kernels.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shim/hsa/api.h"
#include "shim/launch/kernels.h"

namespace klab::shim {

using Code = std::vector<std::byte>;

/// One kernel of one loaded executable.
struct Loaded {
  Kernel* kernel = nullptr;
  std::string mangled;
  hsa_executable_t executable{};
  hsa_agent_t agent{};
  std::uint32_t kernarg_bytes = 0, group_bytes = 0, private_bytes = 0;
  std::shared_ptr<const Code> code;  // null: it was not seen, or not kept because the kernel is not wanted
};

/// The kernel behind an AQL packet's kernel_object; null: not known. Thread: any, no lock of ours held.
std::shared_ptr<const Loaded> loaded_kernel(std::uint64_t kernel_object);

struct Global {
  std::string name;
  std::uint64_t address = 0, size = 0;
  bool constant = false;
};
/// Variables of a kernel's executable that `agent` sees.
std::vector<Global> globals_of(const Loaded& kernel);

void hook_code(HsaApiTable& table);
/// The runtime goes; handles mean nothing from here on.
void forget_code();
void code_after_fork();

}  // namespace klab::shim
