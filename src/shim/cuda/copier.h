// SPDX-License-Identifier: Apache-2.0
// Device memory into klab's ring: several slots in flight, on a stream of its own. Not here: what is copied
// (snapshot.h).
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace klab::shim {

class Copier {
 public:
  using Scan = std::function<void(const std::byte* bytes, std::size_t size)>;
  Copier() = default;
  Copier(const Copier&) = delete;
  ~Copier() { close(); }
  /// In the context that is current. Empty: done.
  std::string open(std::uint64_t deadline_ns);
  void close();
  /// Sends [address, address + size) as data of `region`, or only scans it. `host`: the address is read by the CPU.
  /// False: klab is gone when `why` stays empty, else what the driver said. `scan` may be empty.
  bool send(std::uint32_t kind, std::uint32_t region, std::uint64_t address, std::uint64_t size, bool host,
            bool only_scan, const Scan& scan, std::string& why);
  /// A whole array with packed rows into `bytes`.
  bool read_array(CUarray array, std::size_t row_bytes, std::size_t rows, std::size_t slices,
                  std::vector<std::byte>& bytes, std::string& why);

 private:
  struct Flight {
    std::uint32_t slot;
    const std::byte* bytes;
    std::size_t size;
    std::uint64_t offset;
    CUevent event;
  };
  bool land(std::uint32_t kind, std::uint32_t region, bool only_scan, const Scan& scan, std::string& why);
  CUstream stream_ = nullptr;
  std::vector<CUevent> events_;
  std::deque<Flight> flights_;
  std::uint64_t deadline_ns_ = 0;
  void* pinned_ = nullptr;
};

}  // namespace klab::shim
