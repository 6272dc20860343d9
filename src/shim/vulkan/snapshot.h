// SPDX-License-Identifier: Apache-2.0
// Taking one dispatch: which memory it can reach, its contents before and after, sent to klab.
// Not here: when (submit.cpp).
#pragma once
#include "shim/vulkan/submit.h"

namespace klab::shim {

/// The state of one capture, from its `before` to its `after`.
class Snapshot {
 public:
  Snapshot(Device& d, Queue& queue, const Piece& piece) : d_(d), queue_(queue), piece_(piece) {}
  Snapshot(const Snapshot&) = delete;
  ~Snapshot();
  /// Builds the list of regions, asks klab, sends all contents. False: refused (klab has been told why), or
  /// stopped. The queue is drained.
  bool before();
  /// Sends the contents again.
  void after(double program_ns);

 private:
  struct Region {
    Ref<Memory> memory;
    std::uint64_t offset = 0, size = 0;  // in memory
    std::uint64_t address = 0;
    std::vector<Ref<Buffer>> buffers;
    std::uint32_t id = 0, reached = 0;
  };
  void build_clusters();
  std::string read_grid();
  std::string collect_bindings();
  void send_head();
  bool scanning() const;
  std::uint32_t reach(const Ref<Buffer>& buffer, std::uint32_t how);
  bool announce(Region& r);
  bool send(std::size_t region, std::uint32_t kind, bool scanned);
  void scan(const std::byte* bytes, std::size_t size);
  void scan_word(std::uint64_t word);
  bool ask_size(bool final);

  Device& d_;
  Queue& queue_;
  const Piece& piece_;
  std::vector<Ref<Buffer>> live_;  // bound, ordered by memory and offset
  struct Cluster {
    std::size_t first, last;  // in live_
    std::uint32_t region;
  };
  std::vector<Cluster> clusters_;
  std::unordered_map<const Buffer*, std::size_t> cluster_of_;
  struct Range {
    std::uint64_t begin, end;
    std::size_t buffer;  // in live_
  };
  std::vector<Range> ranges_;  // addresses that the program knows, ascending
  std::uint64_t low_ = ~0ull, high_ = 0;
  std::vector<Region> regions_;
  std::vector<klab_binding> bindings_;
  std::uint32_t grid_[3] = {0, 0, 0};
  std::uint64_t total_ = 0;
  bool count_only_ = false, locked_ = false;
  std::string refusal_;
};

/// Tells klab that the wanted execution cannot be captured.
void refuse(const Piece& piece, const std::string& why);

}  // namespace klab::shim
