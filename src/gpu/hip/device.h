// SPDX-License-Identifier: Apache-2.0
// One open HIP device. Sources by topic: facts.cpp (what the runtime says of agents), device.cpp (open, waiting),
// memory.cpp (place), addresses.cpp (captured addresses), transfer.cpp (upload, download), code.cpp (load, symbols),
// launch.cpp (prepare), builtin.cpp (Klab's own kernels), resources.cpp (figures of a kernel), batch.cpp (run).
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bundle/hsaco.h"
#include "gpu/backend.h"
#include "gpu/hip/addresses.h"
#include "gpu/hip/hostcall.h"
#include "gpu/hip/kernarg.h"
#include "gpu/hip/runtime.h"

namespace klab::gpu::hip {

/// What the runtime says of a GPU without opening it.
struct Facts {
  Listed listed;
  hsa_agent_t agent{}, cpu{};
  std::uint32_t node = 0, cpu_node = 0;  // the driver's numbers
  std::string arch;                      // "gfx90a:sramecc+:xnack-"
  std::uint32_t simds_per_unit = 0, max_waves_per_unit = 0;
  bool cooperative_queues = false;
  hsa_amd_memory_pool_t device_pool{}, device_fine_pool{}, host_pool{}, host_coarse_pool{}, kernarg_pool{};
};
/// Of every GPU agent, in the runtime's order. Errors: no_device.
Result<std::vector<Facts>> read_all_facts(const Runtime& runtime);

class HipDevice final : public Device {
 public:
  static Result<std::unique_ptr<HipDevice>> open(const Runtime& runtime, Facts facts);
  ~HipDevice() override;

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
  std::span<const std::byte> builtin_kernel(std::string_view name) const override;

 private:
  using Clock = std::chrono::steady_clock;

  /// What memories lie in.
  struct Backing {
    HipDevice* device = nullptr;
    void* allocation = nullptr;    // of a pool
    std::optional<FixedRange> fixed;
    bool host = false;
    std::vector<AddressRange> extents;  // all that is ours of it
    ~Backing();
  };
  struct Memory {
    std::shared_ptr<Backing> backing;  // null: a module variable
    std::uint64_t address = 0, size = 0;
    bool host = false;
  };
  /// Code objects are shared: all of Klab's own kernels are in one or two.
  struct Module {
    HipDevice* device = nullptr;
    std::vector<std::byte> bytes;
    bundle::Hsaco facts;  // views into `bytes`
    hsa_code_object_reader_t reader{};
    hsa_executable_t executable{};
    ~Module();
  };
  struct Code {
    std::shared_ptr<Module> module;
    std::string builtin;  // Klab's own kernel of that name
    std::vector<MemoryId> symbols;
  };
  struct Kernel {
    const bundle::HsacoKernel* facts = nullptr;
    std::uint64_t object = 0;
  };
  /// A block of memory that kernels read their arguments from.
  struct ArgumentBlock {
    HipDevice* device = nullptr;
    std::byte* bytes = nullptr;
    std::uint64_t size = 0;  // as it goes back to spare_arguments_
    ~ArgumentBlock();
  };
  /// One dispatch. A launch of ours may be two of them.
  struct Pass {
    Kernel kernel;
    bundle::Dim3 threads{1, 1, 1}, block{1, 1, 1};  // work-items of the grid, of a block
    std::uint32_t shared_bytes = 0, scratch_bytes = 0;
    std::shared_ptr<ArgumentBlock> arguments;
    /// 8 bytes at this offset of the arguments hold the address of the hash scratch when it runs.
    std::optional<std::size_t> scratch_at;
    std::uint32_t acquire = HSA_FENCE_SCOPE_SYSTEM, release = HSA_FENCE_SCOPE_SYSTEM;
    bool cooperative = false;
  };
  struct Launch {
    CodeId code = 0;
    std::shared_ptr<Module> module;  // keeps its kernels while it is prepared
    std::string entry_point;
    std::vector<Pass> passes;
    std::vector<std::string> notes;
    std::uint32_t dynamic_shared_bytes = 0;
    bool compile_only = false;  // some memory is missing
  };

  HipDevice(const Runtime& runtime, Facts facts) : runtime_(runtime), facts_(std::move(facts)) {}

  Status check_alive() const;
  /// Polls until the signal is 0 or below. Errors: timeout, device_fault; the device is lost then.
  Status wait(hsa_signal_t signal, std::uint64_t timeout_ns, const char* doing);
  tl::unexpected<Error> lost(Error error);
  tl::unexpected<Error> faulted(const char* doing);
  Result<hsa_signal_t> make_signal(std::int64_t value);

