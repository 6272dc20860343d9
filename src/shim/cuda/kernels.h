// SPDX-License-Identifier: Apache-2.0
// Which kernel a function handle is, how often it ran, whether it is wanted; and the code objects that the driver
// loaded. Not here: launches (callbacks.cpp).
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shim/cuda/cubin.h"

namespace klab::shim {

/// All functions of one mangled name: what a trace lists and what --nth counts.
struct Kernel {
  std::uint32_t id = 0;
  std::string mangled, name;  // name: demangled
  std::uint64_t hash = 0;     // of the mangled name
  bool matches = false;
  std::uint64_t executions = 0;      // under counts().lock
  std::uint64_t code_sent_hash = 0;  // low half of the code that klab has
};

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

struct Counts {
  std::mutex lock;
  const Kernel* chosen = nullptr;  // the first of several matching kernels whose wanted execution came
  std::size_t taken = 0;
  std::atomic<bool> finished{false};
  std::atomic<std::uint64_t> sequence{0};
};
Counts& counts();

/// The kernel of `function` when the user asked for it, else null. Fast for a handle that was seen before.
/// `symbol`: its name as CUPTI gives it, or null.
Kernel* wanted_kernel(CUfunction function, const char* symbol);
/// A kernel by its mangled name, made and announced to klab when new.
Kernel& kernel_named(const std::string& mangled);
/// The mangled name of a CUfunction or of a CUkernel cast to one; empty: the driver does not tell.
std::string mangled_name(CUfunction function, const char* symbol);
std::string demangle(const std::string& mangled);

/// Everything that a capture needs; makes the driver load what is loaded lazily. Empty `why`: done.
/// No lock of ours may be held.
Resolved resolve(CUfunction function, const Kernel& kernel, std::string& why);

/// KERNEL with its code, unless klab has just that.
bool send_code(Kernel& kernel, const Code& code);
void send_counts();

// What callbacks tell of modules. Safe under the driver's locks: no driver call, no wait.
void module_loaded(std::uint32_t module_id, const void* cubin, std::size_t size);
void module_unloading(std::uint32_t module_id);
/// The load call that this thread is in has returned `module` (or null: a library).
void load_returned(CUmodule module);
void load_begins();
/// Handles may be given out again.
void forget_handles(CUmodule module);

void kernels_after_fork();

}  // namespace klab::shim
