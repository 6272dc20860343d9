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
  std::vector<replay::InputTried> inputs;
  std::uint64_t checked_bytes = 0, masked_bytes = 0;
  ChunkList written;  // chunks that this variant was seen to change
  /// Where the reference has no check of its own: by the hashes of what was judged right.
  std::optional<OutcomeCheck> own;
  bool wrong() const {
    return evidence.wrong != 0 || !evidence.outside.empty() || !evidence.checker_refused.empty() ||
           !evidence.wrong_launch.empty() || !evidence.redzone.empty();
  }
};

/// What differs, region by region.
struct Found {
  std::uint64_t wrong = 0;  // bytes, or elements beyond their tolerance
  std::vector<validate::RegionReport> regions;
  void add(const Loaded& loaded, const validate::Comparator& comparator, const Loaded::Chunk& chunk,
           const validate::ByteBuffer& expected, const validate::ByteBuffer& now, const validate::Mask& ignore);
  /// "first in region 1 (out) at offset 4, element [1]: expected 1, got 0"
  std::string sentence(const Loaded& loaded) const;
  std::vector<replay::RegionDifference> differences(const Loaded& loaded) const;
  std::uint64_t differing_bytes() const;
};

/// Launches the variant from each image and on each mutated input. The capture is pristine before and after.
/// Errors: what a failed launch gives (the caller types it), bundle_corrupt.
Result<Judged> judge_variant(Loaded& loaded, const Reference& reference, const Variant& variant,
                             const Deadline& deadline);

/// Launches of a variant that has variables of its own, which keep what earlier launches left, as they do in a program.
/// The capture is pristine before and after.
Status judge_memory(Loaded& loaded, const Reference& reference, const Variant& variant, Judged& judged,
                    const Deadline& deadline);

/// One mutated input. The capture is pristine before and after.
Status judge_mutated(Loaded& loaded, const Reference& reference, const MutatedCase& input, const Variant& variant,
                     Judged& judged, const Deadline& deadline);

/// What a launch with widened bindings writes to redzones, and whether its result depends on what lies there: over two
/// fillings. Empty texts: nothing. The capture is pristine before and after.
struct Redzones {
  std::string wrote, reads;
};
Result<Redzones> observe_redzones(Loaded& loaded, const Reference& reference, const replay::VariantCode& code,
                                  const Variant& variant, const Deadline& deadline);

/// Other launch sizes that were declared: captured kernel and variant must agree on them too. What the variant
/// overrides itself cannot be varied, and is said in its inputs.
Status judge_launches(Loaded& loaded, const Reference& reference, const replay::VariantCode& code,
                      const std::vector<replay::LaunchOverride>& launches, Judged& judged, const Deadline& deadline);

/// Chunks that one launch from the pre-state changes: what must be restored when nothing is validated.
Result<ChunkList> observe_writes(Loaded& loaded, const Variant& variant, const Deadline& deadline);

/// The answer's form. `evidence` may have grown since (timed launches).
replay::Validation to_validation(const Judged& judged, const Reference& reference, const Loaded& loaded,
                                 std::uint32_t seed);

}  // namespace klab::worker
