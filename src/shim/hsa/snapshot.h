// SPDX-License-Identifier: Apache-2.0
// Taking one dispatch: which memory it can reach, its contents before and after, sent to klab.
// Not here: when (capture.cpp).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "shim/hsa/code.h"
#include "shim/hsa/copier.h"
#include "shim/hsa/queues.h"

namespace klab::shim {

/// The state of one capture, from its `before` to its `after`. The device is idle.
class Snapshot {
 public:
  enum class Step {
    go,       // the dispatch may run
    refused,  // refusal() says why; klab has not been told
    stopped   // klab wants no more of it, or is gone
  };
  Snapshot(const Loaded& loaded, const Packet& packet, const Queue& queue, std::uint64_t nth,
           std::uint64_t sequence)
      : loaded_(loaded), packet_(packet.dispatch), queue_(queue), nth_(nth), sequence_(sequence) {}
  Snapshot(const Snapshot&) = delete;
  /// Builds the list of regions, asks klab, sends all contents.
  Step before();
  /// Sends the contents again, and the end.
  Step after(double program_ns);
  const std::string& refusal() const { return refusal_; }

 private:
  struct Region {
    Range range;
    std::uint32_t reached = 0;
    std::string name;
  };
  static constexpr std::uint32_t kNoRegion = 0xffffffff;

  bool read_arguments();
  void collect_variables();
  void confirm_arguments();
  void set_aside_runtime_memory();
  void set_aside_other_devices();
  void reach(std::uint64_t address, std::uint32_t how);
  void send_head();
  bool announce(std::uint32_t region);
  bool send(std::uint32_t region, std::uint32_t kind, bool first);
  bool ask_size(bool final);
  template <class F>
  void each_argument_word(bool hidden, F&& use) const;

  const Loaded& loaded_;
  const hsa_kernel_dispatch_packet_t packet_;
  const Queue& queue_;
  const std::uint64_t nth_, sequence_;
  std::vector<std::byte> arguments_;
  std::vector<bool> hidden_;              // of each byte of arguments_
  std::vector<Range> ranges_;             // ascending
  std::vector<std::uint32_t> region_of_;  // of each range
  std::vector<Range> variables_;          // ascending
  std::uint64_t low_ = ~0ull, high_ = 0;
  std::vector<Region> regions_;
  Copier copier_;
  std::uint64_t total_ = 0;
  bool count_only_ = false;
  std::string refusal_;
};

}  // namespace klab::shim
