// SPDX-License-Identifier: Apache-2.0
// What the baseline does to the loaded capture: what it writes, what comes out, what varies, and the starting
// images that variants are judged from. The oracle of all validation here. Not here: judging variants
// (judge_variant.h).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "validate/mutate.h"
#include "worker/device_check.h"
#include "worker/probe.h"
#include "worker/variant.h"

namespace klab::worker {

/// A mutated input on which the baseline is known to run, and what it gives there.
struct MutatedCase {
  validate::Mutation mutation;
  std::vector<kernels::Hash> after;                  // of all chunks
  std::map<ChunkId, validate::ByteBuffer> expected;  // of chunks that the baseline changed there
  /// Images 0 the mutated input, 1 the pre-state, of the region's and the written chunks; empty when they are
  /// too large to keep on the device.
  std::optional<Restorer> states;
};

struct Reference {
  ChunkList written;          // chunks; the vectors below follow its order
  std::vector<Image> images;  // [0] the pre-state; then, if anything may be poisoned, poisons 0 and 1
  Image expected;             // after the baseline
  std::vector<validate::Mask> written_bytes, write_only, varying, dependent;
  std::vector<kernels::Hash> expected_hashes;  // of `expected`
  std::uint64_t varying_elements = 0, written_elements = 0;
  std::string captured_difference;  // how the baseline here differs from the captured outcome; empty: not
  std::vector<std::string> notes;
  std::map<std::string, bool> oracle;  // over all inputs below
  bool mutation_needed = false;        // the captured input alone lets a bad variant pass
  std::vector<MutatedCase> cases;
  std::uint32_t mutations_dropped = 0;

  // On the device, for as long as the placement lasts.
  std::optional<Restorer> restorer;  // of `images`
  std::optional<DeviceCheck> check;  // of `expected` in hashable chunks; empty when there is no room for it

  bool poisoned() const { return images.size() > 1; }
  /// Chunks whose every byte is checkable by hash.
  ChunkList hashable() const;
};

struct ReferenceOptions {
  bool full = true;  // images, variation and oracle; else only what is written and what comes out
  std::uint32_t seed = 1;
};

/// Runs the baseline. The capture is in its pre-state before and after. `probed` may be empty (nothing is
/// poisoned). Errors: those of running.
Result<Reference> make_reference(Loaded& loaded, const Variant& baseline, const Probed& probed,
                                 const ReferenceOptions& options, const Deadline& deadline);

/// Finds mutated inputs that let Klab's bad variants be caught where the captured one does not, and one more
/// where floats can be changed. Fills in oracle, cases and what was dropped.
Status add_mutated_cases(Reference& reference, Loaded& loaded, const Variant& baseline,
                         const replay::Request& request, const Deadline& deadline);

/// Makes `restorer` and `check`. Errors: out_of_memory (of the restorer).
Status put_on_device(Reference& reference, Loaded& loaded);

/// Puts the pre-state back: written chunks from the device, whatever else changed from the host. Returns what
/// that was.
Result<ChunkList> put_back(const Reference& reference, Loaded& loaded, const Deadline& deadline);

/// Uploads a mutated region; make_pristine() takes it back.
Status apply_mutation(Loaded& loaded, const validate::Mutation& mutation);

/// Seconds that a launch may take before it counts as hanging: the first compiles.
inline constexpr double kLaunchTimeout = 60;

}  // namespace klab::worker
