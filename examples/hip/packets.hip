// SPDX-License-Identifier: Apache-2.0
// No HIP runtime: three dispatch packets and a barrier written to an HSA queue, announced by one ring of the
// doorbell. All count one signal down. The code object is partial_grid's; one allocation is freed before.
#include <algorithm>

#include "hsa.h"

using namespace example;

int run(const Options& o) {
  const Hsa found = start_hsa();
  const hsa_executable_t executable = load_code(found, "partial_grid.hsaco");
  const std::uint64_t object = find_kernel(found, executable, "fill_volume.kd").object;

  struct Arguments {
    std::uint32_t* out;
    std::uint32_t width, height, seed;
  };
  constexpr std::uint32_t kHeight = 4, kDepth = 2, kPackets = 3;
  const std::size_t n = std::size_t{o.size} * kHeight * kDepth;
  std::uint32_t *out = nullptr, *freed = nullptr;
  Arguments* arguments = nullptr;
  HSA(hsa_amd_memory_pool_allocate(found.host_pool, 1 << 20, 0, reinterpret_cast<void**>(&freed)));
  HSA(hsa_amd_memory_pool_allocate(found.host_pool, n * 4, 0, reinterpret_cast<void**>(&out)));
  HSA(hsa_amd_agents_allow_access(1, &found.gpu, nullptr, out));
  HSA(hsa_memory_allocate(found.kernarg, kPackets * 64, reinterpret_cast<void**>(&arguments)));
  HSA(hsa_amd_agents_allow_access(1, &found.gpu, nullptr, arguments));
  HSA(hsa_memory_free(freed));
  std::memset(out, 0, n * 4);

  hsa_queue_t* queue = nullptr;
  hsa_signal_t signal;
  HSA(hsa_queue_create(found.gpu, 1024, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                       &queue));
  HSA(hsa_amd_profiling_set_profiler_enabled(queue, 1));
  HSA(hsa_signal_create(kPackets + 1, 0, nullptr, &signal));
  std::vector<std::uint32_t> expected(n);
  const std::uint64_t first = hsa_queue_add_write_index_relaxed(queue, kPackets + 1);
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    auto* a = reinterpret_cast<Arguments*>(reinterpret_cast<char*>(arguments) + 64 * i);
    *a = {out, o.size, kHeight, 10 * (i + 1)};
    hsa_kernel_dispatch_packet_t p{};
    p.setup = 3;
    p.workgroup_size_x = 16, p.workgroup_size_y = 4, p.workgroup_size_z = 2;
    p.grid_size_x = o.size, p.grid_size_y = kHeight, p.grid_size_z = kDepth;
    p.kernel_object = object;
    p.kernarg_address = a;
    p.completion_signal = signal;
    put_packet(queue, first + i, &p, dispatch_head(p));
    for (std::size_t k = 0; k < n; ++k) {
      const auto x = static_cast<std::uint32_t>(k % o.size),
                 y = static_cast<std::uint32_t>(k / o.size % kHeight);
      expected[k] +=
          a->seed * (x + 1) + 1000 * y + 1000000 * static_cast<std::uint32_t>(k / o.size / kHeight);
    }
  }
  hsa_barrier_and_packet_t barrier{};
  barrier.completion_signal = signal;
  put_packet(queue, first + kPackets, &barrier, HSA_PACKET_TYPE_BARRIER_AND | std::uint32_t{kFences});
  hsa_signal_store_screlease(queue->doorbell_signal, static_cast<hsa_signal_value_t>(first + kPackets));
  while (hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) >
         0) {
  }
  const std::vector<std::uint32_t> left{static_cast<std::uint32_t>(hsa_signal_load_scacquire(signal))};
  Verdict v;
  v.compare("out", std::vector<std::uint32_t>(out, out + n), expected);
  v.compare("signal", left, {0});
  HSA(hsa_queue_destroy(queue));
  HSA(hsa_executable_destroy(executable));
  HSA(hsa_memory_free(arguments));
  HSA(hsa_memory_free(out));
  HSA(hsa_signal_destroy(signal));
  const int code_of_result = v.finish();
  HSA(hsa_shut_down());
  return code_of_result;
}

// Each turn starts the runtime anew.
int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 64, 1);
  int worst = 0;
  for (std::uint32_t r = 0; r < o.repeat; ++r) worst = std::max(worst, run(o));
  return worst;
}
