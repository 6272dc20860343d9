// SPDX-License-Identifier: Apache-2.0
// One launch as the driver got it, whichever call it came by, and its parameter buffer.
// Not here: what it reaches (snapshot.h).
#pragma once
#include <cuda.h>

#include <optional>
#include <string>
#include <vector>

#include "shim/abi/abi.h"
#include "shim/cuda/cubin.h"

namespace klab::shim {

struct Launch {
  std::uint32_t call = KLAB_CALL_CUDA_LAUNCH;
  CUfunction function = nullptr;
  std::uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  std::uint32_t dynamic_shared = 0;
  CUstream stream = nullptr;
  bool per_thread = false;  // a null stream means the thread's own
  void** parameters = nullptr;
  void** extra = nullptr;
  const CUlaunchAttribute* attributes = nullptr;
  std::uint32_t attribute_count = 0;
  bool cooperative = false;

  /// The stream with the default one spelled out.
  CUstream real_stream() const;
};

/// The parameter buffer as the kernel gets it: packed by `layout`, or the program's own packed buffer. Empty `why`:
/// done. Bytes between parameters are zero. `layout` may be absent for a packed buffer, and for no parameters at all.
std::vector<std::byte> pack_arguments(const Launch& launch, const std::optional<std::vector<Parameter>>& layout,
                                      std::string& why);

struct Attribute {
  std::string name;
  std::int64_t value = 0;
};
struct Attributes {
  std::vector<Attribute> set;
  std::uint32_t cluster[3] = {0, 0, 0};
  std::vector<std::pair<std::string, std::string>> left_out;  // what, why
};
/// Attributes of the launch by the name that a bundle gives them.
Attributes read_attributes(const Launch& launch);

}  // namespace klab::shim
