// SPDX-License-Identifier: Apache-2.0
// A kernel that spins until a flag in host memory is set. A thread of the host sets it once the kernel has
// started, so the program ends; a replay from the captured state, where nobody sets it, never does. With
// --hold the host does not set it either, and the program never ends.
#include <atomic>
#include <chrono>
#include <thread>

#include "common.h"

using namespace example;

__global__ void spin_until_told(volatile unsigned* words, unsigned* out) {
  words[1] = 1;
  __threadfence_system();
  unsigned turns = 0;
  while (words[0] == 0) ++turns;
  out[0] = 42;
  out[1] = turns != 0xffffffffu;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1, 1, {"--hold"});
  device();
  unsigned* words = nullptr;
  HIP(hipHostMalloc(&words, 4096, hipHostMallocMapped | hipHostMallocCoherent));
  std::memset(words, 0, 4096);
  unsigned* out = to_device(std::vector<std::uint32_t>(2));
  std::atomic<bool> stop{false};
  std::thread host([&] {
    while (!stop) {
      if (__atomic_load_n(&words[1], __ATOMIC_ACQUIRE) != 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (!o.has("--hold")) __atomic_store_n(&words[0], 1u, __ATOMIC_RELEASE);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  spin_until_told<<<1, 1>>>(words, out);
  const hipError_t launched = hipGetLastError(), result = hipDeviceSynchronize();
  stop = true;
  host.join();
  check(launched, "kernel launch");
  check(result, "hipDeviceSynchronize");
  Verdict v;
  v.compare("out", to_host(out, 2), std::vector<std::uint32_t>{42, 1});
  return v.finish();
}
