// SPDX-License-Identifier: Apache-2.0
// The fake device's "machine code": a text that names a CPU kernel and scripts its time and faults.
// Not here: memory and launching (fake.cpp).
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gpu/backend.h"

namespace klab::gpu::fake {

/// What a kernel sees of its launch. Pointers stay inside the device's memories.
struct Call {
  const LaunchSpec* spec = nullptr;
  std::function<std::span<std::byte>(const LaunchSpec::Bound&)> view;
  /// Host bytes of a device address range; empty when it is not inside one memory (then the launch faults).
  std::function<std::span<std::byte>(std::uint64_t address, std::uint64_t size)> at;
  /// Bytes of a module variable; empty when the program has none of that name.
  std::function<std::span<std::byte>(std::string_view name)> variable;
  std::uint64_t launch = 0;  // n-th launch of this code object, from 1
  std::uint64_t chance = 0;  // differs from launch to launch and from process to process

  /// The bound range at set 0, `binding`; empty when there is none.
  std::span<std::byte> bytes(std::uint32_t binding) const;
  template <class T>
  std::span<T> array(std::uint32_t binding) const {
    const auto b = bytes(binding);
    return {reinterpret_cast<T*>(b.data()), b.size() / sizeof(T)};
  }
  /// A push constant, zero where there is none.
  template <class T>
  T push(std::size_t offset) const {
    T value{};
    if (offset + sizeof(T) <= spec->push_constants.size())
      std::copy_n(spec->push_constants.data() + offset, sizeof(T), reinterpret_cast<std::byte*>(&value));
    return value;
  }
  /// From the parameter buffer, zero where there is none.
  template <class T>
  T argument(std::size_t offset) const {
    T value{};
    if (offset + sizeof(T) <= spec->arguments.size())
      std::copy_n(spec->arguments.data() + offset, sizeof(T), reinterpret_cast<std::byte*>(&value));
    return value;
  }
};

/// Returns false for a memory fault.
using Kernel = bool (*)(const Call&);

enum class FaultKind { device_lost, hang, freeze, crash, wrong_answer, stray_write, fail_prepare };

struct Fault {
  FaultKind kind = FaultKind::device_lost;
  std::uint64_t at = 0;  // launch number from 1; 0: every one
};

struct Program {
  Kernel kernel = nullptr;
  std::string entry = "main";
  double time_ns = 1000, cold_time_ns = 0, drift = 0;  // cold: after a flush; drift: growth a launch
  std::vector<Fault> faults;
  std::vector<std::pair<std::string, std::uint64_t>> variables;  // name, bytes
  bool flushes = false;  // Klab's own flush kernel: the next launch is a cold one
  std::uint64_t launches = 0;
};

/// Errors: invalid_data, naming the line.
Result<Program> parse_program(std::span<const std::byte> code);

/// The kernel called `name`, or nullptr.
Kernel find_kernel(std::string_view name);

}  // namespace klab::gpu::fake
