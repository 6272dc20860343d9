// SPDX-License-Identifier: Apache-2.0
// A pointer that does not look like one: it is kept with its bits flipped. What it leads to is not found by
// following pointers, so a capture of what is reachable replays into nothing and must say so; a capture of
// everything works.
#include "common.h"

using namespace example;

struct Disguised {
  unsigned long long flipped;
};

__global__ void follow_hidden(const Disguised* where, unsigned* out, unsigned n) {
  const auto* values = reinterpret_cast<const unsigned*>(~where->flipped);
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = values[i] + 1;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 14, 1);
  device();
  std::vector<std::uint32_t> values(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) values[i] = hash_word(i, 22);
  const std::uint32_t* d = to_device(values);
  const Disguised* where = to_device(std::vector<Disguised>{{~reinterpret_cast<unsigned long long>(d)}});
  std::uint32_t* out = to_device(std::vector<std::uint32_t>(o.size));
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    follow_hidden<<<blocks(o.size, 256), 256>>>(where, out, o.size);
    LAUNCHED();
  }
  for (std::uint32_t& x : values) ++x;
  Verdict v;
  v.compare("out", to_host(out, o.size), values);
  return v.finish();
}
