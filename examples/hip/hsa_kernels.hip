// SPDX-License-Identifier: Apache-2.0
// No HIP runtime, and no pool: three kernels of one code object by turns, all their memory from hsa_memory_allocate (the
// GPU's and the host's), filled by hsa_memory_copy. One allocation of each kind is freed before the first launch.
#include "hsa.h"

using namespace example;

namespace {

struct FoldTable {
  std::uint32_t *x, *sums, n, round;
};

template <class T>
T* take(hsa_region_t region, std::size_t count) {
  void* p = nullptr;
  HSA(hsa_memory_allocate(region, count * sizeof(T), &p));
  return static_cast<T*>(p);
}

class Launcher {
 public:
  explicit Launcher(const Hsa& hsa) : arguments_(take<char>(hsa.kernarg, kArguments)) {
    HSA(hsa_queue_create(hsa.gpu, 256, HSA_QUEUE_TYPE_SINGLE, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue_));
    HSA(hsa_signal_create(0, 0, nullptr, &signal_));
  }
  ~Launcher() {
    HSA(hsa_queue_destroy(queue_));
    HSA(hsa_signal_destroy(signal_));
    HSA(hsa_memory_free(arguments_));
  }
  template <class Arguments>
  void run(const Kernel& kernel, std::uint32_t threads, const Arguments& a) {
    if (kernel.kernarg_bytes > kArguments) die("arguments of " + std::to_string(kernel.kernarg_bytes) + " bytes");
    std::memset(arguments_, 0, kArguments);
    std::memcpy(arguments_, &a, sizeof a);
    hsa_signal_store_screlease(signal_, 1);
    hsa_kernel_dispatch_packet_t p{};
    p.setup = 1;
    p.workgroup_size_x = 256, p.workgroup_size_y = 1, p.workgroup_size_z = 1;
    p.grid_size_x = blocks(threads, 256) * 256, p.grid_size_y = 1, p.grid_size_z = 1;
    p.private_segment_size = kernel.private_bytes, p.group_segment_size = kernel.group_bytes;
    p.kernel_object = kernel.object;
    p.kernarg_address = arguments_;
    p.completion_signal = signal_;
    const std::uint64_t index = hsa_queue_add_write_index_screlease(queue_, 1);
    put_packet(queue_, index, &p, dispatch_head(p));
    hsa_signal_store_screlease(queue_->doorbell_signal, static_cast<hsa_signal_value_t>(index));
    while (hsa_signal_wait_scacquire(signal_, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) > 0) {
    }
  }

 private:
  static constexpr std::size_t kArguments = 1024;
  char* arguments_;
  hsa_queue_t* queue_ = nullptr;
  hsa_signal_t signal_{};
};

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 5000, 3);
  const Hsa hsa = start_hsa();
  const std::uint32_t n = o.size, groups = blocks(n, 256);
  const hsa_executable_t executable = load_code(hsa, "hsa_kernels.hsaco");
  const Kernel spread = find_kernel(hsa, executable, "hsa_spread.kd"), fold = find_kernel(hsa, executable, "hsa_fold.kd"),
               scale = find_kernel(hsa, executable, "hsa_scale.kd");

  auto* freed = take<std::uint32_t>(hsa.device, 1 << 18);
  auto* freed_host = take<std::uint32_t>(hsa.host, 1 << 18);
  std::memset(freed_host, 0x5a, 1 << 20);
  HSA(hsa_memory_copy(freed, freed_host, 1 << 20));
  HSA(hsa_memory_free(freed));
  HSA(hsa_memory_free(freed_host));

  auto* x = take<std::uint32_t>(hsa.device, n);
  auto* sums = take<std::uint32_t>(hsa.host, groups);
  auto* table = take<FoldTable>(hsa.device, 1);
  std::vector<std::uint32_t> values(n), expected_sums(groups);
  for (std::uint32_t i = 0; i < n; ++i) values[i] = hash_word(i, 1);
  HSA(hsa_memory_copy(x, values.data(), n * sizeof(std::uint32_t)));
  std::memset(sums, 0, groups * sizeof(std::uint32_t));
  {
    Launcher launcher(hsa);
    for (std::uint32_t round = 0; round < o.repeat; ++round) {
      const FoldTable t{x, sums, n, round};
      HSA(hsa_memory_copy(table, &t, sizeof t));
      struct {
        std::uint32_t *x, n, number;
      } a{x, n, round}, by{x, n, 5};
      launcher.run(spread, n, a);
      launcher.run(fold, n, table);
      launcher.run(scale, n, by);
      for (std::uint32_t i = 0; i < n; ++i) values[i] += (i + 1) * (round + 1);
      for (std::uint32_t g = 0; g < groups; ++g) {
        std::uint32_t sum = 0;
        for (std::uint32_t i = g * 256; i < std::min(n, g * 256 + 256); ++i) sum += values[i];
        expected_sums[g] += sum ^ round;
      }
      for (std::uint32_t& v : values) v = v * 5 + 1;
    }
  }
  std::vector<std::uint32_t> got(n);
  HSA(hsa_memory_copy(got.data(), x, n * sizeof(std::uint32_t)));
  Verdict v;
  v.compare("x", got, values);
  v.compare("sums", std::vector<std::uint32_t>(sums, sums + groups), expected_sums);
  HSA(hsa_executable_destroy(executable));
  HSA(hsa_memory_free(table));
  HSA(hsa_memory_free(sums));
  HSA(hsa_memory_free(x));
  const int code = v.finish();
  HSA(hsa_shut_down());
  return code;
}
