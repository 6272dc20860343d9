// SPDX-License-Identifier: Apache-2.0
// Memory of an agent into klab's ring, through host memory of ours: several copies in flight.
// Not here: what is copied (snapshot.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "shim/hsa/agents.h"
#include "shim/launch/tracker.h"

namespace klab::shim {

class Copier {
 public:
  using Scan = std::function<void(const std::byte* bytes, std::size_t size)>;
  Copier() = default;
  Copier(const Copier&) = delete;
  ~Copier() { close(); }
  /// Empty: done.
  std::string open(hsa_agent_t agent, std::uint64_t deadline_ns);
  void close();
  /// Sends `range` as data of `region`, or only scans it. False: klab is gone when `why` stays empty, else
  /// what the runtime said. `scan` may be empty.
  bool send(std::uint32_t kind, std::uint32_t region, const Range& range, bool only_scan, const Scan& scan,
            std::string& why);

 private:
  struct Place {
    std::byte* bytes = nullptr;
    hsa_signal_t done{};
  };
  struct Flight {
    Place place;
    std::size_t size;
    std::uint64_t offset;
  };
  bool send_host(std::uint32_t kind, std::uint32_t region, const Range& range, bool only_scan,
                 const Scan& scan, std::string& why);
  bool land(std::uint32_t kind, std::uint32_t region, bool only_scan, const Scan& scan, std::string& why);
  HostPool host_;
  hsa_agent_t agent_{};
  void* memory_ = nullptr;
  std::vector<Place> free_;
  std::deque<Flight> flights_;
  std::uint64_t deadline_ns_ = 0;
};

}  // namespace klab::shim
