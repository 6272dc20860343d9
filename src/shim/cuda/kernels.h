// SPDX-License-Identifier: Apache-2.0
// Which kernel a function handle is, and the code objects that the driver loaded.
// Not here: launches (callbacks.cpp), what is wanted and counted (launch/kernels.h).
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shim/cuda/cubin.h"
#include "shim/launch/kernels.h"

namespace klab::shim {

struct Code {
  std::uint32_t module_id = 0;  // CUPTI's
  std::vector<std::byte> bytes;
};

/// What one function needs to be captured.
struct Resolved {
  CUfunction function = nullptr;  // never a CUkernel
  CUkernel kernel = nullptr;      // when the program launched one
  CUmodule module = nullptr;
  std::shared_ptr<const Code> code;
  std::optional<std::vector<Parameter>> layout;
};

/// The kernel of `function` when the user asked for it, else null. Fast for a handle that was seen before.
/// `symbol`: its name as CUPTI gives it, or null.
Kernel* wanted_kernel(CUfunction function, const char* symbol);
/// The mangled name of a CUfunction or of a CUkernel cast to one; empty: the driver does not tell.
std::string mangled_name(CUfunction function, const char* symbol);

/// A wanted kernel's function is seen: its code is noted while it can be told apart from code of the same
/// name. At the first launch of a handle this makes the driver load what it would load for that launch
/// anyway.
void note_code(CUfunction function, const Kernel& kernel);
/// Everything that a capture needs. Empty `why`: done. No lock of ours may be held.
Resolved resolve(CUfunction function, const Kernel& kernel, std::string& why);

// What callbacks tell of modules. Safe under the driver's locks: no driver call, no wait.
void module_loaded(std::uint32_t module_id, const void* cubin, std::size_t size);
void module_unloading(std::uint32_t module_id);
/// The load call that this thread is in has returned this module or library; both null: it failed.
void load_returned(CUmodule module, CUlibrary library);
void load_begins();
/// Handles may be given out again.
void forget_handles(CUmodule module, CUlibrary library);

void kernels_after_fork();

}  // namespace klab::shim
