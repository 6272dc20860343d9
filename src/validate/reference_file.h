// SPDX-License-Identifier: Apache-2.0
// Float64 values of an independent computation, and how far results are from them. Foreign bytes.
// Not here: which region they belong to (worker/reference.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "validate/element.h"

namespace klab::validate {

/// A .npy file (format 1 to 3, little-endian float64, C order; NumPy's format description) or plain little-endian
/// float64 values. Errors: not_found, invalid_data, cap_reached.
Result<std::vector<double>> read_reference(const std::string& file, std::uint64_t most_values = 1ull << 28);
/// The same of bytes in memory.
Result<std::vector<double>> parse_reference(ByteView bytes, const std::string& source, std::uint64_t most_values = 1ull << 28);

/// Distance from reference values: largest and root mean square, absolute.
struct Error64 {
  double largest = 0, sum_of_squares = 0;
  std::uint64_t elements = 0, unusable = 0;  // unusable: NaN or infinity on one side only
  void add(double reference, double value);
  double root_mean_square() const;
  /// Neither figure is more than `times` that of `baseline`, and nothing more is unusable.
  bool within(const Error64& baseline, double times) const;
};

}  // namespace klab::validate
