// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/textures.h"

#include <new>

namespace klab::shim {

Textures& textures() {
  static Textures* const the = new Textures;
  return *the;
}

void Textures::created(std::uint64_t handle, const Texture& texture) {
  std::lock_guard hold(lock_);
  alive_[handle] = texture;
}

void Textures::destroyed(std::uint64_t handle) {
  std::lock_guard hold(lock_);
  alive_.erase(handle);
}

std::unordered_map<std::uint64_t, Texture> Textures::alive() const {
  std::lock_guard hold(lock_);
  return alive_;
}

void Textures::after_fork() { new (&lock_) std::mutex; }

const char* format_name(CUarray_format format) {
  switch (static_cast<int>(format)) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return "unsigned_int8";
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return "unsigned_int16";
    case CU_AD_FORMAT_UNSIGNED_INT32:
      return "unsigned_int32";
    case CU_AD_FORMAT_SIGNED_INT8:
      return "signed_int8";
    case CU_AD_FORMAT_SIGNED_INT16:
      return "signed_int16";
    case CU_AD_FORMAT_SIGNED_INT32:
      return "signed_int32";
    case CU_AD_FORMAT_HALF:
      return "half";
    case CU_AD_FORMAT_FLOAT:
      return "float";
    default:
      return nullptr;
  }
}

unsigned format_bytes(CUarray_format format) {
  switch (static_cast<int>(format)) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

}  // namespace klab::shim
