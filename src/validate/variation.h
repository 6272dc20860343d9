// SPDX-License-Identifier: Apache-2.0
// What varies from run to run of one kernel on one input, and what never agrees with a captured outcome.
// Not here: running it (worker/proof, worker/reference).
#pragma once
#include "validate/bytes.h"

namespace klab::validate {

/// Watches one chunk over several runs. Elements of four bytes vary as a whole.
class Variation {
 public:
  /// `wanted`: the captured outcome, or empty when there is none.
  void add_run(ByteView outcome, ByteView wanted = {});
  const ByteBuffer& first() const { return first_; }
  std::uint32_t runs() const { return runs_; }
  /// Elements that were not the same in all runs.
  Mask varying() const;
  /// Bytes that differed from `wanted` in every run and lie in no varying element.
  Mask never_agreed() const;

 private:
  ByteBuffer first_;
  Mask varies_, differs_always_;
  std::uint32_t runs_ = 0;
};

}  // namespace klab::validate
