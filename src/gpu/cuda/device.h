// SPDX-License-Identifier: Apache-2.0
// One open CUDA device. Sources by topic: device.cpp (open, abilities, waiting), memory.cpp (place),
// transfer.cpp (upload, download), code.cpp (load, symbols), launch.cpp (prepare), textures.cpp, builtin.cpp
// (Klab's own kernels), resources.cpp (figures of a kernel), batch.cpp (run).
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu/backend.h"
#include "gpu/cuda/clusters.h"
#include "gpu/cuda/driver.h"

namespace klab::gpu::cuda {

/// What the driver says of a device without opening it.
struct Facts {
  Listed listed;
  int major = 0, minor = 0, multiprocessors = 0, threads_per_multiprocessor = 0;
  int shared_per_block = 0;  // without opting in
};
Result<Facts> read_facts(const Driver& driver, CUdevice device);

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<CudaDevice>> open(const Driver& driver, CUdevice device);
  ~CudaDevice() override;

  const bundle::DeviceIdentity& identity() const override { return facts_.listed.identity; }
  const Abilities& abilities() const override { return facts_.listed.abilities; }
  Result<std::vector<Placed>> place(std::span<const MemoryRequest> requests, bool exact) override;
  Result<std::vector<Guard>> guards(std::span<const MemoryId> memories) override;
  void release(MemoryId memory) override;
  Status upload(MemoryId memory, std::uint64_t offset, std::span<const std::byte> bytes) override;
  Status download(MemoryId memory, std::uint64_t offset, std::span<std::byte> bytes) override;
  std::byte* host_view(MemoryId) override { return nullptr; }
  Result<CodeId> load(std::span<const std::byte> code) override;
  void unload(CodeId code) override;
  Result<Placed> symbol(CodeId code, std::string_view name, std::uint64_t size) override;
  std::vector<Variable> variables(CodeId code, std::string& cannot) override;
  Result<std::vector<std::string>> entry_points(CodeId code) override;
  Result<LaunchId> prepare(const LaunchSpec& spec) override;
  void discard(LaunchId launch) override;
  std::vector<std::string> launch_notes(LaunchId launch) const override;
  Result<Resources> resources(LaunchId launch) override;
  Result<BatchResult> run(std::span<const Step> steps, std::uint64_t timeout_ns) override;
  Result<Counters> count(LaunchId launch, std::span<const Step> before, std::span<const std::string> names,
                         std::uint64_t timeout_ns) override;
  std::span<const std::byte> builtin_kernel(std::string_view name) const override;

 private:
  using Clock = std::chrono::steady_clock;

  /// What memories lie in. A cluster's address space is kept when its memory goes: the next placing wants it
  /// again.
  struct Backing {
    CudaDevice* device = nullptr;
    CUdeviceptr allocation = 0;  // cuMemAlloc
    std::uint64_t pooled = 0;    // its size, when it goes back to spare_
    AddressRange reserved;       // cuMemAddressReserve
    struct Mapped {
      AddressRange range;
      CUmemGenericAllocationHandle handle = 0;
    };
    std::vector<Mapped> mapped;
    void* host = nullptr;  // page-locked
    std::uint64_t host_size = 0;
    std::vector<AddressRange> extents;  // all that is ours of it, as the device sees it
    bool host_is_mapping = false;  // mmap and cuMemHostRegister, else cuMemHostAlloc
    ~Backing();
  };
  struct Memory {
    std::shared_ptr<Backing> backing;  // null: a module variable
    CUdeviceptr address = 0;
    std::uint64_t size = 0;
    bool host = false;
  };
  struct Code {
    CUmodule module = nullptr;
    std::string builtin;  // Klab's own kernel of that name; `module` is then builtins_ or calibration_
    std::vector<std::byte> bytes;
    std::vector<MemoryId> symbols;
  };
  /// An array made anew; textures and surfaces over the same texels share it.
  struct Array {
    CudaDevice* device = nullptr;
    MemoryId memory = 0;
    std::uint64_t offset = 0;
    CUarray handle = nullptr;
    std::uint64_t row_bytes = 0, rows = 0, layers = 0;  // as the memory holds its texels
    ~Array();
  };
  /// A texture or surface object; shared by launches over the same memory.
  struct Image {
    CudaDevice* device = nullptr;
    bundle::TextureObject object;
    MemoryId memory = 0;
    std::shared_ptr<Array> array;
    std::uint64_t handle = 0;
    ~Image();
  };
  /// One kernel launch of the driver. A launch of ours may be two of them.
  struct Pass {
    CUfunction function = nullptr;
    bundle::Dim3 grid{1, 1, 1}, block{1, 1, 1};
    std::uint32_t shared_bytes = 0;
    std::vector<CUlaunchAttribute> attributes;
    std::vector<std::byte> arguments;
    /// 8 bytes at this offset of `arguments` hold the address of the hash scratch when it runs.
    std::optional<std::size_t> scratch_at;
  };
  struct Launch {
    CodeId code = 0;
    std::string entry_point;
    std::vector<Pass> passes;
    std::vector<std::shared_ptr<Image>> images;
    std::vector<std::string> notes;
    std::uint64_t cluster_size = 0;
    bool compile_only = false;  // some memory is missing
    bool ran = false;           // its first launch is over: nothing is loaded or resized by the next
  };

