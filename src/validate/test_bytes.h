// SPDX-License-Identifier: Apache-2.0
// For tests: values as the bytes of a region.
#pragma once
#include <cstring>
#include <vector>

#include "validate/bytes.h"

namespace klab::validate {

template <class T>
ByteBuffer bytes_of(const std::vector<T>& v) {
  ByteBuffer b(v.size() * sizeof(T));
  if (!b.empty()) std::memcpy(b.data(), v.data(), b.size());
  return b;
}

}  // namespace klab::validate
