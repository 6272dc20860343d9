// SPDX-License-Identifier: Apache-2.0
// No pointer argument: a struct by value holds them, some in an array, some in a struct within, one of them
// null and one pointing into the middle of an allocation.
#include "common.h"

using namespace example;

struct View {
  const unsigned* data;
  unsigned stride, count;
};
struct Job {
  char kind;  // so that what follows is not where a careless reader looks
  View in;
  const unsigned* tables[4];
  struct {
    unsigned short flags;
    unsigned* out;
    const unsigned* optional;
  } target;
  unsigned scale;
};

__global__ void run_job(const Job job, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned x = job.in.data[i % job.in.count * job.in.stride] * job.scale;
  for (unsigned t = 0; t < 4; ++t)
    if (job.tables[t] != nullptr) x += job.tables[t][i];
  if (job.target.optional != nullptr) x ^= job.target.optional[i];
  job.target.out[i] = x + job.target.flags + job.kind;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 10000, 1);
  device();
  const std::uint32_t n = o.size;
  auto words = [](std::size_t count, std::uint32_t stream) {
    std::vector<std::uint32_t> v(count);
    for (std::size_t i = 0; i < count; ++i) v[i] = hash_word(static_cast<std::uint32_t>(i), stream);
    return v;
  };
  const auto in = words(3000, 1), a = words(n, 2), b = words(std::size_t{n} * 2, 3);
  Job job{};
  job.kind = 7;
  job.in = {to_device(in), 3, 1000};
  job.tables[1] = to_device(a);
  job.tables[3] = to_device(b) + n;  // the second half only
  job.target.flags = 5;
  job.target.out = to_device(std::vector<std::uint32_t>(n));
  job.scale = 11;
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    run_job<<<blocks(n, 128), 128>>>(job, n);
    LAUNCHED();
  }
  std::vector<std::uint32_t> expected(n);
  for (std::uint32_t i = 0; i < n; ++i) expected[i] = in[i % 1000 * 3] * 11 + a[i] + b[n + i] + 5 + 7;
  Verdict v;
  v.compare("out", to_host(job.target.out, n), expected);
  return v.finish();
}
