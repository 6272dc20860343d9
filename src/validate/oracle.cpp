// SPDX-License-Identifier: Apache-2.0
#include "validate/oracle.h"

#include <algorithm>

#include "base/error.h"

namespace klab::validate {
namespace {

using State = OracleInput::State;
/// Writes chunk `k` of a bad outcome into `bytes`, which hold the starting image.
using BadWrite = std::function<void(std::size_t k, ByteBuffer& bytes)>;

bool right_from(const OracleInput& in, const State& image, const BadWrite& bad) {
  for (std::size_t k = 0; k < in.expected.size(); ++k) {
    ByteBuffer bytes = image[k];
    bad(k, bytes);
    if (compare(in.expected[k], bytes, in.ignore[k]).count != 0) return false;
  }
  return true;
}

bool caught_from(const OracleInput& in, const State& image, const BadWrite& bad) {
  State all;
  for (std::size_t k = 0; k < in.expected.size(); ++k) {
    ByteBuffer bytes = image[k];
    bad(k, bytes);
    if (in.accepts_state)
      all.push_back(std::move(bytes));
    else if (in.accepts ? !in.accepts(k, bytes) : compare(in.expected[k], bytes, in.ignore[k]).count != 0)
      return true;
  }
  return in.accepts_state && !in.accepts_state(all);
}

// Variants must agree from every image, so a bad one is caught when one image shows it.
bool caught(const OracleInput& in, const BadWrite& bad) {
  return std::any_of(in.images.begin(), in.images.end(),
                     [&](const State& image) { return caught_from(in, image, bad); });
}

/// Its outcome is the right one from every image: it is no bad variant of this kernel.
bool right(const OracleInput& in, const BadWrite& bad) {
  return std::all_of(in.images.begin(), in.images.end(),
                     [&](const State& image) { return right_from(in, image, bad); });
}

BadWrite constant(const OracleInput& in, std::byte value) {
  return [&in, value](std::size_t k, ByteBuffer& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (in.written[k].test(i)) bytes[i] = value;
  };
}

BadWrite copy_of(const OracleInput& in, const State& source) {
  return [&in, &source](std::size_t k, ByteBuffer& bytes) {
    for (std::size_t i = 0; i < bytes.size() && i < source[k].size(); ++i)
      if (in.written[k].test(i)) bytes[i] = source[k][i];
  };
}

BadWrite first_element(const OracleInput& in) {
  // The first element that is written at all, wherever it lies.
  ByteBuffer element;
  for (std::size_t k = 0; k < in.expected.size() && element.empty(); ++k)
    for (std::size_t i = 0; i + kElement <= in.expected[k].size() && element.empty(); i += kElement)
      if (in.written[k].test(i))
        element.assign(in.expected[k].begin() + static_cast<std::ptrdiff_t>(i),
                       in.expected[k].begin() + static_cast<std::ptrdiff_t>(i + kElement));
  return [&in, element](std::size_t k, ByteBuffer& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (in.written[k].test(i)) bytes[i] = element.empty() ? in.expected[k][i] : element[i % kElement];
  };
}

// Each written element takes the value of the next one (round the chunk).
BadWrite shuffle(const OracleInput& in) {
  return [&in](std::size_t k, ByteBuffer& bytes) {
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i + kElement <= bytes.size(); i += kElement)
      if (in.written[k].test(i)) at.push_back(i);
    for (std::size_t n = 0; n < at.size(); ++n) {
      const std::size_t from = at[(n + 1) % at.size()];
      std::copy_n(in.expected[k].begin() + static_cast<std::ptrdiff_t>(from), kElement,
                  bytes.begin() + static_cast<std::ptrdiff_t>(at[n]));
    }
    // Elements that do not move are what the baseline wrote.
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const bool in_element =
          i / kElement * kElement + kElement <= bytes.size() && in.written[k].test(i / kElement * kElement);
      if (!in_element && in.written[k].test(i)) bytes[i] = in.expected[k][i];
    }
  };
}

}  // namespace

std::map<std::string, bool> run_oracle(const OracleInput& in) {
  KLAB_CHECK(in.written.size() == in.expected.size() && in.ignore.size() == in.expected.size());
  std::map<std::string, bool> result;
  auto shown = [&](const char* name, const BadWrite& bad) {
    if (right(in, bad)) return;
    const bool is_caught = caught(in, bad);
    const auto it = result.find(name);
    if (it == result.end())
      result[name] = is_caught;
    else
      it->second = it->second && is_caught;
  };
  result["no-op"] = caught(in, [](std::size_t, ByteBuffer&) {});
  result["zeros"] = caught(in, constant(in, std::byte{0}));
  result["ones"] = caught(in, constant(in, std::byte{0xff}));
  shown("constant", first_element(in));
  shown("shuffle", shuffle(in));
  for (const State& source : in.inputs) shown("copy of an input", copy_of(in, source));
  if (in.halve)
    shown(kHalfPrecision, [&](std::size_t k, ByteBuffer& bytes) {
      bytes = in.expected[k];
      in.halve(k, bytes);
    });
  return result;
}

bool needs_other_input(const std::map<std::string, bool>& oracle) {
  return std::any_of(std::begin(kMustCatch), std::end(kMustCatch), [&](const char* name) {
    const auto it = oracle.find(name);
    return it == oracle.end() || !it->second;
  });
}

std::string uncaught(const std::map<std::string, bool>& oracle) {
  for (const char* name : kMustCatch) {
    const auto it = oracle.find(name);
    if (it == oracle.end() || !it->second) return name;
  }
  for (const auto& [name, is_caught] : oracle)
    if (!is_caught) return name;
  return {};
}

}  // namespace klab::validate
