// SPDX-License-Identifier: Apache-2.0
// The child process does the GPU work, as worker processes of a server do; the parent never opens the device.
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

using namespace example;

__global__ void in_the_child(unsigned* x, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 13 + i;
}

int work(const Options& o) {
  device();
  std::vector<std::uint32_t> x(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i, 25);
  unsigned* dx = to_device(x);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    in_the_child<<<blocks(o.size, 256), 256>>>(dx, o.size);
    LAUNCHED();
    for (std::uint32_t i = 0; i < o.size; ++i) x[i] = x[i] * 13 + i;
  }
  Verdict v;
  v.compare("x", to_host(dx, o.size), x);
  return v.finish();
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 13, 1);
  const pid_t child = ::fork();
  if (child < 0) die("fork");
  if (child == 0) {
    const int code = work(o);
    std::fflush(stdout);
    std::exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
