// SPDX-License-Identifier: Apache-2.0
// The process that was started does no GPU work: it forks, the child does it, and its exit code is passed on.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "common.h"

using namespace example;

namespace {

int work(const Options& o) {
  Gpu gpu;
  std::vector<std::uint32_t> v(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) v[i] = i * 69069u;
  const Buffer b = gpu.buffer_of(v);
  const Pipeline p = gpu.pipeline({.shader = "forked", .bindings = storage(1), .push_bytes = 4});
  const VkDescriptorSet set = gpu.set(p, {b});
  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    VkCommandBuffer c = gpu.begin();
    dispatch(c, p, set, o.size, groups(o.size, 64));
    barrier(c);
    gpu.run(c);
  }
  std::uint64_t wrong = 0;
  const auto got = b.as<std::uint32_t>();
  for (std::uint32_t i = 0; i < o.size; ++i) {
    for (std::uint32_t k = 0; k < o.iterations; ++k) {
      std::uint32_t r = 0;
      for (int bit = 0; bit < 32; ++bit) r |= (v[i] >> bit & 1u) << (31 - bit);
      v[i] = r + i;
    }
    wrong += got[i] != v[i];
  }
  return finish(checksum(got), wrong, o.size);
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 16, 1);
  const pid_t child = fork();
  if (child < 0) {
    std::perror("forked: fork");
    return 1;
  }
  if (child == 0) return work(o);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
