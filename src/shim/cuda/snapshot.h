// SPDX-License-Identifier: Apache-2.0
// Taking one launch: which memory it can reach, its contents before and after, sent to klab.
// Not here: when (capture.cpp).
#pragma once
#include <cuda.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "shim/cuda/copier.h"
#include "shim/cuda/kernels.h"
#include "shim/cuda/launch.h"
#include "shim/cuda/textures.h"
#include "shim/launch/tracker.h"

namespace klab::shim {

Tracker& tracker();

/// The state of one capture, from its `before` to its `after`. The device is drained, the context is current.
class Snapshot {
 public:
  enum class Step {
    go,       // the launch may run
    refused,  // refusal() says why; klab has not been told
    stopped   // klab wants no more of it, or is gone
  };
  Snapshot(Kernel& kernel, const Resolved& resolved, const Launch& launch, std::uint32_t device,
           std::uint64_t nth, std::uint64_t sequence)
      : kernel_(kernel),
        resolved_(resolved),
        launch_(launch),
        device_(device),
        nth_(nth),
        sequence_(sequence) {}
  Snapshot(const Snapshot&) = delete;
  /// Builds the list of regions, asks klab, sends all contents.
  Step before();
  /// Sends the contents again, and the end.
  Step after(double program_ns);
  const std::string& refusal() const { return refusal_; }

 private:
  struct Region {
    std::uint64_t begin = 0, size = 0;
    std::uint32_t memory = KLAB_MEMORY_DEVICE, reached = 0;
    std::uint64_t allocation = 0, allocation_offset = 0;
    bool read_by_host = false;
    std::string name;
    CUarray array = nullptr;  // texels
    std::size_t row_bytes = 0, rows = 0, slices = 0;
  };
  static constexpr std::uint32_t kNoRegion = 0xffffffff;

  void collect_variables();
  void confirm_arguments();
  std::uint32_t reach(std::uint64_t address, std::uint32_t how);
  std::uint32_t reach_array(CUarray array, std::uint32_t how, klab_texture& record);
  void reach_texture(std::uint64_t handle);
  void scan_texture_word(std::uint64_t word);
  void scan(const std::byte* bytes, std::size_t size, bool for_textures);
  bool scanning() const;
  void send_head();
  bool announce(std::uint32_t region);
  bool send(std::uint32_t region, std::uint32_t kind, bool first);
  bool ask_size(bool final);
  void send_textures();
  template <class F>
  void each_argument_word(F&& use) const;

  Kernel& kernel_;
  const Resolved& resolved_;
  const Launch& launch_;
  std::uint32_t device_;
  std::uint64_t nth_, sequence_;
  std::vector<std::byte> arguments_;
  Attributes attributes_;
  std::vector<Range> ranges_;
  std::vector<std::uint32_t> region_of_;  // of each range
  std::vector<Range> variables_;          // ascending; id: region
  std::uint64_t low_ = ~0ull, high_ = 0;
  std::unordered_map<std::uint64_t, Texture> textures_;
  std::unordered_map<CUarray, std::uint32_t> arrays_;
  struct Found {
    klab_texture record;
    const Texture* texture;
    std::string format;
  };
  std::vector<Found> found_;
  std::vector<Region> regions_;
  Copier copier_;
  std::uint64_t total_ = 0;
  bool count_only_ = false;
  std::string refusal_;
};

}  // namespace klab::shim
