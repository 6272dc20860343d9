// SPDX-License-Identifier: Apache-2.0
// For the tests of backends that pass kernel arguments in one buffer (CUDA, HIP).
#pragma once
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace klab::gpu {

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto b = std::as_bytes(std::span(values));
  return {b.begin(), b.end()};
}

/// A parameter buffer, each value at its own alignment.
class Arguments {
 public:
  template <class T>
  Arguments& add(T value) {
    bytes_.resize((bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T));
    std::memcpy(bytes_.data() + bytes_.size() - sizeof(T), &value, sizeof(T));
    return *this;
  }
  operator std::vector<std::byte>() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace klab::gpu
