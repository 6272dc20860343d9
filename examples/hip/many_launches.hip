// SPDX-License-Identifier: Apache-2.0
// A loop that is bound by launching: tiny kernels, one after the other. Prints nanoseconds a launch, the
// median over ten rounds, which is what a shim that watches launches makes longer. --size: launches in all.
#include <algorithm>

#include "common.h"

using namespace example;

__global__ void tiny_add(unsigned* x, unsigned addend) { x[threadIdx.x] += addend; }

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 2000, 1);
  device();
  unsigned* x = to_device(std::vector<std::uint32_t>(32));
  std::vector<double> rounds;
  std::uint32_t launched = 0, sum = 0;
  for (int round = 0; round < 11; ++round) {  // the first one loads the kernel and is not counted
    const std::uint32_t count = round == 0 ? std::min(o.size, 64u) : std::max(1u, o.size / 10);
    const double started = seconds_now();
    for (std::uint32_t i = 0; i < count; ++i, ++launched) {
      tiny_add<<<1, 32>>>(x, launched);
      sum += launched;
    }
    LAUNCHED();
    HIP(hipDeviceSynchronize());
    if (round > 0) rounds.push_back((seconds_now() - started) * 1e9 / count);
  }
  std::sort(rounds.begin(), rounds.end());
  Verdict v;
  v.compare("x", to_host(x, 32), std::vector<std::uint32_t>(32, sum));
  return v.finish(text_of("ns_per_launch %.1f", (rounds[4] + rounds[5]) / 2));
}
