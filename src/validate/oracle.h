// SPDX-License-Identifier: Apache-2.0
// Klab's own bad variants: what a kernel that cheats would leave in memory. A check is worth something only
// if it rejects them. Not here: real variants (worker/judge).
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "validate/bytes.h"

namespace klab::validate {

/// The state that a check looks at, chunk by chunk. All vectors have one entry for each chunk.
struct OracleInput {
  using State = std::vector<ByteBuffer>;
  std::vector<State> images;   // each starting state that variants run from (at least one)
  State expected;              // what the baseline leaves
  std::vector<Mask> written;   // bytes that the baseline writes
  std::vector<Mask> ignore;    // bytes that the check leaves out (nondeterministic)
  std::vector<State> inputs;   // other regions' bytes, cut into the same chunk sizes: copies to try
  /// The check itself, of one chunk; empty: bit by bit, without `ignore`.
  std::function<bool(std::size_t chunk, ByteView outcome)> accepts;
  /// In its place, where only the whole state can be judged.
  std::function<bool(const State& outcome)> accepts_state;
  /// Rounds a chunk of `expected` to half the precision of its types; empty: the check has no tolerance.
  std::function<void(std::size_t chunk, ByteBuffer& bytes)> halve;
};

/// Bad variants that must be caught before `correct` may be said, on some input. The others are left out where their
/// outcome is the right one: a kernel that copies an input is rightly equal to "copy of an input".
inline constexpr const char* kMustCatch[] = {"no-op", "zeros", "ones"};
inline constexpr const char* kHalfPrecision = "half precision";

/// Name of each bad variant -> whether the check turned its outcome down, from at least one of the images. "no-op"
/// writes nothing; "zeros" and "ones" write 0x00 and 0xff wherever the baseline writes; "constant" the first element
/// everywhere; "shuffle" the right elements in another order; "copy of an input" is there when an input of fitting
/// size is; "half precision" rounds what is right.
std::map<std::string, bool> run_oracle(const OracleInput& input);

/// The first that is not caught (kMustCatch first), or empty.
std::string uncaught(const std::map<std::string, bool>& oracle);
/// Whether one of kMustCatch is not caught: another input may tell it apart.
bool needs_other_input(const std::map<std::string, bool>& oracle);

}  // namespace klab::validate
