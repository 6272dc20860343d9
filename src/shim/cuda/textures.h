// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects that are alive, by the handle that the program's words hold.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace klab::shim {

struct Texture {
  bool surface = false;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC sampling{};
  bool has_view = false;  // a resource view changes how it is read
};

/// Thread: any.
class Textures {
 public:
  void created(std::uint64_t handle, const Texture& texture);
  void destroyed(std::uint64_t handle);
  std::unordered_map<std::uint64_t, Texture> alive() const;
  void after_fork();

 private:
  mutable std::mutex lock_;
  std::unordered_map<std::uint64_t, Texture> alive_;
};
Textures& textures();

/// "float", "unsigned_int8": CUarray_format without its prefix; null: none that is captured.
const char* format_name(CUarray_format format);
/// Bytes of one channel; 0: none that is captured.
unsigned format_bytes(CUarray_format format);

}  // namespace klab::shim