  explicit CudaDevice(const Driver& driver) : driver_(driver) {}

  Status check_alive() const;
  /// Polls until `event` has happened. Errors: timeout, device_fault; the device is lost then.
  Status wait(CUevent event, std::uint64_t timeout_ns, const char* doing);
  Result<CUevent> make_event(unsigned flags);
  tl::unexpected<Error> lose(tl::unexpected<Error> error);  // marks the device lost when `error` is a fault

  Result<Memory*> memory(MemoryId id, std::uint64_t offset, std::uint64_t size);
  Result<std::shared_ptr<Backing>> allocate(const MemoryRequest& request, CUdeviceptr& address);
  Status place_exact(std::span<const MemoryRequest> requests, std::vector<Memory>& out);
  Status place_host(std::span<const MemoryRequest> requests, std::vector<Memory>& out);
  Result<std::shared_ptr<Backing>> map_cluster(const Cluster& cluster);
  Result<AddressRange> reserve(const Cluster& cluster);

  Status ready_staging();
  Status copy(CUdeviceptr to, CUdeviceptr from, std::uint64_t size);

  Result<CodeId> load_builtin(std::string_view name);
  Result<CUfunction> function(const Code& code, const std::string& name);
  Status prepare_builtin(const Code& code, const LaunchSpec& spec, Launch& launch);
  Status prepare_captured(const Code& code, const LaunchSpec& spec, Launch& launch);
  Status check_parameters(CUfunction f, const LaunchSpec& spec) const;
  Status set_function_attributes(CUfunction f, const LaunchSpec& spec, Launch& launch);
  Status set_launch_attributes(const LaunchSpec& spec, Launch& launch, Pass& pass);
  Status check_fits(const LaunchSpec& spec, const Launch& launch, const Pass& pass);
  Result<int> attribute(CUfunction f, CUfunction_attribute which, const char* name) const;
  Result<int> blocks_per_multiprocessor(const Pass& pass) const;
  CUlaunchConfig config(const Pass& pass) const;

  Result<std::shared_ptr<Array>> make_array(const LaunchSpec::Texture& texture);
  Result<std::shared_ptr<Image>> make_image(const LaunchSpec::Texture& texture);
  Status copy_image(const Image& image, bool in);

  Status submit(const Pass& pass);
  Status submit_step(const Step& step, std::size_t& timed);
  Status open_gate();  // holds the stream until its value is released
  void release_gates(std::uint32_t value);

  const Driver& driver_;
  Facts facts_;
  CUdevice device_ = 0;
  bool retained_ = false, lost_ = false;
  CUstream stream_ = nullptr;
  CUevent done_ = nullptr;
  CUevent marks_[2] = {nullptr, nullptr};  // ends of the last segments of a batch
  std::vector<CUevent> events_;            // pairs around timed launches

  std::uint64_t granule_ = 2ull << 20;
  // Small allocations to use again: cuMemAlloc and cuMemFree take as long as short kernels.
  std::map<std::uint64_t, std::vector<CUdeviceptr>> spare_;
  std::vector<AddressRange> kept_;  // reserved address space that holds nothing now

  // Two halves of page-locked memory, filled and copied in turn.
  std::byte* staging_ = nullptr;
  CUevent staged_[2] = {nullptr, nullptr};
  bool in_flight_[2] = {false, false};
  std::size_t half_ = 0;
  std::uint64_t used_ = 0;  // bytes of the current half

  CUmodule builtins_ = nullptr, calibration_ = nullptr;
  CUdeviceptr hash_scratch_ = 0;
  std::uint64_t hash_scratch_size_ = 0;
  CUfunction gate_ = nullptr;
  std::uint32_t* gate_flag_ = nullptr;  // page-locked, seen by the device
  CUdeviceptr gate_address_ = 0;
  std::uint32_t gate_value_ = 0;

  std::map<MemoryId, Memory> memories_;
  std::map<CodeId, Code> codes_;
  std::map<LaunchId, Launch> launches_;
  std::vector<std::weak_ptr<Image>> images_;
  std::uint32_t next_id_ = 1;
};

}  // namespace klab::gpu::cuda