  Result<Memory*> memory(MemoryId id, std::uint64_t offset, std::uint64_t size);
  Result<void*> pool_allocate(hsa_amd_memory_pool_t pool, std::uint64_t size, const char* what);
  hsa_amd_memory_pool_t pool_of(const MemoryRequest& request, bool& host) const;
  Result<std::shared_ptr<Backing>> allocate(const MemoryRequest& request, std::uint64_t& address);
  Status place_exact(std::span<const MemoryRequest> requests, std::vector<Memory>& out);

  Status ready_staging();
  Status settle();  // waits for transfers that are under way
  Status copy_async(void* to, bool to_host, const void* from, bool from_host, std::uint64_t size, std::size_t half);

  Result<std::shared_ptr<Module>> load_module(std::vector<std::byte> bytes);
  Result<Kernel> kernel(const Module& module, const std::string& name);
  Result<std::shared_ptr<Module>> builtin_module(bool calibration);
  Result<CodeId> load_builtin(std::string_view name);
  Result<std::shared_ptr<ArgumentBlock>> argument_block(std::uint64_t size);
  Result<Pass> builtin_pass(const Module& module, const std::string& name, std::span<const std::byte> arguments);
  Status prepare_builtin(const Code& code, const LaunchSpec& spec, Launch& launch);
  Status prepare_captured(const Code& code, const LaunchSpec& spec, Launch& launch);
  Status check_parameters(const bundle::HsacoKernel& kernel, const LaunchSpec& spec) const;
  Status check_fits(const bundle::HsacoKernel& kernel, const LaunchSpec& spec, const Pass& pass) const;
  Status take_attributes(const LaunchSpec& spec, Launch& launch, Pass& pass);
  Result<HiddenValues> hidden_values(const bundle::HsacoKernel& kernel, const LaunchSpec& spec, const Pass& pass,
                                     Launch& launch);

  Status make_queue(hsa_queue_t*& queue, hsa_queue_type32_t type);
  Status submit_step(const Step& step, std::size_t& timed);
  Status submit(hsa_queue_t* queue, const Pass& pass, hsa_signal_t signal);
  Status submit_barrier(hsa_queue_t* queue, hsa_signal_t after, hsa_signal_t signal);
  Status submit_cooperative(const Pass& pass, hsa_signal_t signal);
  Status submit_move(const char* kernel, std::uint64_t to, std::uint64_t from_or_value, std::uint64_t size);
  /// Where the next packet goes, when the queue has room.
  Result<void*> next_slot(hsa_queue_t* queue);
  void publish(hsa_queue_t* queue, void* slot, std::uint16_t header, std::uint16_t setup);
  void ring();  // tells the device of what is published
  Result<double> dispatch_ns(std::size_t timed, bool two);

  const Runtime& runtime_;
  Facts facts_;
  bool lost_ = false;
  hsa_queue_t* queue_ = nullptr;
  hsa_queue_t* cooperative_queue_ = nullptr;
  hsa_signal_t done_{};
  std::vector<hsa_signal_t> timed_signals_;  // two for each timed launch
  std::vector<hsa_signal_t> batch_signals_;  // of the batch under way
  Clock::time_point deadline_{};
  hsa_queue_t* unrung_queue_ = nullptr;
  std::uint64_t unrung_ = 0;  // packets since its doorbell

  // Two halves of host memory that transfers go through in turn.
  std::byte* staging_ = nullptr;
  hsa_signal_t staged_[2] = {};
  bool in_flight_[2] = {false, false};
  AddressRange uploading_[2];  // where to
  std::size_t half_ = 0;

  std::unique_ptr<FixedAddresses> fixed_;
  std::unique_ptr<Hostcall> hostcall_;

  std::shared_ptr<Module> builtins_, calibration_;
  std::uint64_t hash_scratch_ = 0, hash_scratch_size_ = 0;
  std::vector<std::shared_ptr<ArgumentBlock>> move_arguments_;  // of the batch under way
  std::map<std::string, Kernel, std::less<>> moves_;

  std::map<std::uint64_t, std::vector<std::byte*>> spare_arguments_;
  std::vector<void*> argument_pages_;
  std::map<MemoryId, Memory> memories_;
  std::map<CodeId, Code> codes_;
  std::map<LaunchId, Launch> launches_;
  std::uint32_t next_id_ = 1;
};

}  // namespace klab::gpu::hip
