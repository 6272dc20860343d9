// SPDX-License-Identifier: Apache-2.0
// Dispatches --iterations times (1), then dies by SIGSEGV: what was captured before must not be lost.
// With --early it dies before the first dispatch.
#include <csignal>
#include <cstdio>

#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 12, 1, {"--early"});
  Gpu gpu;
  const Buffer b = gpu.buffer(o.size * 4);
  const Pipeline p = gpu.pipeline({.shader = "crash", .bindings = storage(1), .push_bytes = 4});
  const VkDescriptorSet set = gpu.set(p, {b});
  for (std::uint32_t i = 0; i < o.iterations && !o.has("--early"); ++i) {
    VkCommandBuffer c = gpu.begin();
    dispatch(c, p, set, o.size, groups(o.size, 64));
    barrier(c);
    gpu.run(c);
  }
  std::printf("crash: value %u, now dying\n", b.as<std::uint32_t>()[0]);
  std::fflush(stdout);
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
  return 1;
}
