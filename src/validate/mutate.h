// SPDX-License-Identifier: Apache-2.0
// Other inputs made from captured ones: seeded, reproducible, and bounded so that most kernels survive them.
// Not here: whether the baseline survives (worker/probe tries it in a process of its own).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "validate/element.h"

namespace klab::validate {

/// permute_words: 4-byte words change places (values and index ranges stay). float_values: finite floating-point
/// elements are halved, kept or doubled and may change sign, within the range that their region has; a few become zero
/// where both signs occur. small_integers:
/// 32-bit words up to 2^20 move by at most 3, never below zero. scramble_bytes: every byte changes; for
/// kernels without indices or pointers.
enum class MutationKind { permute_words, float_values, small_integers, scramble_bytes };
KLAB_JSON_ENUM(MutationKind, permute_words, float_values, small_integers, scramble_bytes)

/// A region that changes, and the range that its floating-point values have.
struct MutationTarget {
  std::uint32_t region = 0;
  bool negative = true;       // there are values of both signs: a value may change its own
  double largest = 1e300;     // magnitude
  bool zeros = false;         // zeros change too: what the kernel adds to is often empty when it starts
};

struct Mutation {
  MutationKind kind = MutationKind::permute_words;
  std::vector<MutationTarget> targets;
  std::uint32_t seed = 1;
  /// Every value stays in its region's range and means the same, so that a right variant is right there too.
  bool bounded = false;
  const MutationTarget* target(std::uint32_t region) const;
};
void to_json(Json& j, const Mutation& v);
void from_json(const Json& j, Mutation& v);
/// "regions 0, 1 with floats changed (seed 7)"
std::string to_string(const Mutation& v);

/// Changes `bytes`, the chunk at `offset` of a region that is a target, in place. The same mutation always gives
/// the same bytes. Words that `keep` sets (pointers into the capture) stay as they are. `floats`: where
/// floating-point elements lie; empty: every 4-byte word may be one.
void mutate(std::span<std::byte> bytes, const Mutation& mutation, std::uint32_t region, std::uint64_t offset,
            const Mask& keep = {}, std::span<const Lane> floats = {});

/// Takes the values of a chunk into a target's range: `negative` and `largest` grow. Start with {region, false, 0}.
void widen(MutationTarget& target, ByteView bytes, std::uint64_t offset, std::span<const Lane> floats);

/// Nine words of ten are zero or ordinary floats (magnitude between 2^-40 and 2^40), and some are not zero.
bool looks_like_floats(ByteView bytes);

}  // namespace klab::validate
