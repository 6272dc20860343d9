// SPDX-License-Identifier: Apache-2.0
// rocPRIM's reduce and scan: kernels out of a library's templates.
#include "common.h"

#include <rocprim/rocprim.hpp>

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 13, 1);
  device();
  std::vector<std::uint32_t> x(o.size), sum(1), prefix(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i, 47);
  unsigned *dx = to_device(x), *dsum = allocate<unsigned>(1), *dprefix = allocate<unsigned>(o.size);
  std::size_t bytes = 0, more = 0;
  HIP(rocprim::reduce(nullptr, bytes, dx, dsum, 0u, o.size, rocprim::plus<unsigned>()));
  HIP(rocprim::exclusive_scan(nullptr, more, dx, dprefix, 0u, o.size, rocprim::plus<unsigned>()));
  char* scratch = allocate<char>(std::max(std::max(bytes, more), std::size_t{1}));
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    HIP(rocprim::reduce(scratch, bytes, dx, dsum, 0u, o.size, rocprim::plus<unsigned>()));
    HIP(rocprim::exclusive_scan(scratch, more, dx, dprefix, 0u, o.size, rocprim::plus<unsigned>()));
  }
  for (std::uint32_t i = 0; i < o.size; ++i) prefix[i] = sum[0], sum[0] += x[i];
  Verdict v;
  v.compare("sum", to_host(dsum, 1), sum);
  v.compare("prefix", to_host(dprefix, o.size), prefix);
  return v.finish();
}
