// SPDX-License-Identifier: Apache-2.0
// Runs a variant and compares everything it leaves with the reference.
// Not here: the baseline's own facts (reference.h), the verdict's words (validate/judge.h).
#pragma once
#include "validate/judge.h"
#include "worker/reference.h"

namespace klab::worker {

struct Judged {
  validate::Evidence evidence;
  std::vector<replay::RegionDifference> differences;
  std::uint64_t checked_bytes = 0, masked_bytes = 0;
  ChunkList written;  // chunks that this variant was seen to change
};

/// Launches the variant from each image and on each mutated input. The capture is pristine before and after.
/// Errors: what a failed launch gives (the caller types it), bundle_corrupt.
Result<Judged> judge_variant(Loaded& loaded, const Reference& reference, const Variant& variant,
                             const Deadline& deadline);

/// Chunks that one launch from the pre-state changes: what must be restored when nothing is validated.
Result<ChunkList> observe_writes(Loaded& loaded, const Variant& variant, const Deadline& deadline);

/// The answer's form. `evidence` may have grown since (timed launches).
replay::Validation to_validation(const Judged& judged, const Reference& reference);

}  // namespace klab::worker
