// SPDX-License-Identifier: Apache-2.0
// Other inputs made from captured ones: seeded, reproducible, and bounded so that most kernels survive them.
// Not here: whether the baseline survives (worker/probe tries it in a process of its own).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "validate/bytes.h"

namespace klab::validate {

/// permute_words: 4-byte words change places (values and index ranges stay). float_values: finite 32-bit
/// floats change sign and exponent by at most one; words that are no ordinary float stay. small_integers:
/// 32-bit words up to 2^20 move by at most 3, never below zero. scramble_bytes: every byte changes; for
/// kernels without indices or pointers.
enum class MutationKind { permute_words, float_values, small_integers, scramble_bytes };
KLAB_JSON_ENUM(MutationKind, permute_words, float_values, small_integers, scramble_bytes)

struct Mutation {
  MutationKind kind = MutationKind::permute_words;
  std::uint32_t region = 0;
  std::uint32_t seed = 1;
};
void to_json(Json& j, const Mutation& v);
void from_json(const Json& j, Mutation& v);
/// "words of region 1 permuted (seed 7)"
std::string to_string(const Mutation& v);

/// Changes `bytes`, the chunk at `offset` of the mutation's region, in place. The same mutation always gives
/// the same bytes. Words that `keep` sets (pointers into the capture) stay as they are.
void mutate(std::span<std::byte> bytes, const Mutation& mutation, std::uint64_t offset,
            const Mask& keep = {});

/// Nine words of ten are zero or ordinary floats (magnitude between 2^-40 and 2^40), and some are not zero.
bool looks_like_floats(ByteView bytes);

}  // namespace klab::validate
