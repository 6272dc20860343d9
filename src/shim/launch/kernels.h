// SPDX-License-Identifier: Apache-2.0
// Kernels that a program launches by name (CUDA, HIP): which are wanted, how often each ran, what klab is
// told of them. Not here: how a launch is seen, where code comes from (cuda/, hsa/).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

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

struct Counts {
  std::mutex lock;
  const Kernel* chosen = nullptr;  // the first of several matching kernels whose wanted execution came
  std::size_t taken = 0;
  std::atomic<bool> finished{false};
  std::atomic<std::uint64_t> sequence{0};
};
Counts& counts();

/// A kernel by its mangled name, made and announced to klab when new.
Kernel& kernel_named(const std::string& mangled);
std::string demangle(const std::string& mangled);
/// Whether the user asked for a kernel of this name.
bool wanted_name(const std::string& mangled);

/// Counts one execution. True: it is one that was asked for; it counts as taken then.
bool take_number(Kernel& kernel, std::uint64_t& nth);
void refuse(const Kernel& kernel, std::uint64_t nth, const std::string& why);
/// One wanted execution is behind us. `given_up`: no other will be taken.
void tell_submitted(double waited_ms, bool given_up);

/// KERNEL with its code, unless klab has just that. False: klab is gone.
bool send_code(Kernel& kernel, std::span<const std::byte> code);
void send_counts();

void counts_after_fork();

}  // namespace klab::shim
