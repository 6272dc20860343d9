// SPDX-License-Identifier: Apache-2.0
// The embedded code, and the hash kernels' arithmetic on the host.
#include "kernels/kernels.h"

#include <bit>
#include <cstring>
#include <string>

#include "kernels/calibration.h"

namespace klab::kernels {
namespace {

struct Embedded {
  std::string_view name;
  const unsigned char* bytes;
  std::size_t size;
};
#include "kernels_spirv.inc"
#ifdef KLAB_KERNELS_CUDA
namespace cuda_code {
#include "kernels_klab.inc"
}
namespace cuda_calibration {
#include "kernels_calibrate.inc"
}
#endif

#ifdef KLAB_KERNELS_HIP
namespace hip_code_objects {
#include "kernels_hip.inc"
}
#endif

// The three below are hash_common.glsl, line for line.
Hash mix_word(std::uint32_t word, std::uint32_t index) {
  std::uint32_t key = index * 0x9e3779b9u + 0x7f4a7c15u;
  key = (key ^ (key >> 16)) * 0x21f0aaadu;
  key ^= key >> 15;
  std::uint32_t x = (word ^ key) * 0x85ebca6bu;
  x = (x ^ (x >> 15)) * 0xc2b2ae35u;
  x ^= x >> 13;
  std::uint32_t y = (word + std::rotl(key, 16)) * 0x27d4eb2fu;
  y = (y ^ (y >> 14)) * 0x165667b1u;
  y ^= y >> 16;
  const std::uint32_t z = (std::rotl(x, 11) + y) * (key | 1u);
  const std::uint32_t w = (std::rotl(y, 17) ^ x) * 0x9e3779b1u;
  return {x, y, z ^ (z >> 15), w ^ (w >> 14)};
}

std::uint32_t avalanche(std::uint32_t v) {
  v = (v ^ (v >> 16)) * 0x85ebca6bu;
  v = (v ^ (v >> 13)) * 0xc2b2ae35u;
  return v ^ (v >> 16);
}

Hash finish(Hash sum, std::uint32_t size) {
  sum[0] += size;
  sum[1] += size * 0x9e3779b1u;
  sum[2] += ~size;
  sum[3] += size ^ 0x5bd1e995u;
  for (int round = 0; round < 2; ++round) {
    sum[0] += avalanche(sum[1]);
    sum[1] += avalanche(sum[2]);
    sum[2] += avalanche(sum[3]);
    sum[3] += avalanche(sum[0]);
  }
  return sum;
}

}  // namespace

std::span<const std::byte> spirv(std::string_view name) {
  for (const Embedded& e : kEmbedded)
    if (e.name == name) return std::as_bytes(std::span(e.bytes, e.size));
  return {};
}

std::span<const std::byte> cuda_fatbin() {
#ifdef KLAB_KERNELS_CUDA
  const Embedded& e = cuda_code::kEmbedded[0];
  return std::as_bytes(std::span(e.bytes, e.size));
#else
  return {};
#endif
}

std::span<const std::byte> cuda_calibration_fatbin() {
#ifdef KLAB_KERNELS_CUDA
  const Embedded& e = cuda_calibration::kEmbedded[0];
  return std::as_bytes(std::span(e.bytes, e.size));
#else
  return {};
#endif
}

std::span<const std::byte> hip_code([[maybe_unused]] std::string_view arch, [[maybe_unused]] bool calibration) {
#ifdef KLAB_KERNELS_HIP
  const std::string name =
      std::string(calibration ? "calibrate_" : "klab_") + std::string(arch.substr(0, arch.find(':')));
  for (const Embedded& e : hip_code_objects::kEmbedded)
    if (e.name == name) return std::as_bytes(std::span(e.bytes, e.size));
#endif
  return {};
}

Hash hash_on_host(std::span<const std::byte> bytes) {
  Hash sum{};
  const std::uint32_t words = static_cast<std::uint32_t>((bytes.size() + 3) / 4);
  for (std::uint32_t i = 0; i < words; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i * std::size_t{4},
                std::min<std::size_t>(4, bytes.size() - i * std::size_t{4}));
    const Hash h = mix_word(word, i);
    for (int k = 0; k < 4; ++k) sum[k] += h[k];
  }
  return finish(sum, static_cast<std::uint32_t>(bytes.size()));
}

}  // namespace klab::kernels
