// SPDX-License-Identifier: Apache-2.0
// Serves the shims of one target: connections, their checked messages, the target's life.
// Not here: what is made of the messages (trace.cpp, collector.cpp).
#pragma once
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "capture/launch.h"
#include "shim/abi/abi.h"

namespace klab::capture {

struct KernelSeen {
  std::string name, entry, refusal, code_name;
  std::uint64_t hash = 0;
  Hash128 code_hash;
  std::uint64_t code_size = 0;
  std::uint32_t required_subgroup_size = 0, stage_flags = 0, pipeline_flags = 0;
  std::vector<klab_spec> spec;
  std::vector<std::byte> code;  // filled by DATA
  bool has_code = false;
  std::uint64_t executions = 0;  // as COUNTS said last
};

/// One process of the target, as it told of itself.
struct Process {
  std::size_t number = 0;  // in order of connection
  std::int64_t pid = 0;
  std::string executable;
  std::map<std::uint32_t, bundle::DeviceIdentity> devices;
  std::map<std::uint32_t, KernelSeen> kernels;

  Fd socket;
  std::byte* ring = nullptr;
  bool greeted = false, open = true;
  ~Process();
};

/// What the messages are for. A returned error closes that process's connection and is reported as a warning;
/// the target goes on.
class Sink {
 public:
  virtual ~Sink() = default;
  /// CONFIG for a new process, without header, abi_version and slots.
  virtual klab_config config() const = 0;
  virtual std::string kernel() const { return {}; }
  virtual std::vector<std::uint64_t> nth() const { return {}; }
  /// `packet` is whole and at least as long as its record's fixed part; texts and lists still need checking.
  virtual Status message(Process& process, const klab_header& header, std::span<const std::byte> packet) = 0;
  /// Bytes of a slot for a region.
  virtual Status data(Process&, const klab_data_record&, std::span<const std::byte>) { return {}; }
  virtual std::uint32_t answer(Process&, const klab_size&) { return KLAB_STOP; }
  virtual void closed(Process&) {}
  /// The target may be ended now.
  virtual bool done() const { return false; }
};

struct Ended {
  ExitStatus status;
  bool status_known = false;
  bool by_us = false;  // stop_after_capture
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<std::string> warnings;
};

/// Starts the target and serves it to its end. Errors: target_failed (not started), environment, timeout,
/// interrupted, io_failed.
Result<Ended> serve(const Target& target, Sink& sink, bool stop_when_done, const Cancelled& cancelled);

/// Reads `lengths` texts after a record's fixed part; false when the packet is shorter or a text over
/// KLAB_MAX_TEXT.
bool read_texts(std::span<const std::byte> packet, std::size_t fixed,
                std::initializer_list<std::uint32_t> lengths, std::vector<std::string>& texts);

/// The records of a klab_list packet. Errors: invalid_data.
template <class T>
Result<std::vector<T>> read_list(std::span<const std::byte> packet) {
  klab_list list;
  if (packet.size() < sizeof list) return fail(ErrorCode::invalid_data, "a list of the shim is cut short");
  std::memcpy(&list, packet.data(), sizeof list);
  const auto rest = packet.subspan(sizeof list);
  if (rest.size() / sizeof(T) < list.count)
    return fail(ErrorCode::invalid_data, "a list of the shim is cut short");
  std::vector<T> rows(list.count);
  if (list.count != 0) std::memcpy(rows.data(), rest.data(), list.count * sizeof(T));
  return rows;
}

}  // namespace klab::capture
