// SPDX-License-Identifier: Apache-2.0
// Klab's own bad variants: what a kernel that cheats would leave in memory. A check is worth something only
// if it rejects them. Not here: real variants (worker/judge).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "validate/bytes.h"

namespace klab::validate {

/// The state that a check looks at, chunk by chunk. All vectors have one entry for each chunk.
struct OracleInput {
  std::vector<std::vector<ByteBuffer>> images;  // each starting state that variants run from (at least one)
  std::vector<ByteBuffer> expected;             // what the baseline leaves
  std::vector<Mask> written;                    // bytes that the baseline writes
  std::vector<Mask> ignore;                     // bytes that the check leaves out (nondeterministic)
  std::vector<std::vector<ByteBuffer>>
      inputs;  // other regions' bytes, cut into the same chunk sizes: copies to try
};

/// Bad variants that must be caught before `correct` may be said; the others are shown only: a kernel that
/// copies an input is rightly equal to "copy of an input".
inline constexpr const char* kMustCatch[] = {"no-op", "zeros", "ones"};

/// Name of each bad variant -> whether comparing its outcome with `expected` found a difference, from at
/// least one of the images. "no-op" writes nothing; "zeros" and "ones" write 0x00 and 0xff wherever the
/// baseline writes; "shuffle" writes the right elements in another order; "copy of an input" is there when an
/// input of fitting size is.
std::map<std::string, bool> run_oracle(const OracleInput& input);

/// The first of kMustCatch that is not caught, or empty.
std::string uncaught(const std::map<std::string, bool>& oracle);

}  // namespace klab::validate
