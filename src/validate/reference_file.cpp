// SPDX-License-Identifier: Apache-2.0
#include "validate/reference_file.h"

#include <cmath>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "base/files.h"

namespace klab::validate {

Result<std::vector<double>> parse_reference(ByteView bytes, const std::string& source, std::uint64_t most_values) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, kMagic.size()) == kMagic) {
    auto bad = [&](std::string_view why) {
      return fail(ErrorCode::invalid_data, fmt::format("{}: {}", source, why),
                  "numpy.save(file, array.astype('<f8')) writes one that fits");
    };
    if (text.size() < 12) return bad("the .npy header is cut short");
    const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
    const std::size_t length_bytes = byte(6) == 1 ? 2 : 4;
    if (byte(6) < 1 || byte(6) > 3) return bad("this version of .npy is not known");
    std::size_t header = byte(8) | byte(9) << 8;
    if (length_bytes == 4) header |= static_cast<std::size_t>(byte(10)) << 16 | static_cast<std::size_t>(byte(11)) << 24;
    const std::size_t start = 8 + length_bytes;
    if (header > text.size() - start) return bad("the .npy header is cut short");
    const std::string_view described = text.substr(start, header);
    if (described.find("'<f8'") == std::string_view::npos) return bad("it holds no little-endian float64 values");
    if (described.find("'fortran_order': False") == std::string_view::npos) return bad("its values are not in C order");
    bytes = bytes.subspan(start + header);
  }
  if (bytes.size() % 8 != 0 || bytes.empty())
    return fail(ErrorCode::invalid_data, fmt::format("{}: {} bytes are no float64 values", source, bytes.size()));
  if (bytes.size() / 8 > most_values)
    return fail(ErrorCode::cap_reached, fmt::format("{}: more than {} values", source, most_values));
  std::vector<double> values(bytes.size() / 8);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Result<std::vector<double>> read_reference(const std::string& file, std::uint64_t most_values) {
  KLAB_TRY(const auto text, read_file(file, most_values * 8 + (1 << 20)));
  return parse_reference(std::as_bytes(std::span(text)), file, most_values);
}

void Error64::add(double reference, double value) {
  ++elements;
  if (!std::isfinite(reference) || !std::isfinite(value)) {
    const bool same = std::isnan(reference) ? std::isnan(value) : reference == value;
    if (!same) ++unusable;
    return;
  }
  const double d = std::abs(value - reference);
  largest = std::max(largest, d);
  sum_of_squares += d * d;
}

double Error64::root_mean_square() const {
  return elements == 0 ? 0 : std::sqrt(sum_of_squares / static_cast<double>(elements));
}

bool Error64::within(const Error64& baseline, double times) const {
  return largest <= times * baseline.largest && root_mean_square() <= times * baseline.root_mean_square() &&
         unusable <= baseline.unusable;
}

}  // namespace klab::validate
