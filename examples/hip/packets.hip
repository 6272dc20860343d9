// SPDX-License-Identifier: Apache-2.0
// No HIP runtime: three dispatch packets and a barrier written to an HSA queue, announced by one ring of the
// doorbell. All count one signal down. The code object is partial_grid's; one allocation is freed before.
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "common.h"

using namespace example;

void check_hsa(hsa_status_t status, const char* what) {
  if (status != HSA_STATUS_SUCCESS) die(std::string(what) + ": hsa_status_t " + std::to_string(status));
}
#define HSA(call) check_hsa((call), #call)

struct Found {
  hsa_agent_t gpu{}, cpu{};
  hsa_amd_memory_pool_t host{};
  hsa_region_t kernarg{};
};

hsa_status_t on_agent(hsa_agent_t agent, void* data) {
  auto& found = *static_cast<Found*>(data);
  hsa_device_type_t type;
  hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
  (type == HSA_DEVICE_TYPE_GPU ? found.gpu : found.cpu) = agent;
  return HSA_STATUS_SUCCESS;
}
hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void* data) {
  static_cast<Found*>(data)->host = pool;
  return HSA_STATUS_SUCCESS;
}
hsa_status_t on_region(hsa_region_t region, void* data) {
  std::uint32_t flags = 0;
  hsa_region_get_info(region, HSA_REGION_INFO_GLOBAL_FLAGS, &flags);
  if ((flags & HSA_REGION_GLOBAL_FLAG_KERNARG) != 0) static_cast<Found*>(data)->kernarg = region;
  return HSA_STATUS_SUCCESS;
}

// The code object for a GPU in an offload bundle: its entries are offset, size, length of a name, the name.
std::string unbundle(const std::string& bundle) {
  std::uint64_t count = 0, at = 32, entry[3];
  if (bundle.compare(0, 24, "__CLANG_OFFLOAD_BUNDLE__") != 0) return bundle;
  std::memcpy(&count, bundle.data() + 24, 8);
  for (; count != 0; --count, at += 24 + entry[2]) {
    std::memcpy(entry, bundle.data() + at, 24);
    if (bundle.substr(at + 24, entry[2]).find("amdgcn") != std::string::npos)
      return bundle.substr(entry[0], entry[1]);
  }
  die("no code for a GPU");
}

int run(const Options& o) {
  Found found;
  if (hsa_init() != HSA_STATUS_SUCCESS) skip("no HSA runtime");
  HSA(hsa_iterate_agents(on_agent, &found));
  if (found.gpu.handle == 0) skip("no GPU");
  HSA(hsa_amd_agent_iterate_memory_pools(found.cpu, on_pool, &found));
  HSA(hsa_agent_iterate_regions(found.cpu, on_region, &found));

  std::ifstream file(program_folder() + "partial_grid.hsaco", std::ios::binary);
  const std::string code = unbundle(std::string(std::istreambuf_iterator<char>(file), {}));
  hsa_code_object_reader_t reader;
  hsa_executable_t executable;
  hsa_executable_symbol_t symbol;
  std::uint64_t object = 0;
  HSA(hsa_code_object_reader_create_from_memory(code.data(), code.size(), &reader));
  HSA(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr,
                                &executable));
  HSA(hsa_executable_load_agent_code_object(executable, found.gpu, reader, nullptr, nullptr));
  HSA(hsa_executable_freeze(executable, nullptr));
  HSA(hsa_code_object_reader_destroy(reader));
  HSA(hsa_executable_get_symbol_by_name(executable, "fill_volume.kd", &found.gpu, &symbol));
  HSA(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &object));

  struct Arguments {
    std::uint32_t* out;
    std::uint32_t width, height, seed;
  };
  constexpr std::uint32_t kHeight = 4, kDepth = 2, kPackets = 3;
  const std::size_t n = std::size_t{o.size} * kHeight * kDepth;
  std::uint32_t *out = nullptr, *freed = nullptr;
  Arguments* arguments = nullptr;
  HSA(hsa_amd_memory_pool_allocate(found.host, 1 << 20, 0, reinterpret_cast<void**>(&freed)));
  HSA(hsa_amd_memory_pool_allocate(found.host, n * 4, 0, reinterpret_cast<void**>(&out)));
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
  const auto place = [&](std::uint64_t i) {
    return static_cast<char*>(queue->base_address) + (first + i) % queue->size * 64;
  };
  constexpr std::uint16_t kFences = 1 << HSA_PACKET_HEADER_BARRIER |
                                    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                                    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
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
    std::memcpy(place(i) + 4, reinterpret_cast<char*>(&p) + 4, 60);
    const std::uint32_t head = HSA_PACKET_TYPE_KERNEL_DISPATCH | kFences | std::uint32_t{p.setup} << 16;
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(place(i)), head, __ATOMIC_RELEASE);
    for (std::size_t k = 0; k < n; ++k) {
      const auto x = static_cast<std::uint32_t>(k % o.size),
                 y = static_cast<std::uint32_t>(k / o.size % kHeight);
      expected[k] +=
          a->seed * (x + 1) + 1000 * y + 1000000 * static_cast<std::uint32_t>(k / o.size / kHeight);
    }
  }
  hsa_barrier_and_packet_t barrier{};
  barrier.completion_signal = signal;
  std::memcpy(place(kPackets) + 4, reinterpret_cast<char*>(&barrier) + 4, 60);
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(place(kPackets)),
                   HSA_PACKET_TYPE_BARRIER_AND | std::uint32_t{kFences}, __ATOMIC_RELEASE);
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
