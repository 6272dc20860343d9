// SPDX-License-Identifier: Apache-2.0
// Numbers that are the same on every machine for the same seed: a report is computed again elsewhere.
#pragma once
#include <cstddef>
#include <random>

namespace klab::measure {

/// From 0 to n-1. Multiply-shift rather than std::uniform_int_distribution, whose numbers differ between standard
/// libraries.
inline std::size_t pick(std::mt19937_64& random, std::size_t n) {
  return static_cast<std::size_t>((static_cast<unsigned __int128>(random()) * n) >> 64);
}

}  // namespace klab::measure
