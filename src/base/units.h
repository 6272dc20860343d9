// SPDX-License-Identifier: Apache-2.0
// Quantities as people read them. JSON carries plain numbers with the unit in the member's name.
#pragma once
#include <cstdint>
#include <string>

namespace klab {

/// "1.5 MiB", "64 B".
std::string format_bytes(std::uint64_t bytes);
/// "12.3 us", "4.56 ms": three significant digits.
std::string format_ns(double nanoseconds);
/// A size such as "64", "64K", "1.5GiB" (powers of 1024). Returns false when it is not one, or over 2^63.
bool parse_bytes(const std::string& text, std::uint64_t& bytes);

}  // namespace klab
